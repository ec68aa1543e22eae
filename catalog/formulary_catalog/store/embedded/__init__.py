"""PostgreSQL of our own, for `formulary up` without a database server."""
