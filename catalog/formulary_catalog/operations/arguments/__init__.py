"""Arguments of tools and endpoints that several subjects or edges share."""
