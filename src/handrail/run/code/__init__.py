"""Code of a model that calls tools: the functions it sees, the interpreter it runs in, and who settles its calls."""
