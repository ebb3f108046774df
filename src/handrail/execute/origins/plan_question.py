"""The question to a person about a whole plan. It goes the way of every question: by the approver, on record, bound."""

from __future__ import annotations

from handrail.core.errors import UsageError
from handrail.tools.tool import Tool


async def plan(steps: list[str]) -> None:
    """Everything that the model wants to do for your words, stated before it has read anything.

    One word allows each step once, with these arguments, or with what the named fields of earlier results say.
    """
    raise UsageError("a plan is asked about; it is not called")


PLAN_QUESTION: Tool = Tool.from_function(plan, side_effects=True)
