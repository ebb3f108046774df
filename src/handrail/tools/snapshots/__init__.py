"""The tools and models of a node as source files, for programs that want to know them when they are compiled."""
