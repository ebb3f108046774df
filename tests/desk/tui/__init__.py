"""The terminal program, driven by its own pilot over a real desk."""
