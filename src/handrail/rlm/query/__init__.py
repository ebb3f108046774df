"""Asking models from code: one query, many, with tools and handlers; what they cost."""
