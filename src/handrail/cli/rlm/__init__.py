"""`handrail rlm`: questions over contexts that no window holds."""
