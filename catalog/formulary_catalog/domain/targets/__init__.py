"""Context from the target: what is broken, and what its owners demand."""
