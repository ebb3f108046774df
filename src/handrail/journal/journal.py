"""The journal as the port asks for it: `append` returns when the entry is kept. And the one in SQLite.

Entries that are asked for in one turn of the event loop, or while a commit is under
way, share a transaction. Who commits was decided by measuring (`bench/bench_journal.py`):
a durable commit takes 0.12 ms here and passing it to a thread and back another 0.08 ms,
so the event loop commits by itself while commits are quick. One that took longer than
`JournalTiming.stall` sends the next ones to the thread, until the disk is quick again. While
nobody else appends, an entry does not even wait for the next turn of the loop, until the
loop has been held for that long: then the others get theirs, and a chance to join.

The thread does what nobody waits for: signing checkpoints, moving the write-ahead log
into the file in time (one that grows makes every sync twice as slow), and waiting for
other processes. Whoever commits, a durable entry is synced before `append` returns.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.errors import JournalError, LeaseHeld, LeaseLost, describe_exception
from handrail.core.events import CallIntended, ConfirmationAnswered, ConfirmationRequested, Recorded
from handrail.core.ports import Clock, EffectMark, Lease, SystemClock
from handrail.journal import deferred_entries, reader
from handrail.journal.database import JournalBusy
from handrail.journal.entry import (
    SALT_SIZE,
    EffectNote,
    EntryDraft,
    column_for_id,
    decode_event,
    draft,
    seal_entry,
)
from handrail.journal.escape import uncolumn
from handrail.journal.keys import Signer
from handrail.journal.lease import RunLease, RunLeases
from handrail.journal.places import JournalPlace
from handrail.journal.writer import JournalWriter

logger = logging.getLogger(__name__)

_MOST_PAGES = 1000
_PAUSE = 0.002
_BETWEEN_RUNS = 0.1
"""Seconds between two checkpoints that are signed because a run has ended; many runs that end together share one."""
_READER_WAITS = 1.0
"""Seconds for which a reader waits until what was put off can be written."""
_PUT_OFF = 0.01
"""Seconds for which an entry that nobody waits for may be put off, so that it shares a commit with those behind it."""
_MOST_OWED = 256
"""Entries that may be put off together. A process that is killed loses no more than these."""
_MOST_PUT_OFF = 64 * 1024
"""Bytes of a body that may be written later than it is asked for."""
_PROBE_TAKES = 4.0
"""Seconds after which entries count as not being written."""
_PROBE_EVERY = 1.0
"""Seconds: anybody may ask whether a node is ready, and each probe is a write that is synced."""
_T = TypeVar("_T")


class JournalTiming(Struct, frozen=True, kw_only=True):
    """The times that the journal waits, in seconds."""

    unsigned: float = 1.0
    """The time that an entry may stand without a signature over it."""
    stall: float = 0.002
    """The time that commits may hold the event loop at a stretch; with 0 they all go through the thread."""
    patience: float = 10.0
    """The time to wait for another process that is writing."""
    answers: float = 0.2
    """The time between two looks for an answer that another process may have given to a question."""


class _QueuedEntry(Struct, frozen=True, eq=False):
    """An entry in the queue and the one who waits for it."""

    draft: EntryDraft
    durable: bool = False
    future: asyncio.Future[None] | None = None
    """None if nobody waits."""


class BatchedJournal:
    """A journal whose entries share commits. Who keeps them, and how leases are given, is up to the engine."""

    _is_near: ClassVar[bool] = True
    """Whether a look into the writer takes so short that the event loop may do it."""

    def __init__(
        self,
        writer: JournalWriter,
        *,
        clock: Clock,
        checkpoint_every: int,
        timing: JournalTiming,
        publish: Callable[[str], None] | None,
        random: Callable[[int], bytes],
    ) -> None:
        self.path: JournalPlace = writer.path
        self.verifier_key: str = writer.signer.verifier_key
        self._writer = writer
        self._now = clock.monotonic
        self._checkpoint_every = checkpoint_every
        self._timing = timing
        self._publish = publish
        self._random = random
        self._sealing = writer.signer.sealing
        self._waiting: deque[_QueuedEntry] = deque()
        self._owed: deque[EntryDraft] = deque()
        """Entries that nobody waits for. They are older than those that wait, and are written with them."""
        self._lock = threading.Lock()
        """Held by whoever uses the writer or takes from the queue; so entries keep their order."""
        self._signals: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._is_woken = False
        """Whether the thread has been told to look, and has not looked yet."""
        self._committing: set[asyncio.AbstractEventLoop] = set()
        """The event loops that will commit what waits before they wait for anything else."""
        self._putting_off: set[asyncio.AbstractEventLoop] = set()
        """The event loops that will commit what is owed in `_PUT_OFF` seconds."""
        self._costs = {True: 0.0, False: 0.0}
        """What a commit takes, about: one that is synced, and one that is not."""
        self._held = 0.0
        """For how long commits have kept the loop from its next turn."""
        self._due = clock.monotonic() + timing.unsigned if writer.behind else math.inf
        """When the thread has something to do; never, while everything is signed."""
        self._signed = -math.inf
        """When a checkpoint was last signed."""
        self._probed = -math.inf
        self._probing: Future[None] | None = None
        """The last look whether entries can be written."""
        self._is_unsigned = False
        """Whether it was told that checkpoints cannot be signed."""
        self._closing = False
        self._owed_because: JournalError | None = None
        """Why what is owed could not be written."""
        self._unsigned_because: JournalError | None = None
        self._thread = threading.Thread(target=self._work, name=f"journal {self.path.name}", daemon=True)
        self._thread.start()
        deferred_entries.register(self.path, self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        self._check_open()
        await self._append(draft(event, self._salt(event), self._sealing), durable)

    async def answer(self, event: ConfirmationAnswered, *, durable: bool = False) -> ConfirmationAnswered:
        """Append an answer, unless the question has one; the answer that counts is returned.

        Raises:
            JournalError: It is not written.
        """
        self._check_open()
        entry = replace(draft(event, self._salt(event)), request=event.request)
        await self._append(entry, durable)
        return self._writer.known_answer(entry.run, event.request) or event

    async def last_effect(self, identity: bytes) -> EffectMark | None:
        """The place where a side effect was last noted, by whatever process.

        Raises:
            JournalError: The journal cannot be read.
        """
        self._check_open()
        return await self._read(partial(self._effect_mark, self._sealing.blind(identity)))

    def _effect_mark(self, blinded: bytes) -> EffectMark | None:
        found = self._writer.last_effect(blinded)
        if found is None:
            return None
        event = decode_event(found[1], None)
        assert isinstance(event, CallIntended | ConfirmationRequested)  # no other entry is noted
        return EffectMark(found[0], event.run, event.call_id)

    async def append_effect(
        self, event: CallIntended | ConfirmationRequested, identity: bytes, after: int | None, *, durable: bool = False
    ) -> bool:
        """Append what begins a side effect, or asks about it, unless somebody noted it since; whether it was appended.

        Raises:
            JournalError: It is not written.
        """
        self._check_open()
        note = EffectNote(self._sealing.blind(identity), after)
        entry = replace(draft(event, self._salt(event), self._sealing), effect=note)
        await self._append(entry, durable)
        return note.written

    async def find_answer(self, run: str, request: str) -> ConfirmationAnswered | None:
        """The first answer to a question, if anybody has given one, in this process or in another.

        Raises:
            JournalError: The journal cannot be read.
        """
        self._check_open()
        return await self._read(partial(self._writer.find_answer, column_for_id(run), request))

    async def version_of(self, run: str) -> tuple[int, int]:
        """The same as long as nobody, in whatever process, adds to a run, and nothing is erased.

        Raises:
            JournalError: The journal cannot be read.
        """
        self._check_open()
        column = column_for_id(run)
        owed = sum(entry.run == column for entry in list(self._owed))
        count, erasures = await self._read(partial(self._writer.version_of, column))
        return owed + count, erasures

    async def _read(self, work: Callable[[], _T]) -> _T:
        """Have the writer looked into: at once, or in a thread if somebody is writing, or the engine is far away."""
        if not self._is_near or not self._lock.acquire(blocking=False):
            return await asyncio.to_thread(self._read_in_turn, work)
        try:
            return work()
        finally:
            self._lock.release()

    def _read_in_turn(self, work: Callable[[], _T]) -> _T:
        with self._lock:
            return work()

    async def wait_for_answer(self, run: str, request: str) -> ConfirmationAnswered:
        """The first answer to a question, once somebody has given it, in this process or in another.

        Raises:
            JournalError: The journal cannot be read.
        """
        known, size = await asyncio.to_thread(self._known_answer, run, request)
        if known is not None:
            return known
        return await reader.first_answer(self.path, run, request, size, self._timing.answers)

    def _known_answer(self, run: str, request: str) -> tuple[ConfirmationAnswered | None, int]:
        with self._lock:
            return self._writer.answer(column_for_id(run), request), self._writer.size

    def _check_open(self) -> None:
        if self._closing:
            raise JournalError(f"the journal {str(self.path)!r} is closed; open it again to append")

    async def _append(self, entry: EntryDraft, durable: bool) -> None:
        quick = self._held + self._costs[durable] < self._timing.stall
        if quick and not self._waiting and self._commit_at_once(entry, durable):
            return
        seal_entry(entry, 0, 0, "")  # an event that cannot be written must not fail those it would share a commit with
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append(_QueuedEntry(entry, durable, future))
        self._commit_this_turn(loop)
        await future

    def append_at_once(self, event: Recorded, *, durable: bool = False) -> bool:
        """Append an event if that needs no wait; False if it does, and nothing was appended.

        Raises:
            JournalError: It is not written.
        """
        self._check_open()
        # An entry that is not synced gains nothing by waiting for others.
        if self._waiting or self._costs[durable] + (self._held if durable else 0.0) >= self._timing.stall:
            return False
        return self._commit_at_once(draft(event, self._salt(event), self._sealing), durable)

    def append_soon(self, event: Recorded) -> bool:
        """Take an event that nobody waits for: it is written with the next one that somebody waits for, at the latest
        in `_PUT_OFF` seconds; where the disk is slow, by the thread, as soon as it can. False if it is too large to be
        put off, or too many are already, and nothing was appended.

        Raises:
            JournalError: The journal is closed, or has failed before.
        """
        self._check_open()
        self._writer.check_failure()
        if len(self._owed) >= _MOST_OWED:
            return False
        entry = draft(event, self._salt(event), self._sealing)
        if entry.data is not None and len(entry.data) > _MOST_PUT_OFF:
            return False
        seal_entry(entry, 0, 0, "")
        if self._waiting:
            self._waiting.append(_QueuedEntry(entry))
            return True
        self._owed.append(entry)
        loop = asyncio.get_running_loop()
        if loop not in self._putting_off:
            self._putting_off.add(loop)
            loop.call_later(_PUT_OFF, self._commit_owed, loop)
        return True

    def _commit_owed(self, loop: asyncio.AbstractEventLoop) -> None:
        self._putting_off.discard(loop)
        self._commit_here(loop)

    def _commit_this_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._committing:
            self._committing.add(loop)
            loop.call_soon(self._commit_here, loop)

    def _salt(self, event: Recorded) -> bytes:
        return self._random(SALT_SIZE) if event.body is not None else b""

    async def history(self, run: str) -> list[Recorded]:
        if self._is_new(run):
            return []
        if self._owed:
            await asyncio.to_thread(self._write_owed)
        return await asyncio.to_thread(self._read_history, run)

    def _read_history(self, run: str) -> list[Recorded]:
        return reader.history(self.path, run)

    def _is_new(self, run: str) -> bool:
        """Whether the record has nothing of a run, where that can be said at once: most runs that begin are new."""
        if not self._is_near or not self._lock.acquire(blocking=False):
            return False
        try:
            column = column_for_id(run)
            if self._closing or any(entry.run == column for entry in list(self._owed)):
                return False
            return self._writer.is_new(column)
        finally:
            self._lock.release()

    def write_put_off(self) -> None:
        """Write the entries that were put off, for somebody who reads the file. They come later if the file is busy."""
        if not self._owed or not self._lock.acquire(timeout=_READER_WAITS):
            return
        try:
            with suppress(JournalError):  # whoever waits for an entry is told
                self._commit()
        finally:
            self._lock.release()

    def _write_owed(self) -> None:
        with self._lock:
            self._patiently(self._commit)

    async def lease(self, run: str) -> Lease:
        raise NotImplementedError

    async def find_holder(self, run: str) -> LeaseHeld | None:
        """The error that names who works on a run, for a caller that wants its lease."""
        try:
            (await self.lease(run)).release()
        except LeaseHeld as held:
            return held
        return None

    def _write_owed_of(self, run: str) -> None:
        """Writes what was put off for a run, so that whoever resumes it finds it."""
        column = column_for_id(run)
        if not any(entry.run == column for entry in list(self._owed)):
            return
        with self._lock, suppress(JournalBusy):
            self._commit()

    @property
    def has_failed(self) -> bool:
        """Whether it takes no more entries because its file can no longer be trusted."""
        return self._writer.failure is not None

    async def check(self) -> None:
        """Return if entries can be written now. It writes to the file, at most once a second, and no entry.

        Raises:
            JournalError: They cannot, with what to do about it.
        """
        self._check_open()
        # One look at a time, in a thread of its own: while a server hangs, those who ask whether it does must not take
        # the threads of those who work, nor keep the process from its end.
        if self._probing is None or self._probing.done():
            self._probing = Future()
            threading.Thread(target=self._probe_for, args=(self._probing,), daemon=True).start()
        probing = asyncio.wrap_future(self._probing)
        probing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        done, _ = await asyncio.wait({probing}, timeout=_PROBE_TAKES)
        if not done:
            raise JournalError(
                f"the journal {str(self.path)!r} has not answered for {_PROBE_TAKES:g} seconds; look at its disk, or at"
                " the server that it is on"
            )
        probing.result()

    def _probe_for(self, probing: Future[None]) -> None:
        try:
            self._probe()
        except BaseException as error:
            probing.set_exception(error)
        else:
            probing.set_result(None)

    def _probe(self) -> None:
        with self._lock:
            self._writer.check()
            if self._now() - self._probed >= _PROBE_EVERY:
                self._patiently(self._writer.probe)
                self._probed = self._now()

    async def aclose(self) -> None:
        """Write what waits, sign it and close the file. A second call does nothing.

        Raises:
            JournalError: The end could not be signed. Every entry that was answered for is kept.
        """
        self._closing = True
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """The same for who has no event loop: it blocks until the end is signed."""
        self._closing = True
        deferred_entries.unregister(self.path, self)
        self._signals.put(None)
        if threading.current_thread() is self._thread:
            return  # the garbage collector closes it there: the thread signs the end by itself
        self._thread.join()
        failure, self._unsigned_because = self._unsigned_because, None
        if failure is not None:
            raise failure

    def _commit_at_once(self, entry: EntryDraft, durable: bool) -> bool:
        """Write one entry without leaving the caller's turn, behind those that are owed. False if somebody else is
        writing."""
        if not self._lock.acquire(blocking=False):
            return False
        owed = self._take_owed()
        try:
            self._held += self._write([*owed, entry], durable)
        except BaseException as error:
            self._owed.extendleft(reversed(owed))
            if isinstance(error, JournalBusy):
                return False
            raise
        finally:
            self._lock.release()
        return True

    def _take_owed(self) -> list[EntryDraft]:
        return [self._owed.popleft() for _ in range(len(self._owed))]

    def _commit_here(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commits in the event loop what waits if that is quick, else leaves it to the thread."""
        self._committing.discard(loop)
        if not self._waiting and not self._owed:
            return
        durable = any(each.durable for each in list(self._waiting))
        quick = self._costs[durable] < self._timing.stall or not self._thread.is_alive()
        if not quick or not self._lock.acquire(blocking=False):
            self._leave_to_thread(loop)
            return
        try:
            self._commit(loop)
        except JournalBusy:
            self._leave_to_thread(loop)
        finally:
            self._lock.release()

    def _leave_to_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        self._wake()
        if self._closing:  # it may have looked into the queue for the last time: look again ourselves
            loop.call_later(_PAUSE, self._commit_here, loop)

    def _commit(self, here: asyncio.AbstractEventLoop | None = None) -> None:
        """Writes all that waits, and answers for it; the lock must be held.

        Raises:
            JournalBusy: Another process is in the way; everything waits as before.
        """
        # Those that wait first: what is owed by then was asked for before them, or by somebody else.
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        owed = self._take_owed()
        if not batch and not owed:
            return
        failure = None
        try:
            self._write([*owed, *(each.draft for each in batch)], any(each.durable for each in batch))
        except JournalBusy:
            self._waiting.extendleft(reversed(batch))
            self._owed.extendleft(reversed(owed))
            raise
        except JournalError as error:
            failure = error
        except Exception as error:
            logger.exception("the journal %s failed", self.path)
            failure = self._writer.failure = JournalError(f"the journal failed: {describe_exception(error)}")
        owed += [each.draft for each in batch if each.future is None]
        if failure is not None and owed:
            self._owed.extendleft(reversed(owed))
            self._owed_because = failure
            logger.warning("the journal %s: %d entries are yet to be written: %s", self.path, len(owed), failure)
        refused = self._writer.refused
        if refused and failure is None:
            lost = [each for each in batch if each.draft.run in refused and not each.draft.request]
            batch = [each for each in batch if each not in lost]
            for each in lost:
                _resolve_waiting(_futures([each]), LeaseLost(uncolumn(each.draft.run)), here)
        futures = _futures(batch)
        # Several came together: let them do so again.
        self._held = 0.0 if len(futures) <= 1 else self._timing.stall
        _resolve_waiting(futures, failure, here)

    def _write(self, drafts: list[EntryDraft], durable: bool) -> float:
        """Write these entries, and say how long it took."""
        started, writer = self._now(), self._writer
        writer.commit(drafts, durable)
        took = self._now() - started
        # A slow commit counts at once, and is forgotten after a few quick ones.
        self._costs[durable] = max(took, 0.5 * self._costs[durable])
        due = self._next_due(started)
        if due < self._due:
            self._due = due
            self._wake()
        return took

    def _wake(self) -> None:
        """Have the thread look for something to do."""
        if not self._is_woken:
            self._is_woken = True
            self._signals.put(None)

    def _next_due(self, now: float) -> float:
        """The time of the next work that nobody waits for, after an entry was written now."""
        writer = self._writer
        if writer.unsigned >= self._checkpoint_every or writer.pages >= _MOST_PAGES:
            return now
        if writer.run_ended:
            return max(now, self._signed + _BETWEEN_RUNS)
        return now + self._timing.unsigned

    def _work(self) -> None:
        """The thread: commits that take long, and upkeep."""
        while not self._closing or self._waiting:
            self._rest()
            with self._lock:
                try:
                    self._patiently(self._commit)
                except JournalError as error:
                    self._refuse_waiting(error)
                if self._writer.failure is None and self._now() >= self._due:
                    self._keep_up()
        with self._lock:
            try:
                if self._writer.failure is None:
                    self._patiently(self._commit)
                if self._owed and self._owed_because is not None:
                    raise self._owed_because
                if self._writer.failure is None:
                    self._patiently(self._sign)
            except JournalError as error:
                self._unsigned_because = error
            finally:
                self._writer.close()

    def _refuse_waiting(self, error: JournalError) -> None:
        """Tell those who wait that their entries are not written. What is owed stays so."""
        batch = [self._waiting.popleft() for _ in range(len(self._waiting))]
        self._owed.extend(each.draft for each in batch if each.future is None)
        _resolve_waiting([each.future for each in batch if each.future is not None], error, None)

    def _rest(self) -> None:
        """Waits until there is something to do."""
        if self._waiting or self._closing:
            return
        left = None
        if self._due < math.inf and self._writer.failure is None:
            left = max(_PAUSE, self._due - self._now())
        try:
            self._signals.get(timeout=left)
        except queue.Empty:
            return
        finally:
            self._is_woken = False  # whoever comes from here on wakes it again

    def _patiently(self, attempt: Callable[[], _T]) -> _T:
        for _ in range(max(1, int(self._timing.patience / _PAUSE))):
            try:
                return attempt()
            except JournalBusy:
                time.sleep(_PAUSE)
        raise JournalError(
            f"another process has kept the journal {str(self.path)!r} locked for {self._timing.patience:g} seconds;"
            " end it, then try again"
        )

    def _keep_up(self) -> None:
        try:
            if self._writer.pages >= _MOST_PAGES:
                self._writer.move_pages()
            self._sign()
        except JournalBusy:
            logger.debug("the journal %s is in use; its checkpoint comes later", self.path)
        except JournalError as error:
            if not self._is_unsigned:
                logger.warning("the journal %s has no checkpoint for its last entries: %s", self.path, error)
            self._is_unsigned = True
        else:
            self._is_unsigned = False
        self._signed = self._now()
        self._due = self._signed + self._timing.unsigned if self._writer.unsigned else math.inf
        if self._writer.behind and not self._is_unsigned:
            self._due = self._signed + _BETWEEN_RUNS

    def _sign(self) -> None:
        note = self._writer.checkpoint()
        if note is None or self._publish is None:
            return
        try:
            self._publish(note)
        except Exception:
            logger.exception("a checkpoint of the journal %s could not be published", self.path)


