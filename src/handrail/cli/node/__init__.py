"""Commands that serve: `handrail serve` and `handrail worker`."""
