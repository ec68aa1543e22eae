"""The tools of the MCP server, a module a toolset."""
