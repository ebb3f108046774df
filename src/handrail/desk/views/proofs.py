"""The record as people look at it: runs, and each entry of one with what a browser needs to check it by itself."""

from __future__ import annotations

import asyncio
import io
import tempfile
import zipfile
from datetime import UTC
from pathlib import Path

import msgspec
from msgspec import Struct

from handrail.core.display import count_text
from handrail.core.errors import JournalError, UsageError
from handrail.core.events import (
    CallAmended,
    CallAsked,
    CallIntended,
    CallSettled,
    ConfirmationAnswered,
    ConfirmationRequested,
    ConversationChanged,
    Recorded,
    ReplyFailed,
    ReplyGiven,
    RunFinished,
    RunResumed,
    RunStarted,
    ToolsOffered,
)
from handrail.core.messages import AssistantMessage
from handrail.desk.values import FileDownload
from handrail.desk.views.journal_index import JournalIndex, RunListing, SignedEntries
from handrail.desk.views.values import DayUsage, EntryRow, RunPage, RunRow, RunTrace
from handrail.journal.auditing import export_run, prove
from handrail.journal.entry import decode_event
from handrail.journal.reader import JournalReader, JournalRow
from handrail.journal.telemetry import RING
from handrail.journal.trace import recorded_trace, recorded_usage
from handrail.sessions.store.content import ContentError
from handrail.sessions.store.port import Conversations

PAGE = 200
"""Runs, or entries of a run, that are told at once at most."""
INLINE = 16 * 1024
"""Bytes of a body that is sent with its entry."""
_TOGETHER = 512 * 1024
"""Bytes of all bodies that are sent with their entries."""
_LARGEST = 32 * 1024 * 1024
_SPANS = 1_000
"""The most spans of a trace that are sent."""
_SAYS = 300
_NAMED = 3
"""Tools of a run that are told with it."""
_HOW = "handrail proof export"


class RunList(Struct, frozen=True):
    runs: tuple[RunRow, ...]
    more: bool


class EntryBody(Struct, frozen=True):
    salt: str
    body: str


