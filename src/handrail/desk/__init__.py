"""The desk: what a person does with models and tools, for the page and for the terminal program alike."""
