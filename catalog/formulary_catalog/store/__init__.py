"""PostgreSQL: the one place where SQL lives."""
