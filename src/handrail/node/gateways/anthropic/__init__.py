"""Anthropic's Messages, from the side of the server: requests are read here and replies are written."""
