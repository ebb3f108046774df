"""Sessions: `create_llm`, `LLM`, `Session`, and conversations on disk."""
