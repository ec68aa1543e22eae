"""Commands that read the catalog, over a server or a database."""
