"""A run as a tree: turns, their code, the questions that the code asked, and the runs that those began.

It has all that a report shows, wherever it was read from, and nothing of how it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from handrail.rlm.values import UsageSummary


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
    used: UsageSummary = field(default_factory=UsageSummary)
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
    used: UsageSummary | None = None
    notes: tuple[str, ...] = ()

    @property
    def queries(self) -> Iterator[ReportQuery]:
        return (query for block in self.blocks for query in block.queries)

    @property
    def failed(self) -> bool:
        return any(block.error for block in self.blocks)


@dataclass(frozen=True, slots=True)
class ReportProof:
    """The state of the record when it was checked."""

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
    used: UsageSummary = field(default_factory=UsageSummary)
    """The usage by model, of everything that was asked below."""
    facts: tuple[tuple[str, str], ...] = ()
    """What it was begun with."""
    started: str = ""
    id: str = ""
    proof: ReportProof | None = None
    notes: tuple[str, ...] = ()
    """What is missing here, and why."""

    @property
    def queries(self) -> int:
        """The queries of this run, without those of runs below."""
        return sum(1 for turn in self.turns for _ in turn.queries)
