"""Peers of handrail, each doing the same work in an environment of its own, pinned by the text file of its name."""
