"""Guards for the tools of other frameworks: their agents stay as they are, and every call goes through the executor.

Names are loaded when they are first used, and a framework when a tool of it is guarded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.core.lazy_names import export_lazily

if TYPE_CHECKING:
    from handrail.adapters.agent_framework import GuardFunctionMiddleware as GuardFunctionMiddleware
    from handrail.adapters.guarding import guard as guard
    from handrail.adapters.langchain import GuardMiddleware as GuardMiddleware

export_lazily(
    __name__,
    {
        "handrail.adapters.agent_framework": "GuardFunctionMiddleware",
        "handrail.adapters.guarding": "guard",
        "handrail.adapters.langchain": "GuardMiddleware",
    },
)
