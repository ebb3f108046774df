"""`handrail confirm`: calls that wait for a person."""
