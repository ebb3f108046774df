"""Commands and helpers around the configuration and its approval."""
