"""What a turn costs: a hand-written loop, handrail and its peers against one mock service."""
