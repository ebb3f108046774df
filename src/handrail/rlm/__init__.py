"""A model that explores what no window holds: it writes Python that reads the context, asks models and calls tools.

`RLM` answers a question over a context; `llm_query` and `llm_query_batched` are what
its code has, as async functions. Code of a model runs in a sandbox, never here.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import lazy_attributes

if TYPE_CHECKING:
    from handrail.rlm.contexts.load import Files
    from handrail.rlm.query.functions import llm_query, llm_query_batched
    from handrail.rlm.query.queries import Queries
    from handrail.rlm.query.spending import Spending
    from handrail.rlm.record.trajectory import RLMLogger
    from handrail.rlm.rlm import RLM
    from handrail.rlm.socket.handler import LMHandler
    from handrail.rlm.socket.socket_model import SocketModel
    from handrail.rlm.values import LMRequest, LMResponse, RLMChatCompletion, RLMIteration

_HOMES = {
    "Files": "handrail.rlm.contexts.load",
    "LMHandler": "handrail.rlm.socket.handler",
    "LMRequest": "handrail.rlm.values",
    "LMResponse": "handrail.rlm.values",
    "Queries": "handrail.rlm.query.queries",
    "RLM": "handrail.rlm.rlm",
    "RLMChatCompletion": "handrail.rlm.values",
    "RLMIteration": "handrail.rlm.values",
    "RLMLogger": "handrail.rlm.record.trajectory",
    "SocketModel": "handrail.rlm.socket.socket_model",
    "Spending": "handrail.rlm.query.spending",
    "llm_query": "handrail.rlm.query.functions",
    "llm_query_batched": "handrail.rlm.query.functions",
}

__all__ = [
    "RLM",
    "Files",
    "LMHandler",
    "LMRequest",
    "LMResponse",
    "Queries",
    "RLMChatCompletion",
    "RLMIteration",
    "RLMLogger",
    "SocketModel",
    "Spending",
    "llm_query",
    "llm_query_batched",
]

__getattr__, __dir__ = lazy_attributes(__name__, _HOMES)
