"""One erase: what a run or a person left anywhere in the state of a node.

The state is what lies beside a journal: conversations, long outputs, blobs and events. What tools and models did is
told from the journal alone (`handrail proof stats`), so nothing has to be erased there besides. The entries of the
journal stay, without their bodies: each has the digest of what was erased, with a salt that is erased too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from handrail.app.mcp_resources import owner_prefix
from handrail.core.context import LOCAL
from handrail.core.errors import UsageError
from handrail.core.events import RunResumed, RunStarted
from handrail.core.ids import run_and_above
from handrail.journal.lease import RunLeases
from handrail.journal.reader import JournalReader, erase_runs
from handrail.sessions.store.content import ContentError
from handrail.sessions.store.conversations import ConversationStore

_OUTPUT = re.compile(rb"out_[A-Za-z0-9_-]{1,124}")


class ErasureReport(Struct, frozen=True, kw_only=True):
    """What was erased, and what stays."""

    runs: tuple[str, ...]
    bodies: int
    """Arguments, results and messages in the journal."""
    conversations: tuple[str, ...]
    outputs: int
    blobs: int
    events: int
    entries_kept: int
    """Entries of the journal that stay for the proofs of the others: kind, time, ids, tool, outcome, digest."""


class Erasable(Struct, frozen=True, kw_only=True):
    """What would be erased."""

    runs: tuple[str, ...]
    conversations: tuple[str, ...]
    outputs: tuple[Path, ...]
    entries: int
    person: str | None


def find_run(journal: Path, run: str) -> Erasable:
    """What a run left, and the runs that it began.

    Raises:
        UsageError: There is no such run.
    """
    with JournalReader(journal) as reader:
        runs = [each for each in reader.runs_named(run) if run in run_and_above(each)]
    conversations = [each for each in _conversations(journal) if each == run]
    if not runs and not conversations:
        raise UsageError(f"there is no run {run!r}, and no conversation of this id; see: handrail proof list")
    return _found(journal, runs, conversations, None)


def find_person(journal: Path, person: str) -> Erasable:
    """What somebody left, by the name that their token gives them. Every run is looked at.

    Raises:
        UsageError: It is the name of this program itself.
    """
    if person == LOCAL.id:
        raise UsageError(f"{person!r} is this node's own user, whose state all of it is; remove its folder to erase it")
    with JournalReader(journal) as reader:
        begun = [run for run in reader.newest_runs() if person in _principals(reader, run)]
        runs = {each for run in begun for each in reader.runs_named(run) if run in run_and_above(each)}
    prefix = owner_prefix(person)
    conversations = [each for each in _conversations(journal) if each in runs or each.startswith(prefix)]
    return _found(journal, sorted(runs), conversations, person)


async def erase(journal: Path, what: Erasable, services: Path) -> ErasureReport:
    """Erase it. What is at work now is refused, and then nothing is erased.

    Raises:
        LeaseHeld: A program has one of the runs open.
        JournalError: The journal could not be changed.
    """
    leases = RunLeases.of(journal)
    with ExitStack() as held:
        for run in what.runs:
            held.callback(leases.take(run).release)
        for output in what.outputs:
            output.unlink(missing_ok=True)
        _delete_conversations(journal, what.conversations)
        blobs = events = 0
        if what.person is not None:
            blobs, events = await _erase_services(services, what.person)
        bodies = erase_runs(journal, what.runs)  # last: it says what else there was, if this was cut off
    return ErasureReport(
        runs=what.runs,
        bodies=bodies,
        conversations=what.conversations,
        outputs=len(what.outputs),
        blobs=blobs,
        events=events,
        entries_kept=what.entries,
    )


def _found(journal: Path, runs: list[str], conversations: list[str], person: str | None) -> Erasable:
    outputs: dict[Path, None] = {}
    entries = 0
    with JournalReader(journal) as reader:
        for run in runs:
            for entry in reader.entries_of(run):
                entries += 1
                for id in _OUTPUT.findall(entry.data or b"") if entry.type == "call.settled" else ():
                    outputs[journal.parent / "outputs" / f"{id.decode()}.txt"] = None
    return Erasable(
        runs=tuple(runs),
        conversations=tuple(conversations),
        outputs=tuple(path for path in outputs if path.is_file()),
        entries=entries,
        person=person,
    )


def _principals(reader: JournalReader, run: str) -> Iterator[str]:
    """Who began a run, and who took it up."""
    for entry in reader.entries_of(run, heads=True):
        if entry.type in ("run.started", "run.resumed") and isinstance(event := entry.event, RunStarted | RunResumed):
            yield event.principal


def _conversations(journal: Path) -> list[str]:
    return [each.id for each in ConversationStore(journal.parent).list()]


def _delete_conversations(journal: Path, ids: tuple[str, ...]) -> None:
    if not ids:
        return
    store = ConversationStore(journal.parent)
    for id in ids:
        store.delete(id)
    try:
        store.sweep()
    except ContentError as error:
        raise UsageError(
            f"the conversations are erased, but not their long contents: {error}; delete the damaged one,"
            " then erase again"
        ) from error


async def _erase_services(folder: Path, person: str) -> tuple[int, int]:
    from handrail.node.services.blobs import BlobStore  # only a node has them
    from handrail.node.services.event_log import EventLog

    blobs = events = 0
    if (folder / "blobs").is_dir():
        store = BlobStore(folder / "blobs")
        try:
            blobs = await store.delete_all(person)
        finally:
            store.close()
    if (folder / "events.db").is_file():
        log = EventLog(folder / "events.db")
        try:
            events = await log.delete_all(person)
        finally:
            log.close()
    return blobs, events
