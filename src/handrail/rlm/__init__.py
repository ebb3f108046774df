"""A model that explores what no window holds: it writes Python that reads the context, asks models and calls tools.

`RLM` answers a question over a context; `llm_query` and `llm_query_batched` are what
its code has, as async functions. Code of a model runs in a sandbox, never here.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.rlm.contexts.load import Files as Files
    from handrail.rlm.query.functions import llm_query as llm_query, llm_query_batched as llm_query_batched
    from handrail.rlm.query.queries import Queries as Queries
    from handrail.rlm.query.spending import Spending as Spending
    from handrail.rlm.record.trajectory import RLMLogger as RLMLogger
    from handrail.rlm.rlm import RLM as RLM
    from handrail.rlm.socket.handler import LMHandler as LMHandler
    from handrail.rlm.socket.socket_model import SocketModel as SocketModel
    from handrail.rlm.socket.wire import send_lm_request as send_lm_request
    from handrail.rlm.values import (
        LMRequest as LMRequest,
        LMResponse as LMResponse,
        RLMChatCompletion as RLMChatCompletion,
        RLMIteration as RLMIteration,
    )

export_lazily(
    __name__,
    {
        "handrail.rlm.contexts.load": "Files",
        "handrail.rlm.query.functions": "llm_query llm_query_batched",
        "handrail.rlm.query.queries": "Queries",
        "handrail.rlm.query.spending": "Spending",
        "handrail.rlm.record.trajectory": "RLMLogger",
        "handrail.rlm.rlm": "RLM",
        "handrail.rlm.socket.handler": "LMHandler",
        "handrail.rlm.socket.socket_model": "SocketModel",
        "handrail.rlm.socket.wire": "send_lm_request",
        "handrail.rlm.values": "LMRequest LMResponse RLMChatCompletion RLMIteration",
    },
)
