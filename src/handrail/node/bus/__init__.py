"""The capability bus: what nodes offer each other, over every wire by the same rules."""
