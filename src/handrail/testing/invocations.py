"""An invocation made by hand, to call a tool's function without a session."""

from __future__ import annotations

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.dependencies import Deps
from handrail.core.invocation import Invocation


def invocation(deps: Deps, idempotency_key: str = "key") -> Invocation[Deps]:
    """Make an `Invocation[…]` for a function that takes one: `find_order(invocation(Shop(fake)), id="17")`.

    The function runs as plain Python: nothing is validated, asked about or recorded.
    """
    return Invocation(ToolCall("call", "test"), {}, Context(deps=deps), idempotency_key)
