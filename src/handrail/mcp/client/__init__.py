"""Using MCP servers: each is an ensemble, behind a connection that repairs itself."""
