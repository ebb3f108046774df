"""What may flow where: the outcomes that a policy gives for what has no trusted origin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from handrail.core.errors import UsageError

FlowOutcome = Literal["ask", "deny", "allow"]
UntrustedResults = Literal["shown", "handles"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """Which values may go where. `directs`, `unasked` and `private` are the finer rules of
    `Policy(after_untrusted="origins")`; each is `ask`, `deny` or `allow`."""

    directs: FlowOutcome = "ask"
    """Once the run has read words from outside: an argument that directs an effect, or says what is sent out, and has
    no trusted origin."""
    unasked: FlowOutcome = "ask"
    """Once the run has read words from outside: an effect that the person's words do not ask for."""
    private: FlowOutcome = "ask"
    """A private value in what leaves, where the person's words do not name it."""
    untrusted_results: UntrustedResults = "shown"
    """Whether the model reads words from outside, or is given handles for them, which it can pass on as content, and
    the extract that their tool declares."""

    def __post_init__(self) -> None:
        for name in FLOW_RULES:
            if getattr(self, name) not in get_args(FlowOutcome):
                raise UsageError(f"flows.{name} is 'ask', 'deny' or 'allow', not {getattr(self, name)!r}")
        if self.untrusted_results not in get_args(UntrustedResults):
            raise UsageError(f"flows.untrusted_results is 'shown' or 'handles', not {self.untrusted_results!r}")


FLOW_RULES = ("directs", "unasked", "private")
"""The rules that have an outcome each."""
