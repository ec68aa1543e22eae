"""The arguments of tools and endpoints, a module a subject."""
