"""`llm.chat` on the wire: its schemas, its messages and its frames, for whoever asks and whoever answers."""
