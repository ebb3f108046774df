"""`llm.chat` over any models, and `llm.tools.call`."""

from handrail.services.llm.service import LlmService

__all__ = ["LlmService"]
