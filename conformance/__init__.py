"""The official MCP conformance suite, run against handrail's server and client, scenario by scenario."""
