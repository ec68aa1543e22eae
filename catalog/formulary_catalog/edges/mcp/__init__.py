"""The MCP server: tools, resources and transports."""
