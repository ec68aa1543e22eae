"""Schema `insight`: the connection for SQL of callers, and what its tables hold."""
