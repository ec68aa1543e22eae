"""The edges of the catalog: MCP over HTTP and stdio, REST, the console, health and metrics (DESIGN 7, 8, 14)."""
