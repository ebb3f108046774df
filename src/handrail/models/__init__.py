"""Models: a codec for each wire. Transport, retries, keys and clocks are shared, and elsewhere."""