class ProofViews:
    def __init__(self, record: JournalIndex, store: Conversations) -> None:
        self._record = record
        self._store = store

    async def runs(self, before: str | None = None, limit: int = 50, search: str = "") -> RunList:
        """The newest first; those that began before a run; those whose id, title, state or tools hold these words."""
        return await asyncio.to_thread(self._list, before, min(max(1, limit), PAGE), search.strip().casefold())

    async def run(self, run: str, first: int = 0, limit: int = 100, size: int | None = None) -> RunPage:
        """One page of a run. With the `size` of an earlier page, it stands under the same checkpoint.

        Raises:
            UsageError: There is no such run.
            BrokenProof: The journal was changed.
        """
        return await asyncio.to_thread(self._page, run, max(0, first), min(max(1, limit), PAGE), size)

    async def trace(self, run: str) -> RunTrace:
        """The time and tokens of a run, span by span.

        Raises:
            UsageError: There is no such run.
        """
        return await asyncio.to_thread(self._trace, run)

    async def usage(self) -> tuple[DayUsage, ...]:
        """What each model did each day, in UTC, as the last entries of the record have it."""
        return await asyncio.to_thread(self._usage)

    async def body(self, run: str, seq: int) -> EntryBody:
        """The body of an entry.

        Raises:
            UsageError: There is no such entry, or it has no body any more, or one that is too long for a page.
        """
        return await asyncio.to_thread(self._body, run, seq)

    async def bundle(self, run: str) -> FileDownload:
        """The proof bundle of a run, as a zip.

        Raises:
            JournalError: There is no such run, or the journal was changed.
        """
        return await asyncio.to_thread(self._bundle, run)

    async def receipt(self, run: str, call: str) -> FileDownload:
        """The receipt of one call, as a file.

        Raises:
            JournalError: There is no such call, or the journal was changed.
        """
        found = await asyncio.to_thread(lambda: prove(self._record.path, call, run=run))
        return FileDownload(
            name=f"{file_name_of_id(call)}.receipt.json", media_type="application/json", data=found.to_json().encode()
        )

    # ── in a thread ──────────────────────────────────────────────────────────────────

    def _list(self, before: str | None, limit: int, search: str) -> RunList:
        titles = self._titles() if search else {}
        states, more = self._record.runs(before, limit, lambda state: not search or _fits(state, titles, search))
        return RunList(tuple(_row(state, self._title(state.summary.run)) for state in states), more)

    def _titles(self) -> dict[str, str]:
        return {about.id: about.title for about in self._store.list()}

    def _title(self, run: str) -> str:
        try:
            return self._store.about(run).title
        except (UsageError, ContentError):
            return ""  # most runs are not a conversation, and one that cannot be read has no title to show

    def _page(self, run: str, first: int, limit: int, size: int | None) -> RunPage:
        found = self._record.signed(run, first, limit, size)
        return RunPage(
            row=_row(found.state, self._title(run)),
            entries=_entries(found),
            first=first,
            count=found.count,
            checkpoint=found.checkpoint,
            verifier_key=found.verifier_key,
            size=found.size,
        )

    def _trace(self, run: str) -> RunTrace:
        with JournalReader(self._record.path, still=True) as reader:
            if reader.begin(run) is None:
                raise UsageError(f"there is no run {run[:100]!r} in the record")
            return recorded_trace(reader, run, _SPANS)

    def _usage(self) -> tuple[DayUsage, ...]:
        with JournalReader(self._record.path, still=True) as reader:
            return recorded_usage(reader, max(0, reader.end() - RING), UTC)

    def _body(self, run: str, seq: int) -> EntryBody:
        entry = self._record.entry(run, seq)
        if entry.data is None or entry.salt is None:
            raise UsageError(f"entry {seq} has no body, or it was erased")
        if len(entry.data) > _LARGEST:
            raise UsageError(f"the body of entry {seq} is too long for a page; use: {_HOW} {run}")
        return EntryBody(entry.salt.hex(), entry.data.decode(errors="replace"))

    def _bundle(self, run: str) -> FileDownload:
        with tempfile.TemporaryDirectory(prefix="handrail-proof-") as folder:
            name = f"{file_name_of_id(run)}.proof"
            made = export_run(self._record.path, run, Path(folder) / name)
            files = sorted(path for path in made.rglob("*") if path.is_file())
            if sum(path.stat().st_size for path in files) > _LARGEST:
                raise UsageError(f"the bundle of this run is too large for a page; use: {_HOW} {run}")
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
                for path in files:
                    archive.write(path, str(path.relative_to(made.parent)))
        return FileDownload(name=f"{name}.zip", media_type="application/zip", data=packed.getvalue())


def file_name_of_id(id: str) -> str:
    """Ids are anybody's text; the name of a file is not made from anybody's text."""
    name = "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "-" for letter in id)
    return name.strip(".")[:100] or "run"


def _fits(state: RunListing, titles: dict[str, str], search: str) -> bool:
    run = state.summary.run
    said = (run, titles.get(run, ""), _state_in_words(state), *state.tools)
    return any(search in each.casefold() for each in said)


def _row(state: RunListing, title: str) -> RunRow:
    found = state.summary
    return RunRow(
        run=found.run,
        started=found.started,
        ended=found.last if found.finished is not None else 0,
        calls=found.calls,
        failed=found.errors,
        in_doubt=found.in_doubt,
        entries=found.entries,
        state=_state_in_words(state)[:_SAYS],
        title=title,
        tools=tuple(sorted(state.tools)[:_NAMED]),
    )


def _state_in_words(state: RunListing) -> str:
    """The text as `handrail proof list` prints it."""
    found = state.summary
    if found.finished is not None:
        return found.finished
    if state.waiting:
        return "waiting"
    return f"open, {found.open} unanswered" if found.open else "open"


