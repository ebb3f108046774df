"""What `handrail.app` makes of a configuration."""
