"""What can be asked, each said once; the edges derive from it."""