def _entries(found: SignedEntries) -> tuple[EntryRow, ...]:
    rows, room = [], _TOGETHER
    for entry, proof in found.entries:
        size = len(entry.data or b"")
        shown = size <= min(INLINE, room)
        room -= size if shown else 0
        rows.append(_entry(entry, proof, shown))
    return tuple(rows)


def _entry(entry: JournalRow, proof: tuple[bytes, ...], shown: bool) -> EntryRow:
    event = _event(entry, shown)
    size = _size(entry.leaf)
    return EntryRow(
        seq=entry.seq,
        type=entry.type,
        at=entry.at,
        leaf=entry.leaf.decode(errors="replace"),
        proof=tuple(step.hex() for step in proof),
        says="cannot be read" if event is None else _says(event)[:_SAYS],
        call_id=entry.call or "",
        tool=getattr(event, "tool", ""),
        salt=None if entry.salt is None or not shown else entry.salt.hex(),
        body=None if entry.data is None or not shown else entry.data.decode(errors="replace"),
        erased=size is not None and entry.data is None,
        body_size=size or 0,
    )


def _event(entry: JournalRow, shown: bool) -> Recorded | None:
    try:
        return decode_event(entry.leaf, entry.data if shown else None)
    except JournalError:
        return None


class _BodyReference(Struct):
    size: int = 0


class _HasBody(Struct):
    body: _BodyReference | None = None


def _size(leaf: bytes) -> int | None:
    """Bytes of its body, as the leaf says; None if it has none."""
    try:
        found = msgspec.json.decode(leaf, type=_HasBody).body
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return None if found is None else found.size


def _says(event: Recorded) -> str:
    match event:
        case RunStarted(principal=who):
            return f"begun, for {who}"
        case RunResumed(principal=who):
            return f"resumed, for {who}"
        case RunFinished(reason=reason):
            return f"ended: {reason}"
        case ToolsOffered(tools=tools):
            return f"{len(tools)} tools offered"
        case ConversationChanged(messages=messages, keep=keep):
            return (
                f"messages after the first {keep}"
                if messages is None
                else f"{len(messages)} messages, after the first {keep}"
            )
        case ReplyGiven(model=model, input_tokens=taken, output_tokens=given):
            return f"{model} replied, {taken} tokens in and {given} out{_says_besides(event)}"
        case ReplyFailed(model=model, attempt=attempt, error=error):
            return f"{model}, attempt {attempt} failed: {error}"
        case _:
            return _says_of_call(event)


def _says_besides(reply: ReplyGiven) -> str:
    """What the service added to a reply: names of the calls that it ran, sources, pictures and files."""
    said = [message for message in reply.messages or () if isinstance(message, AssistantMessage)]
    made = [call.name for message in said for call in message.service_calls]
    cited, media = sum(len(message.citations) for message in said), sum(len(message.media) for message in said)
    ran = f"; the service ran {', '.join(made)}" if made else ""
    return (
        ran
        + (f"; {count_text(cited, 'citation')}" if cited else "")
        + (f"; {count_text(media, 'file')}" if media else "")
    )


def _says_of_call(event: Recorded) -> str:
    match event:
        case CallAsked(tool=tool):
            return f"{tool} requested, not run"
        case CallIntended(tool=tool, side_effects=effects):
            return f"{tool} begins{', to change something' if effects else ''}"
        case CallSettled(tool=tool, outcome=outcome, duration_us=took):
            return f"{tool}: {outcome}, after {took / 1000:,.1f} ms"
        case CallAmended(tool=tool, outcome=outcome, why=why):
            return f"{tool}, known later: {outcome} ({'a person says' if why == 'person' else 'ended late'})"
        case ConfirmationRequested(tool=tool):
            return f"{tool} waits for approval"
        case ConfirmationAnswered(decision=decision, by=by, edited=edited, reason=reason):
            word = "denied" if decision == "deny" else "allowed with other arguments" if edited else "allowed"
            return f"{word} by {by}{f': {reason}' if reason else ''}"
    return str(event.__struct_config__.tag)
