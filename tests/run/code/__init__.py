"""Code that calls tools, at the doors where a user stands."""
