"""The node over HTTP: the bus, the gateways and what operators look at."""
