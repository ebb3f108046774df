"""`handrail local`: the embedded model."""
