"""`handrail mcp`: MCP servers as tools, and tools as an MCP server."""
