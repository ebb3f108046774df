"""The progress of a run beyond the events of its calls and replies, for watchers. It is not recorded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from handrail.core.events import Event


class IterationStarted(Struct, frozen=True, tag="rlm.iteration", kw_only=True):
    """The root model is asked for its next turn."""

    run: str
    index: int
    """The number of the turn, from 1."""
    of: int
    depth: int = 0


class CellRunning(Struct, frozen=True, tag="rlm.cell", kw_only=True):
    """A piece of code begins to run."""

    run: str
    block: int
    """The number of the block in its reply, from 1."""
    of: int
    code: str
    depth: int = 0


class CellRan(Struct, frozen=True, tag="rlm.cell.ran", kw_only=True):
    run: str
    block: int
    ending: str
    seconds: float
    depth: int = 0


class QueriesInFlight(Struct, frozen=True, tag="rlm.queries", kw_only=True):
    """The number of queries to models that are under way, and of those that were answered."""

    run: str
    in_flight: int
    done: int
    depth: int = 0


class RunSpent(Struct, frozen=True, tag="rlm.spent", kw_only=True):
    """What the run and everything below it has used so far."""

    run: str
    tokens: int
    cost: float | None = None
    depth: int = 0


class ReplRebuilt(Struct, frozen=True, tag="rlm.rebuilt", kw_only=True):
    """The variables of the REPL were made again, from a dump or by running code again on recorded answers."""

    run: str
    calls: int
    """The number of `repl` calls whose code was run again; 0 if a dump had everything."""
    whole: bool
    depth: int = 0


Progress = IterationStarted | CellRunning | CellRan | QueriesInFlight | RunSpent | ReplRebuilt

Watch = Callable[[Event | Progress], Awaitable[None] | None]
"""Told of everything. What it raises ends the run before its next turn, and nothing more is told until then."""
