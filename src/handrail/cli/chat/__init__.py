"""`handrail chat`: a conversation in the terminal."""
