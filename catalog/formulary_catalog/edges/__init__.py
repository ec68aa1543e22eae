"""Where requests come in: MCP, REST, the console, commands."""
