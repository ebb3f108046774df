"""The four domains: tools as an ordinary application has them, over a state in memory."""
