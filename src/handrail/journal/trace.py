"""A run as a waterfall: turns, calls, waits for a person and retries, with times and tokens.

A turn is one reply of a model; what comes of it stands below it. Its begin is when the tools were offered for it, or
what happened last before it. Times are milliseconds of the clock of whoever wrote the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.events import (
    CallAsked,
    CallIntended,
    CallSettled,
    ConfirmationAnswered,
    ConfirmationRequested,
    Recorded,
    ReplyFailed,
    ReplyGiven,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolsOffered,
)
from handrail.core.messages import AssistantMessage, Usage

if TYPE_CHECKING:
    from handrail.journal.reader import JournalReader

SpanKind = Literal["turn", "retry", "call", "wait", "run"]


class TraceSpan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that took time."""

    kind: SpanKind
    name: str
    """The model of a turn or of a retry; the tool of a call or of a wait; the id of a run that this one began."""
    start: int
    """Milliseconds since the run began."""
    ms: float = 0.0
    depth: int = 0
    """What it is inside of: a turn has 0, its calls 1, calls of those 2."""
    state: str = ""
    """The end of a reply or call; for a wait the answer and who gave it; for a retry the error. Empty: it is not
    over."""
    call_id: str = ""
    tokens: tuple[int, int] | None = None
    """The tokens of a reply, in and out."""
    cached: int = 0
    """The input tokens that were read from the cache."""
    cost: float | None = None


