"""Analytics: SQL of callers over the views of schema `insight`."""
