"""Models: a codec for each wire, two pure translations. Transport, retries, keys and clocks are shared, and elsewhere."""
