"""How far a run may go, and what happens there. A limit never throws work away."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

from handrail.core.errors import Outcome, UsageError
from handrail.core.messages import Usage

OnLimit = Literal["finalise", "error", "stop"]

WRONG: frozenset[Outcome] = frozenset({"unknown_tool", "invalid_arguments", "forbidden"})
"""Outcomes of calls that the model got wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """One value for code and for the `[limits]` table of a file."""

    iterations: int = 6
    """Turns in which the model may call tools."""
    on_limit: OnLimit = "finalise"
    """What to do at the limits of iterations and wrong calls: ask once more for an answer without calls; raise
    `LimitExceeded`; or stop. At the limits of tokens, seconds and cost nothing is left to ask with, so `finalise` stops
    too."""
    calls_per_turn: int = 32
    """Calls past this many in one reply are answered with `limit` and not run."""
    tokens: int | None = None
    """Input and output of all replies together."""
    seconds: float | None = None
    cost: float | None = None
    """The cost in US dollars, as far as prices are known."""
    same_failure: int = 3
    """A call that failed so often with the same arguments is not run again in this run."""
    same_answer: int = 10
    """A read that gave the same answer so often to the same arguments is not run again in this run."""
    wrong_calls: int = 16
    """Calls of tools that are not there, or with arguments that do not fit, in one run; then as at the iterations."""
    wrong_answers: int = 3
    """Answers to one prompt that do not fit the type asked for, until `InvalidAnswer` is raised."""
    handoffs: int = 5
    """The number of times agents may hand a conversation on to each other before the user speaks again."""

    def __post_init__(self) -> None:
        if self.on_limit not in ("finalise", "error", "stop"):
            raise UsageError(f"on_limit is 'finalise', 'error' or 'stop', not {self.on_limit!r}")
        for name in ("iterations", "calls_per_turn", "same_failure", "same_answer", "wrong_calls", "wrong_answers"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)!r}")
        if self.handoffs < 0:
            raise UsageError(f"handoffs must be at least 0, not {self.handoffs!r}")

    def within(self, other: Limits) -> Limits:
        """The smaller one of each limit; what happens at a limit stays as it is."""
        both = ((name, getattr(self, name), getattr(other, name)) for name in _NUMBERS)
        least = {
            name: mine if theirs is None else theirs if mine is None else min(mine, theirs)
            for name, mine, theirs in both
        }
        return replace(self, **least)


_NUMBERS = tuple(each.name for each in fields(Limits) if each.name != "on_limit")


class RunBudget:
    """What one run has used up. The runs above it, whose calls led to it, have used that too."""

    def __init__(self, limits: Limits, now: float, above: RunBudget | None = None) -> None:
        self.limits = limits
        self._above = above
        self._own_deadline = None if limits.seconds is None else now + limits.seconds
        self._usage = Usage()
        self.turns = 0
        """Replies so far, since the user last spoke."""

    @property
    def deadline(self) -> float | None:
        """The earliest of this run and of those above it."""
        if self._above is None:
            return self._own_deadline
        each = (self._own_deadline, self._above.deadline)
        return min((deadline for deadline in each if deadline is not None), default=None)

    def limits_below(self, wanted: Limits) -> Limits:
        """How far a run may go that a call of this one begins: no further than this one may, its present turn included.
        Tokens, seconds and cost count here as they are used, so that several runs do not use them several times."""
        return wanted.within(replace(self.limits, iterations=max(self.limits.iterations - self.turns + 1, 1)))

    def spend(self, usage: Usage | None) -> None:
        if usage is not None:
            self._usage = self._usage.plus(usage)
            if self._above is not None:
                self._above.spend(usage)

    def exceeded(self, now: float) -> tuple[str, float] | None:
        """The limit that is reached, here or in a run above, if one is: its name and its value."""
        limits = self.limits
        if self._own_deadline is not None and limits.seconds is not None and now >= self._own_deadline:
            return "seconds", limits.seconds
        if limits.tokens is not None and self._usage.input_tokens + self._usage.output_tokens >= limits.tokens:
            return "tokens", float(limits.tokens)
        if limits.cost is not None and (self._usage.cost or 0.0) >= limits.cost:
            return "US dollars", limits.cost
        return None if self._above is None else self._above.exceeded(now)
