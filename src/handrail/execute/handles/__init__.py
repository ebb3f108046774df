"""Handles: words from outside that stay out of a model's sight, and what it can do with them all the same."""
