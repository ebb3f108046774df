"""Which replica works on a run: a lease that expires by the clock of the database, with a number in every append.

A replica says now and then that it is there, for all its leases at once. One that was stopped for longer than that
loses its runs to whoever takes them up; the number of its lease is then an old one, and what it appends is refused.
Leases that nobody renewed are runs that were cut off.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import JournalError, LeaseHeld, StateError
from handrail.journal.entry import column_for_id
from handrail.journal.escape import uncolumn
from handrail.journal.postgres_tables import journal_error, written_text
from handrail.state.database import StateDatabase

logger = logging.getLogger(__name__)

_EXPIRES = 2.0
"""Heartbeats until a lease expires."""
_FRESH = 1.5
"""Heartbeats for which a lease that was renewed is surely still held, however the clocks of the two machines run."""
_REMEMBERED = 10_000
"""Runs that were lost. What is left of their work here may end at any time later."""
_TAKE = "SELECT fence, holder FROM take_lease(%s, %s, %s, %s)"
_RENEW = (
    "UPDATE lease SET expires = clock_timestamp() + make_interval(secs => %s) WHERE owner = %s RETURNING run, fence"
)
_CONFIRM = (
    "UPDATE lease SET expires = clock_timestamp() + make_interval(secs => %s)"
    " WHERE run = %s AND owner = %s AND fence = %s RETURNING run"
)
_RELEASE = "DELETE FROM lease WHERE run = %s AND owner = %s AND fence = %s"
_HOLDER = "SELECT holder FROM lease WHERE run = %s AND expires >= clock_timestamp()"
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_CUT_OFF = "SELECT run FROM lease WHERE expires < clock_timestamp() ORDER BY expires"


class StateLease:
    """The right to work on a run, until released, or lost to another replica."""

    __slots__ = ("_leases", "fence", "is_leaving", "renewed", "run")

    def __init__(self, leases: PostgresLeases, run: str, fence: int, renewed: float) -> None:
        self.run: str = run
        self.fence: int = fence
        """Later leases of the same run have greater ones; but a crash of the server may take one back and give it
        again, so only together with its owner it says who writes."""
        self.renewed: float = renewed
        """When the server was last asked to renew it, and did; by `_now`."""
        self.is_leaving: bool = False
        """Whether it is being let go of: that the server does not have it is no news then."""
        self._leases = leases

    @property
    def is_lost(self) -> bool:
        """Whether another replica has taken the run up."""
        return self._leases.is_lost(self)

    def release(self) -> None:
        self._leases.release(self)


class PostgresLeases:
    """The leases that a process has on runs of a state."""

    def __init__(self, database: StateDatabase, heartbeat: float) -> None:
        self._database = database
        self._heartbeat = heartbeat
        self._before_release: Callable[[str], None] = lambda run: None
        self.owner: str = uuid.uuid4().hex
        """Names this process in its leases."""
        self._holder = f"process {os.getpid()} on {socket.gethostname()}"
        self._held: dict[str, StateLease] = {}
        """By the columns of their runs."""
        self._lost: BoundedMemory[str, None] = BoundedMemory(_REMEMBERED)
        """Also those that were let go of here since: nothing more of them is written until they are taken anew."""
        self._lock = threading.Lock()
        self._calls = ThreadPoolExecutor(1, thread_name_prefix="handrail-leases")
        """Leases are taken and let go of in the order in which that was asked for."""
        self._closed = threading.Event()
        self._watchers: list[Callable[[list[str]], None]] = []
        self._beating = threading.Thread(target=self._beat, name="handrail-heartbeat", daemon=True)
        self._beating.start()

    @property
    def calls(self) -> ThreadPoolExecutor:
        return self._calls

    def write_before_release(self, write: Callable[[str], None]) -> None:
        """Have this called with a run before its lease is let go: whoever takes it next must find what was put off."""
        self._before_release = write

    def take(self, run: str) -> StateLease:
        """Take the lease on a run; in the thread of `calls`.

        Raises:
            LeaseHeld: Somebody has it; the error names the process.
            JournalError: The state cannot be reached.
        """
        column = column_for_id(run)
        with self._lock:
            if column in self._held:
                raise LeaseHeld(run, f"this process ({os.getpid()})")
        values = (written_text(column), self.owner, self._holder, _EXPIRES * self._heartbeat)
        asked = _now()
        ((fence, holder),) = self._execute(_TAKE, values) or [(None, "another replica")]
        if fence is None:
            raise LeaseHeld(run, str(holder))
        lease = StateLease(self, run, int(str(fence)), asked)
        with self._lock:
            self._held[column] = lease
            self._lost.pop(column, None)
        return lease

    def is_fresh(self, run: str) -> bool:
        """Whether this process surely still works on a run: its lease cannot have expired. A run without a lease is
        nobody's."""
        column = column_for_id(run)
        with self._lock:
            lease = self._held.get(column)
            return lease is None or (column not in self._lost and _now() - lease.renewed < _FRESH * self._heartbeat)

    def confirm(self, run: str) -> bool:
        """Renew the lease on a run; False if it was lost.

        Raises:
            JournalError: The state cannot be reached.
        """
        column = column_for_id(run)
        with self._lock:
            lease = self._held.get(column)
        if lease is None:
            return True
        asked = _now()
        if not self._execute(_CONFIRM, (_EXPIRES * self._heartbeat, written_text(column), self.owner, lease.fence)):
            self.note_lost(column)
            return False
        lease.renewed = asked
        return True

    def find_holder(self, run: str) -> LeaseHeld | None:
        """Who works on a run, as the error of whoever would take it; in the thread of `calls`. A lease that has expired
        is left as it is, for those who look for them.

        Raises:
            JournalError: The state cannot be reached.
        """
        column = column_for_id(run)
        with self._lock:
            if column in self._held:
                return LeaseHeld(run, f"this process ({os.getpid()})")
        rows = self._execute(_HOLDER, (written_text(column),))
        return LeaseHeld(run, str(rows[0][0])) if rows else None

    def release(self, lease: StateLease) -> None:
        """Let others have the run, once what was put off of it is written; nothing happens if they may already."""
        if self._held.get(column_for_id(lease.run)) is lease and not self._closed.is_set():
            self._calls.submit(self._let_go, lease)

    def fences(self, runs: set[str]) -> dict[str, int]:
        """Of these runs, by their columns, those that this process works on, with the numbers of their leases."""
        with self._lock:
            return {run: lease.fence for run in runs if (lease := self._held.get(run)) is not None}

    def lost(self, runs: set[str]) -> set[str]:
        """Those of these runs, by their columns, that were taken up elsewhere while this process worked on them."""
        with self._lock:
            return {run for run in runs if run in self._lost}

    def note_lost(self, run: str) -> None:
        with self._lock:
            self._lost[run] = None

    def is_lost(self, lease: StateLease) -> bool:
        return column_for_id(lease.run) in self._lost

    def watch_cut_off(self, found: Callable[[list[str]], None]) -> Callable[[], None]:
        """Have runs told whose replica is gone, in the thread of the heartbeat; each time that they are seen. Returns
        what ends it."""
        with self._lock:
            self._watchers = [*self._watchers, found]

        def leave() -> None:
            with self._lock:
                self._watchers = [each for each in self._watchers if each is not found]

        return leave

    def close(self) -> None:
        """Let go of all leases."""
        self._closed.set()
        self._beating.join()
        with self._lock:
            held = list(self._held.values())
        for lease in held:
            self._calls.submit(self._let_go, lease)
        self._calls.shutdown()

    def _let_go(self, lease: StateLease) -> None:
        column = column_for_id(lease.run)
        try:
            self._before_release(lease.run)
            lease.is_leaving = True
            with suppress(JournalError):  # it expires
                self._execute(_RELEASE, (written_text(column), self.owner, lease.fence))
        finally:
            with self._lock:
                if self._held.get(column) is lease:
                    del self._held[column]

    def _beat(self) -> None:
        was_away, is_told = True, False
        while not self._closed.wait(self._heartbeat / 2):
            try:
                if was_away and self._watchers:
                    self._execute("SELECT 1", (), retry=False)  # there may be nothing to renew
                self._renew()
                # After a pause of the server its leases have all expired, and their owners renew them first.
                if self._watchers and not was_away:
                    self._tell_cut_off()
                was_away = is_told = False
            except JournalError as error:
                if not is_told:
                    logger.warning("leases on runs cannot be renewed: %s", error)
                was_away = is_told = True

    def _renew(self) -> None:
        with self._lock:
            held = dict(self._held)
        if not held:
            return
        asked = _now()
        rows = self._execute(_RENEW, (_EXPIRES * self._heartbeat, self.owner), retry=False)
        renewed = {(str(run), int(str(fence))) for run, fence in rows}
        for column, lease in held.items():
            if (written_text(column), lease.fence) in renewed:
                lease.renewed = max(asked, lease.renewed)
            else:
                with self._lock:
                    is_held = self._held.get(column) is lease and not lease.is_leaving
                    if is_held and column not in self._lost:
                        self._lost[column] = None
                        logger.warning("run %r was taken up by another replica", lease.run)

    def _tell_cut_off(self) -> None:
        rows = self._execute(_CUT_OFF, (), retry=False)
        runs = [uncolumn(str(run)) for (run,) in rows]
        for found in self._watchers if runs else ():
            try:
                found(runs)
            except Exception:
                logger.exception("runs that were cut off could not be taken up")

    def _execute(self, statement: str, values: tuple[object, ...], *, retry: bool = True) -> list[tuple[object, ...]]:
        try:
            patience = 10.0 if retry and not self._closed.is_set() else 0.0
            return self._database.execute_now(statement, values, patience=patience)
        except StateError as error:
            raise journal_error(error) from error


def _now() -> float:
    """Seconds, also those for which the machine slept."""
    return time.clock_gettime(_CLOCK)
