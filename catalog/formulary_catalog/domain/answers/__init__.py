"""The answers of tools, endpoints and commands, and how large they may be. Pure."""
