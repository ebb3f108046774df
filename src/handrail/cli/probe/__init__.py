"""`handrail probe`: the same prompts for every model."""
