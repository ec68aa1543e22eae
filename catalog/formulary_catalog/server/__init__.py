"""The edges of the catalog: MCP over HTTP and stdio, REST, health and metrics (DESIGN sections 7 and 8)."""
