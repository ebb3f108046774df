"""`handrail proof`: the journal and its proofs."""
