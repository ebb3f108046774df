"""Which tools were offered, picked and failed, how long they took, and which models replied: a view of the events."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from handrail.core.errors import Outcome
from handrail.core.events import CallIntended, CallSettled, Event, Recorded, ReplyFailed, ReplyGiven, ToolsOffered

RING = 10_000
"""The number of events that count as recent."""


class ToolTelemetry(Struct, frozen=True, kw_only=True):
    """What is known of the use of one tool."""

    tool: str
    offered: int
    """Turns in which a model was shown it."""
    picked: int
    """Calls to it."""
    failed: dict[Outcome, int]
    """Answers that were not `ok`, by outcome."""
    reused: int
    """Answers that were given from an earlier result."""
    p50_us: int
    p95_us: int
    total_us: int
    """Durations are of calls whose handler ran."""


class ModelTelemetry(Struct, frozen=True, kw_only=True):
    """What is known of the replies of one model."""

    model: str
    replies: int
    failed: dict[str, int]
    """Attempts that failed, by the code of their error."""


class Telemetry:
    """Counts as events come in. Keeps the last durations of each tool, as many as `window`."""

    def __init__(self, window: int = RING) -> None:
        self._window = window
        self._tools: dict[str, _ToolCounts] = {}
        self._open: set[tuple[str, str]] = set()
        self._replies: Counter[str] = Counter()
        self._attempts: dict[str, Counter[str]] = {}

    @classmethod
    def of(cls, events: Iterable[Event]) -> Telemetry:
        telemetry = cls()
        for event in events:
            telemetry.feed(event)
        return telemetry

    def feed(self, event: Event) -> None:
        match event:
            case ToolsOffered(tools=tools):
                for tool in tools:
                    self._counts(tool).offered += 1
            case CallIntended():
                self._open.add((event.run, event.call_id))
                self._counts(event.tool).picked += 1
            case CallSettled():
                self._settle(event)
            case ReplyGiven(model=model):
                self._replies[model] += 1
            case ReplyFailed(model=model):
                self._attempts.setdefault(model, Counter())[event.error] += 1

    def tools(self) -> list[ToolTelemetry]:
        """One line for each tool, by name."""
        return [counts.summary(tool) for tool, counts in sorted(self._tools.items())]

    def tool(self, name: str) -> ToolTelemetry:
        """What is known of one tool; all zero if it never appeared."""
        return self._tools.get(name, _ToolCounts(0)).summary(name)

    def models(self) -> list[ModelTelemetry]:
        """One line for each model, by name. A reply counts for the name that its service gave."""
        return [
            ModelTelemetry(
                model=model,
                replies=self._replies[model],
                failed=dict(sorted(self._attempts.get(model, Counter[str]()).items())),
            )
            for model in sorted({*self._replies, *self._attempts})
        ]

    def _settle(self, event: CallSettled) -> None:
        counts, key = self._counts(event.tool), (event.run, event.call_id)
        if key in self._open:
            self._open.remove(key)
        else:
            counts.picked += 1  # refused before it could be intended
        if event.outcome != "ok":
            counts.failed[event.outcome] += 1
        elif not event.ran and (event.result is None or event.result.reused_from is not None):
            counts.reused += 1  # an erased result no longer says whose it was
        if event.ran:
            counts.total_us += event.duration_us
            counts.durations.append(event.duration_us)

    def _counts(self, tool: str) -> _ToolCounts:
        if tool not in self._tools:
            self._tools[tool] = _ToolCounts(self._window)
        return self._tools[tool]


class EventRing:
    """Keeps the latest important events in memory: an `Emit` for programs without a journal."""

    def __init__(self, maxlen: int = RING) -> None:
        self._events: deque[Recorded] = deque(maxlen=maxlen)

    async def __call__(self, event: Event) -> None:
        if isinstance(event, Recorded):
            self._events.append(event)

    def __len__(self) -> int:
        return len(self._events)

    def recent(self, n: int = RING) -> list[Recorded]:
        """The last `n` events, oldest first."""
        return list(self._events)[-n:] if n > 0 else []

    def telemetry(self) -> Telemetry:
        return Telemetry.of(self._events)


class _ToolCounts:
    __slots__ = ("durations", "failed", "offered", "picked", "reused", "total_us")

    def __init__(self, window: int) -> None:
        self.offered = self.picked = self.reused = self.total_us = 0
        self.failed: Counter[Outcome] = Counter()
        self.durations: deque[int] = deque(maxlen=window)

    def summary(self, tool: str) -> ToolTelemetry:
        return ToolTelemetry(
            tool=tool,
            offered=self.offered,
            picked=self.picked,
            failed=dict(sorted(self.failed.items())),
            reused=self.reused,
            p50_us=_percentile(self.durations, 50),
            p95_us=_percentile(self.durations, 95),
            total_us=self.total_us,
        )


def _percentile(values: Iterable[int], percent: Literal[50, 95]) -> int:
    """The smallest value that so many percent of the values do not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[-(-len(ordered) * percent // 100) - 1] if ordered else 0
