"""How a search ranks."""
