"""What a search asks, and how candidates are scored and shown. Pure."""
