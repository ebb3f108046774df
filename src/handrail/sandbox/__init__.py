"""Places for code that nobody vouches for. They know nothing of tools, models or runs."""
