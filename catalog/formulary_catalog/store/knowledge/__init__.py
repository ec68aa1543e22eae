"""Documents of the knowledge collections: written, embedded, found."""
