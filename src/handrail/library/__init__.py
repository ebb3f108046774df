"""Ensembles that come with handrail: `io`, `probability` and `summarization`."""
