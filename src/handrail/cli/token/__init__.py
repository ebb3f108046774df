"""`handrail token`: tokens of this node."""
