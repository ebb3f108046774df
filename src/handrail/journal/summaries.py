"""What a list of entries says about runs and calls. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from handrail.core.errors import JournalError
from handrail.core.events import CallAmended, CallAsked, CallIntended, CallSettled, Recorded


class RunSummary(Struct, frozen=True, kw_only=True):
    run: str
    started: int
    last: int
    entries: int
    calls: int
    """Answered calls."""
    errors: int
    """Answers that were not `ok`."""
    in_doubt: int
    """Answered calls of which nobody knows yet whether they took effect."""
    open: int
    """Calls that began and have no answer, nor a person's decision: at work now, or cut off."""
    finished: str | None
    """Why the run ended; None if it goes on or was cut off."""


class CallRecord(Struct, frozen=True, kw_only=True):
    """Everything that is known of one call."""

    run: str
    call_id: str
    tool: str
    asked: CallAsked | None = None
    """What was asked, of a call that never came to run."""
    intent: CallIntended | None = None
    answer: CallSettled | None = None
    amendments: tuple[CallAmended, ...] = ()

    @property
    def in_doubt(self) -> bool:
        """Whether an effect was begun that nobody knows the end of, and no person has said since what became of it."""
        began = self.intent is not None and self.intent.side_effects
        unknown = self.answer is None or self.answer.outcome == "in_doubt"
        return began and unknown and not any(each.why == "person" for each in self.amendments)


class _LeafFields(Struct, frozen=True, gc=False):
    """The two fields of a leaf that a summary needs."""

    outcome: str = ""
    reason: object = ""


_said = msgspec.json.Decoder(_LeafFields)


def _read(leaf: bytes) -> _LeafFields:
    try:
        return _said.decode(leaf)
    except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        raise JournalError(f"an entry cannot be read ({error}); run: handrail proof verify") from error


class RunTally:
    """Counts the entries of one run, without reading more of a leaf than it needs."""

    __slots__ = ("calls", "doubtful", "entries", "errors", "finished", "last", "open", "started")

    def __init__(self, started: int) -> None:
        self.started = self.last = started
        self.entries = self.calls = self.errors = 0
        self.open: set[str | None] = set()
        self.doubtful: set[str | None] = set()
        self.finished: str | None = None

    def feed(self, kind: str, call: str | None, at: int, leaf: bytes) -> None:
        self.entries += 1
        self.last = at
        match kind:
            case "call.intended":
                self.open.add(call)
            case "call.settled":
                self._settle(call, _read(leaf).outcome)
            case "call.amended" if call in self.open:  # it was cut off: a person's decision is its answer
                self._settle(call, _read(leaf).outcome)
            case "call.amended":
                self.doubtful.discard(call)
            case "run.started" | "run.resumed":
                self.finished = None
            case "run.finished":
                self.finished = str(_read(leaf).reason)

    def _settle(self, call: str | None, outcome: str) -> None:
        self.open.discard(call)
        self.calls += 1
        self.errors += outcome != "ok"
        if outcome == "in_doubt":
            self.doubtful.add(call)

    def summary(self, run: str) -> RunSummary:
        return RunSummary(
            run=run,
            started=self.started,
            last=self.last,
            entries=self.entries,
            calls=self.calls,
            errors=self.errors,
            in_doubt=len(self.doubtful),
            open=len(self.open),
            finished=self.finished,
        )


_OfCall = CallAsked | CallIntended | CallSettled | CallAmended


def call_records(events: Iterable[Recorded]) -> list[CallRecord]:
    """The calls in the order in which they began. An intent after an answer is another call, whatever its id."""
    found: list[CallRecord] = []
    latest: dict[tuple[str, str], int] = {}
    for event in events:
        if not isinstance(event, CallAsked | CallIntended | CallSettled | CallAmended):
            continue
        key = (event.run, event.call_id)
        at = latest.get(key)
        if at is None or (found[at].answer is not None and not isinstance(event, CallAmended)):
            at = latest[key] = len(found)
            found.append(CallRecord(run=event.run, call_id=event.call_id, tool=event.tool))
        found[at] = _with(found[at], event)
    return found


def _with(record: CallRecord, event: _OfCall) -> CallRecord:
    match event:
        case CallAsked():
            return msgspec.structs.replace(record, asked=event)
        case CallIntended():
            return msgspec.structs.replace(record, intent=event)
        case CallSettled():
            return msgspec.structs.replace(record, answer=event)
        case CallAmended():
            return msgspec.structs.replace(record, amendments=(*record.amendments, event))
