"""Retention: removes what a node keeps no longer by `[retention]`: conversations, long outputs, blobs, events, and
words of the record.

Of the record only bodies go, as `erase` removes them: the entries stay, every proof stays valid, and what was done is
never done again, since that is told from the entries. What somebody still waits for, or may need, stays whatever its
age (`journal/standing.py`): a run in which a question has no answer, a call has no end on record, or an effect is in
doubt; one that a program has open; and with it the runs that it began, its conversation, and the outputs and blobs
that it names. The words of a conversation go with the conversation, which could not go on without them. One process
at a time does this, in small pieces.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from handrail.app.erasure import TakeLease, opened_blobs, opened_events, opened_leases
from handrail.app.node_state import NodeState
from handrail.config.retention import RetentionSettings
from handrail.core.errors import HandrailError, JournalError, LeaseHeld, LeaseLost, UsageError
from handrail.core.ids import run_and_above
from handrail.core.ports import Clock, SystemClock
from handrail.core.tasks import run_to_completion
from handrail.journal.lease import RunLease
from handrail.journal.places import JournalPlace
from handrail.journal.reader import JournalReader, JournalRow, erase_entries
from handrail.journal.standing import RunStanding, Standing
from handrail.sessions.store.metadata import ConversationMetadata
from handrail.sessions.store.port import Conversations
from handrail.state.connections import connect

_T = TypeVar("_T")
logger = logging.getLogger(__name__)

_DAY = 86_400_000
_MB = 1_000_000
_PIECE = 4_000
"""Entries that are looked at before others get their turn."""
_TOGETHER = 16
"""Runs whose leases are held together."""
_AT_ONCE = 500
"""Bodies that one transaction removes."""
_ALONE = "the retention of this state"
_LOCK = 1_212_239_444
"""The advisory lock of whoever removes what is too old; drawn once, the same for all replicas."""
_NAMED = re.compile(rb"out_[A-Za-z0-9_-]{1,124}|blake3:[0-9a-f]{64}")
_PAUSE = 0.2
_EVERY = 6 * 3600.0
_LOOK = 60.0
"""Seconds until settings that were changed are seen."""


class RetentionReport(Struct, frozen=True, kw_only=True):
    """What went, or would go."""

    conversations: int = 0
    outputs: int = 0
    output_bytes: int = 0
    blobs: int = 0
    blob_bytes: int = 0
    events: int = 0
    runs: int = 0
    """Runs whose bodies went."""
    bodies: int = 0
    kept: dict[str, int] = {}
    """Runs that are older, and stay because they wait for a person (`waits`), are in doubt (`in_doubt`), have a call
    without an end (`under_way`), are open in a program (`at_work`), or are of a conversation that is kept
    (`conversation`)."""


class RetentionBusy(UsageError):
    def __init__(self) -> None:
        super().__init__("another process removes what is too old at this moment; wait until it has ended")


async def retain(
    journal: JournalPlace,
    state: NodeState,
    settings: RetentionSettings,
    *,
    services: Path | None = None,
    clock: Clock = SystemClock(),
    dry_run: bool = False,
    pause: float = 0.0,
) -> RetentionReport:
    """Remove what is older or more than the settings say; with `dry_run` only say what that is.

    Args:
        services: The folder of blobs and events, if they are in files and not beside the journal.
        pause: Seconds between two pieces of work.

    Raises:
        RetentionBusy: Another process does it at this moment.
        HandrailError: Something cannot be read or removed. What went before is gone.
    """
    with _pass_lock(journal, state):
        work = _Retention(journal, state, settings, clock, dry_run, pause)
        await work.look_through()
        report = RetentionReport(conversations=await work.conversations())
        report = await work.outputs(report)
        report = await work.blobs(report, services)
        with opened_events(state, services, clock) as log:
            if log is not None and (limit := work.limit(settings.events_days)) is not None:
                report = replace(report, events=await log.delete_before(limit, only_count=dry_run))
        report = await work.bodies(report)
        return replace(report, kept=dict(sorted(work.kept.items())))


@asynccontextmanager
async def retaining(
    journal: JournalPlace,
    state: NodeState,
    settings: Callable[[], RetentionSettings],
    services: Path | None,
    *,
    clock: Clock = SystemClock(),
) -> AsyncIterator[None]:
    """Do it now and then while the block lasts, by the settings of the time."""

    async def work() -> None:
        done, due = RetentionSettings(), clock.monotonic()
        while True:
            if (said := settings()).stated and (said != done or clock.monotonic() >= due):
                done, due = said, clock.monotonic() + _EVERY
                try:
                    await retain(journal, state, said, services=services, clock=clock, pause=_PAUSE)
                except RetentionBusy as busy:
                    logger.debug("%s", busy)
                except HandrailError as error:
                    logger.warning("what is too old could not be removed, and is tried again later: %s", error)
                except Exception:
                    logger.exception("what is too old could not be removed; it will be tried again later")
            await clock.sleep(_LOOK)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


class _Retention:
    """One pass over everything that `[retention]` limits."""

    def __init__(
        self,
        journal: JournalPlace,
        state: NodeState,
        settings: RetentionSettings,
        clock: Clock,
        dry_run: bool,
        pause: float,
    ) -> None:
        self._journal = journal
        self._state = state
        self._settings = settings
        self._clock = clock
        self._dry_run = dry_run
        self._pause = pause
        self._open: set[str] = set()
        """Runs in which something is open."""
        self._named: set[str] = set()
        """Outputs and blobs that their entries name."""
        self._talks: set[str] = set()
        """The conversations that are kept."""
        self.kept: Counter[str] = Counter()

    def limit(self, days: int | None) -> int | None:
        """The moment before which something is too old; None if it never is."""
        return None if days is None else self._clock.now() - days * _DAY

    async def look_through(self) -> None:
        """Find the runs in which something is open, and what they name."""
        if self._settings.stated.keys() <= {"events_days"}:
            return
        standings: dict[str, RunStanding] = {}
        async for piece in self._pieces():
            for row, _ in piece:
                if row.type.startswith(("call.", "confirmation.")):
                    standing = standings.setdefault(row.run, RunStanding())
                    standing.feed(row.type, row.call, row.leaf)
                    if standing.value == "settled":
                        del standings[row.run]  # as if it had just begun
        self._open = set(standings)
        for run in sorted(self._open):
            self._named |= await _in_thread(self._names_in, run)

    async def conversations(self) -> int:
        store = self._state.conversations(clock=self._clock)
        listed = await _in_thread(store.list)
        self._talks = {each.id for each in listed}
        if (limit := self.limit(self._settings.conversations_days)) is None:
            return 0
        old = [each for each in listed if each.updated.timestamp() * 1000 < limit and not each.chosen.working]
        begun_by = {above for run in self._open for above in run_and_above(run)}
        gone = 0
        with opened_leases(self._journal, self._state) as take:
            for each in old:
                if each.problem or each.id in begun_by:
                    continue  # one that is damaged is for a person to look at
                if self._dry_run or await _in_thread(self._delete, store, each, take):
                    self._talks.discard(each.id)
                    gone += 1
        if gone and not self._dry_run:
            await _in_thread(store.sweep)
        return gone

    async def outputs(self, report: RetentionReport) -> RetentionReport:
        limit, room = self.limit(self._settings.outputs_days), self._settings.outputs_mb
        if limit is None and room is None:
            return report
        known = await self._state.outputs().known()
        over = -1 if room is None else sum(each.size for each in known) - room * _MB
        gone = []
        for each in known:
            if each.id not in self._named and (over > 0 or (limit is not None and each.at < limit)):
                over -= each.size
                gone.append(each)
        if not self._dry_run:
            await self._state.outputs().delete(each.id for each in gone)
        return replace(report, outputs=len(gone), output_bytes=sum(each.size for each in gone))

    async def blobs(self, report: RetentionReport, services: Path | None) -> RetentionReport:
        limit, room = self.limit(self._settings.blobs_days), self._settings.blobs_mb
        if limit is None and room is None:
            return report
        with opened_blobs(self._state, services) as store:
            held = [] if store is None else await store.held()
            holders = Counter(each.cid for each in held)
            sizes = {each.cid: each.size for each in held}
            over = -1 if room is None else sum(sizes.values()) - room * _MB
            count = freed = 0
            for each in held:
                if each.cid in self._named or not (over > 0 or (limit is not None and each.at < limit)):
                    continue
                count += 1
                holders[each.cid] -= 1
                if not holders[each.cid]:
                    over, freed = over - each.size, freed + each.size
                if store is not None and not self._dry_run:
                    await store.delete(each.cid, each.owner)
        return replace(report, blobs=count, blob_bytes=freed)

    async def bodies(self, report: RetentionReport) -> RetentionReport:
        limit = self.limit(self._settings.bodies_days)
        if limit is None:
            return report
        decided: dict[str, bool] = {}
        count = 0
        with opened_leases(self._journal, self._state) as take:
            async for piece in self._pieces():
                found = dict.fromkeys(row.run for row, size in piece if size and row.at < limit)
                runs = [run for run in found if run not in decided]
                for first in range(0, len(runs), _TOGETHER):
                    some = runs[first : first + _TOGETHER]
                    gone, erased = await _in_thread(self._erase, some, limit, take)
                    decided |= {run: run in gone for run in some}
                    count += erased
                if self._dry_run:
                    count += sum(size > 0 and decided.get(row.run, False) for row, size in piece)
                if all(row.at >= limit for row, _ in piece):
                    break
        if count and not self._dry_run:
            try:
                await _in_thread(erase_entries, self._journal, [])
            except JournalError as error:  # a reader of the file keeps old pages; they go when it ends
                logger.debug("%s", error)
        return replace(report, runs=sum(decided.values()), bodies=count)

    async def _pieces(self) -> AsyncIterator[Sequence[tuple[JournalRow, int]]]:
        """The whole journal as it is now, without bodies, with a pause after each piece."""
        first, end = 0, await _in_thread(self._end)
        while first < end:
            yield await _in_thread(self._piece, first, min(first + _PIECE, end))
            first += _PIECE
            await self._clock.sleep(self._pause)

    # ── in a thread ──────────────────────────────────────────────────────────────────

    def _end(self) -> int:
        with JournalReader(self._journal) as reader:
            return reader.end()

    def _piece(self, first: int, end: int) -> list[tuple[JournalRow, int]]:
        with JournalReader(self._journal) as reader:
            return list(reader.piece(first, end))

    def _names_in(self, run: str) -> set[str]:
        """The outputs and blobs that the entries of a run name."""
        with JournalReader(self._journal) as reader:
            rows = (row.data or b"" for row in reader.entries_of(run))
            return {name.decode() for data in rows for name in _NAMED.findall(data)}

    def _erase(self, runs: Sequence[str], limit: int, take: TakeLease) -> tuple[set[str], int]:
        """Remove the bodies of those of these runs that may go; which they are, and how many bodies."""
        gone: set[str] = set()
        seqs: list[int] = []
        with ExitStack() as held, JournalReader(self._journal) as reader:
            fences: dict[str, int] = {}
            for run in runs:
                if (why := self._why_kept(reader, run, limit)) is None and not self._dry_run:
                    why = self._taken(run, take, held, fences)
                    # Somebody may have worked on it since; nobody does now.
                    why = self._why_kept(reader, run, limit) if why is None else why
                if why is None:
                    gone.add(run)
                    seqs += [] if self._dry_run else [row.seq for row in reader.entries_of(run, heads=True)]
                elif why:
                    self.kept[why] += 1
            pieces = [seqs[at : at + _AT_ONCE] for at in range(0, len(seqs), _AT_ONCE)]
            try:
                return gone, sum(erase_entries(self._journal, each, fences=fences, thorough=False) for each in pieces)
            except LeaseLost:  # this process was stopped for so long; the next pass looks again
                self.kept["at_work"] += len(gone)
                return set(), 0

    def _why_kept(self, reader: JournalReader, run: str, limit: int) -> str | None:
        """Why a run stays, also because of one that it is a part of; empty if it is younger."""
        for each in run_and_above(run):
            standing, last = _look_at(reader, each)
            if standing != "settled":
                return standing
            if last >= limit:
                return ""
        return None if self._talks.isdisjoint(run_and_above(run)) else "conversation"

    def _taken(self, run: str, take: TakeLease, held: ExitStack, fences: dict[str, int]) -> str | None:
        """Take the leases of a run and of those that it is a part of; why that cannot be."""
        for each in run_and_above(run):
            if each in fences:
                continue
            try:
                lease = take(each)
            except LeaseHeld:
                return "at_work"
            held.callback(lease.release)
            fences[each] = 0 if isinstance(lease, RunLease) else lease.fence
        return None

    def _delete(self, store: Conversations, about: ConversationMetadata, take: TakeLease) -> bool:
        """Delete a conversation, unless somebody works on it or has done so since; whether it is gone."""
        try:
            lease = take(about.id)
        except LeaseHeld:
            return False
        try:
            with JournalReader(self._journal) as reader:
                standing, _ = _look_at(reader, about.id)
                if store.about(about.id).revision != about.revision or standing != "settled":
                    return False
            store.delete(about.id)
        except UsageError:  # somebody else was quicker
            return False
        finally:
            lease.release()
        return True


def _look_at(reader: JournalReader, run: str) -> tuple[Standing, int]:
    """The standing of a run, and when its last entry was written."""
    standing, last = RunStanding(), -1
    for row in reader.entries_of(run, heads=True):
        standing.feed(row.type, row.call, row.leaf)
        last = max(last, row.at)
    return standing.value, last


async def _in_thread(work: Callable[..., _T], *arguments: object) -> _T:
    """Have work done that blocks. It is finished also if the caller is cancelled: nobody takes its leases away."""
    found: list[_T] = []

    async def done() -> None:
        found.append(await asyncio.to_thread(work, *arguments))

    await run_to_completion(done(), None)
    return found[0]


@contextmanager
def _pass_lock(journal: JournalPlace, state: NodeState) -> Iterator[None]:
    """Holds the lock of a retention pass, so that no other process makes one meanwhile.

    Raises:
        RetentionBusy: One does.
    """
    with ExitStack() as held:
        if state.database is None:
            take = held.enter_context(opened_leases(journal, state))
            try:
                held.callback(take(_ALONE).release)
            except LeaseHeld:
                raise RetentionBusy from None
        else:
            connection = held.enter_context(closing(connect(state.database.url)))
            if connection.execute("SELECT pg_try_advisory_lock(%s)", (_LOCK,)).fetchone() != (True,):
                raise RetentionBusy
        yield
