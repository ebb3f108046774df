"""A run as a tree: turns, their code, the questions that the code asked, and the runs that those began.

It has all that a report shows, wherever it was read from, and nothing of how it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReportUsage:
    """What models were used for."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """In US dollars; None where no price is known."""

    def plus(self, other: ReportUsage) -> ReportUsage:
        known = [cost for cost in (self.cost, other.cost) if cost is not None]
        return ReportUsage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            sum(known) if known else None,
        )


@dataclass(frozen=True, slots=True)
class ReportMessage:
    """One message of a conversation."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportQuery:
    """One question that code asked of a model."""

    model: str
    prompt: tuple[ReportMessage, ...]
    answer: str
    seconds: float = 0.0
    used: ReportUsage = ReportUsage()
    error: str = ""
    run: str = ""
    between: tuple[ReportMessage, ...] = ()
    """Calls of tools and their results, on the way to the answer."""
    nested: ReportRun | None = None
    """The run that it began, if the model had a REPL of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBlock:
    """One piece of code and what it did."""

    code: str
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    seconds: float = 0.0
    names: tuple[tuple[str, str], ...] = ()
    """Variables and their types, or what they held."""
    queries: tuple[ReportQuery, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTurn:
    """One reply of the root model and what became of it."""

    number: int
    reply: str
    asked: tuple[ReportMessage, ...] = ()
    """What the model was told since its last turn."""
    blocks: tuple[ReportBlock, ...] = ()
    final: str | None = None
    seconds: float = 0.0
    used: ReportUsage | None = None
    notes: tuple[str, ...] = ()

    @property
    def queries(self) -> Iterator[ReportQuery]:
        return (query for block in self.blocks for query in block.queries)

    @property
    def failed(self) -> bool:
        return any(block.error for block in self.blocks)


@dataclass(frozen=True, slots=True)
class ReportProof:
    """Where the record stood when it was checked."""

    root: str
    """The hash over all entries."""
    entries: int
    verified: bool


BELOW = "The runs below this one are left out here."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRun:
    model: str
    question: str = ""
    answer: str | None = None
    partial: bool = False
    """A limit ended the run."""
    why: str = ""
    """Which limit or error ended it."""
    turns: tuple[ReportTurn, ...] = ()
    seconds: float = 0.0
    used: tuple[tuple[str, ReportUsage], ...] = ()
    """By model; of everything that was asked below."""
    facts: tuple[tuple[str, str], ...] = ()
    """What it was begun with."""
    started: str = ""
    id: str = ""
    proof: ReportProof | None = None
    notes: tuple[str, ...] = ()
    """What is missing here, and why."""

    @property
    def total(self) -> ReportUsage:
        return together(used for _, used in self.used)

    @property
    def queries(self) -> int:
        """Of this run; those of runs below are theirs."""
        return sum(1 for turn in self.turns for _ in turn.queries)


def together(used: Iterable[ReportUsage]) -> ReportUsage:
    total = ReportUsage()
    for each in used:
        total = total.plus(each)
    return total


def by_model(used: Iterable[tuple[str, ReportUsage]]) -> tuple[tuple[str, ReportUsage], ...]:
    """Sums for each model, in the order in which they were first asked."""
    sums: dict[str, ReportUsage] = {}
    for model, each in used:
        sums[model] = sums.get(model, ReportUsage()).plus(each)
    return tuple(sums.items())
