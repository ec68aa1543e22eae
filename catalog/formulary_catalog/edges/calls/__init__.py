"""What MCP and REST share: parameters, arguments, the incident of a call, failures."""
