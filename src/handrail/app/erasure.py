"""Erasure: removes what a run or a person left anywhere in the state of a node.

The state is what lies beside a journal, or in the same database: conversations, long outputs, blobs and events. What
tools and models did is
told from the journal alone (`handrail proof stats`), so nothing has to be erased there besides. The entries of the
journal stay, without their bodies: each has the digest of what was erased, with a salt that is erased too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from handrail.app.mcp_resources import owner_prefix
from handrail.app.node_state import NodeState
from handrail.core.context import LOCAL
from handrail.core.errors import UsageError
from handrail.core.events import RunResumed, RunStarted
from handrail.core.ids import run_and_above
from handrail.core.ports import Clock
from handrail.journal.lease import RunLease, RunLeases
from handrail.journal.places import JournalPlace, file_of
from handrail.journal.reader import JournalReader, erase_runs
from handrail.sessions.store.content import ContentError

if TYPE_CHECKING:
    from handrail.journal.postgres_leases import StateLease
    from handrail.node.services.blobs import BlobStore
    from handrail.node.services.event_log import EventLog

TakeLease: TypeAlias = "Callable[[str], RunLease | StateLease]"
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
    outputs: tuple[str, ...]
    entries: int
    person: str | None


async def find_run(journal: JournalPlace, state: NodeState, run: str) -> Erasable:
    """What a run left, and the runs that it began.

    Raises:
        UsageError: There is no such run.
    """
    with JournalReader(journal) as reader:
        runs = [each for each in reader.runs_named(run) if run in run_and_above(each)]
    conversations = [each for each in _conversations(state) if each == run]
    if not runs and not conversations:
        raise UsageError(f"there is no run {run!r}, and no conversation of this id; see: handrail proof list")
    return await _found(journal, state, runs, conversations, None)


async def find_person(journal: JournalPlace, state: NodeState, person: str) -> Erasable:
    """What somebody left, by the name that their token gives them. Every run is looked at.

    Raises:
        UsageError: It is the name of this program itself.
    """
    if person == LOCAL.id:
        raise UsageError(f"{person!r} is this node's own user, whose state all of it is; to erase it, remove the whole")
    with JournalReader(journal) as reader:
        begun = [run for run in reader.newest_runs() if person in _principals(reader, run)]
        runs = {each for run in begun for each in reader.runs_named(run) if run in run_and_above(each)}
    prefix = owner_prefix(person)
    conversations = [each for each in _conversations(state) if each in runs or each.startswith(prefix)]
    return await _found(journal, state, sorted(runs), conversations, person)


async def erase(journal: JournalPlace, state: NodeState, what: Erasable, services: Path | None = None) -> ErasureReport:
    """Erase it. What is at work now is refused, and then nothing is erased.

    Args:
        services: The folder of blobs and events, if they are in files and not beside the journal.

    Raises:
        LeaseHeld: A program has one of the runs open.
        JournalError: The journal could not be changed.
    """
    with all_leased(journal, state, what.runs):
        outputs = await state.outputs().delete(what.outputs)
        _delete_conversations(state, what.conversations)
        blobs = events = 0
        if what.person is not None:
            blobs, events = await _erase_services(state, services, what.person)
        bodies = erase_runs(journal, what.runs)  # last: it says what else there was, if this was cut off
    return ErasureReport(
        runs=what.runs,
        bodies=bodies,
        conversations=what.conversations,
        outputs=outputs,
        blobs=blobs,
        events=events,
        entries_kept=what.entries,
    )


@contextmanager
def all_leased(journal: JournalPlace, state: NodeState, runs: Iterable[str]) -> Iterator[None]:
    """Holds the leases of these runs, so that nobody else works on them until the block ends.

    Raises:
        LeaseHeld: Somebody works on one of them, who is named.
        JournalError: The leases cannot be taken.
    """
    with opened_leases(journal, state) as take, ExitStack() as held:
        for run in runs:
            held.callback(take(run).release)
        yield


@contextmanager
def opened_leases(journal: JournalPlace, state: NodeState) -> Iterator[TakeLease]:
    """What takes the lease on a run of a journal, until the block ends."""
    if state.database is None:
        yield RunLeases.of(file_of(journal, "a lease in a file")).take
        return
    from handrail.journal.postgres_journal import HEARTBEAT
    from handrail.journal.postgres_leases import PostgresLeases  # psycopg is loaded where a state is used

    with closing(PostgresLeases(state.database, HEARTBEAT)) as leases:
        yield lambda run: leases.calls.submit(leases.take, run).result()


async def _found(
    journal: JournalPlace, state: NodeState, runs: list[str], conversations: list[str], person: str | None
) -> Erasable:
    named: dict[str, None] = {}
    entries = 0
    with JournalReader(journal) as reader:
        for run in runs:
            for entry in reader.entries_of(run):
                entries += 1
                for id in _OUTPUT.findall(entry.data or b"") if entry.type == "call.settled" else ():
                    named[id.decode()] = None
    kept = {output.id for output in await state.outputs().known()}
    return Erasable(
        runs=tuple(runs),
        conversations=tuple(conversations),
        outputs=tuple(id for id in named if id in kept),
        entries=entries,
        person=person,
    )


def _principals(reader: JournalReader, run: str) -> Iterator[str]:
    """The principals that began a run or resumed it."""
    for entry in reader.entries_of(run, heads=True):
        if entry.type in ("run.started", "run.resumed") and isinstance(event := entry.event, RunStarted | RunResumed):
            yield event.principal


def _conversations(state: NodeState) -> list[str]:
    return [each.id for each in state.conversations().list()]


def _delete_conversations(state: NodeState, ids: tuple[str, ...]) -> None:
    if not ids:
        return
    store = state.conversations()
    for id in ids:
        store.delete(id)
    try:
        store.sweep()
    except ContentError as error:
        raise UsageError(
            f"the conversations are erased, but not their long contents: {error}; delete the damaged one,"
            " then erase again"
        ) from error


async def _erase_services(state: NodeState, folder: Path | None, person: str) -> tuple[int, int]:
    blobs = events = 0
    with opened_blobs(state, folder) as store:
        if store is not None:
            blobs = await store.delete_all(person)
    with opened_events(state, folder) as log:
        if log is not None:
            events = await log.delete_all(person)
    return blobs, events


@contextmanager
def opened_blobs(state: NodeState, folder: Path | None = None) -> Iterator[BlobStore | None]:
    """The blobs of a node until the block ends, if it has any."""
    from handrail.node.services.blobs import BlobStore  # only a node has them

    place = state.file("blobs", folder)
    if isinstance(place, Path) and not place.is_dir():
        yield None
        return
    with closing(BlobStore(place)) as store:
        yield store


@contextmanager
def opened_events(
    state: NodeState, folder: Path | None = None, clock: Clock | None = None
) -> Iterator[EventLog | None]:
    """The events of a node until the block ends, if it has any."""
    from handrail.node.services.event_log import EventLog  # only a node has them

    place = state.file("events.db", folder)
    if isinstance(place, Path) and not place.is_file():
        yield None
        return
    with closing(EventLog(place, clock=clock)) as log:
        yield log