class SqliteJournal(BatchedJournal):
    """One file, many runs, any number of processes. `open` makes one."""

    path: Path

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        signer: Signer | None = None,
        origin: str | None = None,
        clock: Clock = SystemClock(),
        checkpoint_every: int = 1024,
        timing: JournalTiming = JournalTiming(),
        publish: Callable[[str], None] | None = None,
        random: Callable[[int], bytes] = os.urandom,
    ) -> SqliteJournal:
        """Open or make a journal. If no signer is given, the key in the file beside it (`.key`) signs.

        `publish` gets every checkpoint that is signed, in the journal's thread. A copy kept
        elsewhere is what shows that a whole file was rewritten by someone who had the key.

        Raises:
            JournalError: It cannot be opened, with what to do about it.
        """
        patience = timing.patience
        writer = await asyncio.to_thread(
            JournalWriter.open, Path(path), signer=signer, origin=origin, patience=patience
        )
        return cls(
            writer, clock=clock, checkpoint_every=checkpoint_every, timing=timing, publish=publish, random=random
        )

    async def lease(self, run: str) -> RunLease:
        return self._run_leases.take(run, self._write_owed_of)

    @cached_property
    def _run_leases(self) -> RunLeases:
        return RunLeases.of(self.path)


def _futures(batch: Iterable[_QueuedEntry]) -> list[asyncio.Future[None]]:
    return [each.future for each in batch if each.future is not None]


def _resolve_waiting(
    waiting: Iterable[asyncio.Future[None]], failure: JournalError | None, here: asyncio.AbstractEventLoop | None
) -> None:
    for loop, group in groupby(waiting, key=asyncio.Future.get_loop):
        futures = list(group)
        if loop is here:
            _resolve(futures, failure)
            continue
        try:
            loop.call_soon_threadsafe(_resolve, futures, failure)
        except RuntimeError:
            logger.debug("nobody waits for %d entries any more: their event loop is closed", len(futures))


def _resolve(futures: list[asyncio.Future[None]], failure: JournalError | None) -> None:
    for future in futures:
        if future.done():
            continue
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)
