"""How commands print runs, calls and replies."""
