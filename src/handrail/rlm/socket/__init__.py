"""The socket protocol of RLMs, from both sides."""
