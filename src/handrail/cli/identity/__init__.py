"""`handrail identity`: the key of this node."""
