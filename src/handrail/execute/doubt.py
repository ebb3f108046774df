"""A side effect that a dead process had begun: find out what became of it, or say that nobody knows."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from handrail.core.calls import ToolResult
from handrail.core.errors import InDoubt, ToolError, describe
from handrail.core.invocation import Invocation
from handrail.execute.attempt import Attempt
from handrail.execute.output import normal
from handrail.execute.policy import Policy


async def reconciled(attempt: Attempt, policy: Policy) -> ToolResult | None:
    """The result of a call that was begun before, or None if it may run now.

    A read, or an idempotent effect, simply runs again with the key it had. Any
    other effect is put to its tool's `reconcile`.

    Raises:
        InDoubt: Nobody knows whether it took effect. It is not run again.
    """
    tool, begun = attempt.tool, attempt.recorder.ledger.open.get(attempt.call.id)
    if tool is None or begun is None:
        return None
    attempt.key = begun.key
    if tool.reusable:
        return None
    if tool.reconcile is None:
        raise InDoubt(_words(tool.name, "whether it took effect is not known"))
    invocation = Invocation(attempt.call, attempt.arguments, attempt.context, begun.key)
    try:
        found = await asyncio.wait_for(_asked(tool.reconcile, invocation), tool.definition.timeout or policy.timeout)
        if found is None:
            attempt.grant = begun.grant  # it never ran, so the word given for it still stands
            return None
        output = normal(found, "arguments")
    except ToolError as error:
        raise InDoubt(_words(tool.name, error.message)) from error
    except Exception as error:
        raise InDoubt(_words(tool.name, f"finding out failed ({describe(error)})")) from error
    return ToolResult(attempt.call.id, attempt.call.name, output.output, warnings=output.warnings)


async def _asked(reconcile: Any, invocation: Invocation) -> Any:
    if inspect.iscoroutinefunction(reconcile):
        return await reconcile(invocation)
    found = await asyncio.to_thread(reconcile, invocation)
    return await found if inspect.isawaitable(found) else found


def _words(tool: str, why: str) -> str:
    return f"{tool!r} was under way when the process ended, and {why}; do not repeat it, ask a person to check"
