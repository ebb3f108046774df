"""A node: the capability bus and everything that reaches it: tokens, NATS, HTTP, gateways, services."""
