"""`handrail tui`: conversations, tools and proofs in a terminal, over the same desk as the page."""
