"""Models. A provider is a codec: two pure translations. Transport, retries, keys and clocks are shared and elsewhere."""
