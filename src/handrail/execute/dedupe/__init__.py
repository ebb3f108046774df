"""Answering a repeated call without running it again: memory, calls in flight, and the rules for both."""
