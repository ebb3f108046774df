"""`handrail eval`: your own cases for every model."""
