"""`handrail bus`: capabilities of other nodes."""
