"""What callers may ask about the catalog and its trail by SQL of their own: rules and answers."""
