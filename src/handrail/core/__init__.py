"""Values, events, errors and ports. Imports nothing of ours from above it."""