class TraceTotals(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sums of replies and calls."""

    turns: int = 0
    calls: int = 0
    failed: int = 0
    retries: int = 0
    waited_ms: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    """The cost in dollars of the replies whose cost is known; None if none is known."""


class RunTrace(Struct, frozen=True, kw_only=True, omit_defaults=True):
    run: str
    started: int
    ms: int
    """The time from the first entry to the last one."""
    spans: tuple[TraceSpan, ...]
    """The spans in the order in which they began."""
    totals: TraceTotals
    more: bool = False
    """Whether it has more spans than these."""
    state: str = ""
    """Why the run ended; empty while it goes on, or if it was cut off."""


class DayUsage(Struct, frozen=True, kw_only=True):
    """What one model did in one day."""

    day: str
    model: str
    totals: TraceTotals


def trace_of(run: str, events: Iterable[Recorded], begun: Mapping[str, Iterable[Recorded]] | None = None) -> RunTrace:
    """The trace of a run, with the runs that it `begun` inside of it."""
    made = _Trace(run)
    for event in events:
        made.take(event)
    spans = list(made.spans)
    for name, inside in (begun or {}).items():
        other = trace_of(name, inside)
        at = other.started - made.started
        spans.append(TraceSpan(kind="run", name=name, start=at, ms=other.ms, depth=1, state=other.state))
        spans += [replace(each, start=each.start + at, depth=each.depth + 2) for each in other.spans]
    ordered = tuple(sorted(spans, key=lambda span: span.start))
    last = max((round(span.start + span.ms) for span in ordered), default=0)
    return RunTrace(
        run=run,
        started=made.started,
        ms=max(made.last - made.started, last),
        spans=ordered,
        totals=_totals(ordered),
        state=made.state,
    )


def recorded_trace(reader: JournalReader, run: str, most: int | None = None) -> RunTrace:
    """The trace of a run of the journal, with the runs that it began; of its spans the first ones at `most`."""
    inside = sorted(reader.runs_named(f"{run}."))
    trace = trace_of(run, reader.events(run), {each: reader.events(each) for each in inside})
    return replace(trace, spans=trace.spans[:most], more=most is not None and len(trace.spans) > most)


def recorded_usage(reader: JournalReader, first: int = 0, zone: tzinfo | None = None) -> tuple[DayUsage, ...]:
    """What the models did by day, of the entries of the journal from this one on."""
    heads = reader.heads(first)
    return usage_by_day((reader.entry(each.seq).event for each in heads if each.type in _REPLIES), zone)


_REPLIES = ("reply.given", "reply.failed")


def usage_by_day(events: Iterable[Recorded], zone: tzinfo | None = UTC) -> tuple[DayUsage, ...]:
    """Replies and failed attempts by day and model, the newest day first. With None, days are those of this machine."""
    found: dict[tuple[str, str], TraceTotals] = {}
    for event in events:
        if not isinstance(event, ReplyGiven | ReplyFailed):
            continue
        key = f"{datetime.fromtimestamp(event.at / 1000, zone):%Y-%m-%d}", event.model
        span = _reply(event, event.at) if isinstance(event, ReplyGiven) else _retry(event, event.at)
        found[key] = _add(found.get(key, TraceTotals()), span)
    rows = sorted(sorted(found.items()), key=lambda item: item[0][0], reverse=True)
    return tuple(DayUsage(day=day, model=model, totals=totals) for (day, model), totals in rows)


class _Trace:
    def __init__(self, run: str) -> None:
        self.run = run
        self.started = self.last = 0
        self.state = ""
        self.spans: list[TraceSpan] = []
        self._open: dict[str, int] = {}
        """Where the spans of calls and waits stand that are not over, by call or request."""
        self._asks: int | None = None
        """Since when a model is being asked."""

    def take(self, event: Recorded) -> None:
        self.started = self.started or event.at
        before, self.last = self.last or event.at, max(self.last, event.at)
        at = event.at - self.started
        match event:
            case RunStarted() | RunResumed():
                self.state = ""
            case RunFinished(reason=reason):
                self.state = reason
            case ToolsOffered():
                self._asks = at
            case ReplyGiven() | ReplyFailed():
                begun = before - self.started if self._asks is None else self._asks
                made = _reply(event, begun) if isinstance(event, ReplyGiven) else _retry(event, begun)
                self.spans.append(replace(made, ms=max(0, at - begun)))
                self._asks = at + (event.delay_ms or 0) if isinstance(event, ReplyFailed) else None
            case ConfirmationRequested(request=request, tool=tool, call_id=call):
                self._begin(request, TraceSpan(kind="wait", name=tool, start=at, depth=1, call_id=call))
            case ConfirmationAnswered(request=request, decision=decision, by=by):
                self._end(request, at, f"{decision} by {by}")
            case CallIntended(call_id=call, tool=tool, depth=depth):
                self._begin(call, TraceSpan(kind="call", name=tool, start=at, depth=1 + depth, call_id=call))
            case CallSettled():
                self._settle(event, at)
            case CallAsked():
                pass  # what was refused before it began has its answer too

    def _settle(self, event: CallSettled, at: int) -> None:
        if event.call_id not in self._open:
            self._begin(
                event.call_id, TraceSpan(kind="call", name=event.tool, start=at, depth=1, call_id=event.call_id)
            )
        self._end(event.call_id, at, event.outcome, event.duration_us / 1000 if event.ran else None)

    def _begin(self, key: str, span: TraceSpan) -> None:
        self._open[key] = len(self.spans)
        self.spans.append(span)

    def _end(self, key: str, at: int, state: str, ms: float | None = None) -> None:
        if (place := self._open.pop(key, None)) is not None:
            span = self.spans[place]
            self.spans[place] = replace(span, ms=max(0, at - span.start) if ms is None else ms, state=state)


def _reply(event: ReplyGiven, start: int) -> TraceSpan:
    said = next((each for each in event.messages or () if isinstance(each, AssistantMessage)), None)
    usage = (said.usage if said is not None else None) or Usage()
    return TraceSpan(
        kind="turn",
        name=event.model,
        start=start,
        state=event.stop,
        tokens=(event.input_tokens, event.output_tokens),
        cached=usage.cached_tokens,
        cost=usage.cost,
    )


def _retry(event: ReplyFailed, start: int) -> TraceSpan:
    return TraceSpan(kind="retry", name=event.model, start=start, state=event.error)


def _totals(spans: Iterable[TraceSpan]) -> TraceTotals:
    found = TraceTotals()
    for span in spans:
        found = _add(found, span)
    return found


def _add(totals: TraceTotals, span: TraceSpan) -> TraceTotals:
    match span.kind:
        case "turn":
            taken, given = span.tokens or (0, 0)
            known = totals.cost is not None or span.cost is not None
            return replace(
                totals,
                turns=totals.turns + 1,
                input_tokens=totals.input_tokens + taken,
                output_tokens=totals.output_tokens + given,
                cached_tokens=totals.cached_tokens + span.cached,
                cost=(totals.cost or 0.0) + (span.cost or 0.0) if known else None,
            )
        case "retry":
            return replace(totals, retries=totals.retries + 1)
        case "wait":
            return replace(totals, waited_ms=totals.waited_ms + span.ms)
        case "call":
            return replace(totals, calls=totals.calls + 1, failed=totals.failed + (span.state not in ("ok", "")))
    return totals
