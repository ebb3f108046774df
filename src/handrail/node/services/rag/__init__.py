"""Documents that can be asked: read, cut into chunks, indexed by words and by meaning, and found again."""
