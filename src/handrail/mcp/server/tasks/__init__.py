"""Long calls as tasks (`io.modelcontextprotocol/tasks`, SEP-2663): a client may ask how far they are, or not wait."""
