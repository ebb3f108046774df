"""`llm.chat` over any models, and `llm.tools.call`."""

from handrail.node.services.llm.service import LlmService

__all__ = ["LlmService"]
