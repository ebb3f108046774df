"""What may flow where: the outcomes that a policy gives for what has no trusted origin."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from handrail.core.errors import UsageError

FlowOutcome = Literal["ask", "deny", "allow"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """The finer rules of `Policy(after_untrusted="origins")`. Each is `ask`, `deny` or `allow`."""

    directs: FlowOutcome = "ask"
    """Once the run has read words from outside: an argument that directs an effect, or says what is sent out, and has
    no trusted origin."""
    unasked: FlowOutcome = "ask"
    """Once the run has read words from outside: an effect that the person's words do not ask for."""
    private: FlowOutcome = "ask"
    """A private value in what leaves, where the person's words do not name it."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) not in get_args(FlowOutcome):
                raise UsageError(f"flows.{each.name} is 'ask', 'deny' or 'allow', not {getattr(self, each.name)!r}")
