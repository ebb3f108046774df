"""Using MCP servers: each is an ensemble, behind a connection that mends itself."""
