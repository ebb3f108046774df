"""Being an MCP server: tools, resources and prompts for any client."""
