"""The leases on runs: one worker per run, whatever happens to the worker, and no file descriptor for each."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from handrail import Context, Executor, ToolCall, tool
from handrail.core.errors import JournalError, LeaseHeld
from handrail.journal.journal import SqliteJournal
from tests.journal.event_samples import started

HOLDER = """
import asyncio, sys
from handrail.journal.journal import SqliteJournal

async def main():
    journal = await SqliteJournal.open(sys.argv[1])
    lease = await journal.lease("run-1")
    print("held", flush=True)
    sys.stdin.readline()
    lease.release()
    print("released", flush=True)
    sys.stdin.readline()
asyncio.run(main())
"""


@contextmanager
def another_holder(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the lease on run-1, and lets it go when it is sent a line."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


async def test_a_lease_of_another_process_is_held_until_it_dies(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        with another_holder(path) as process:
            with pytest.raises(LeaseHeld, match=f"process {process.pid};"):
                await journal.lease("run-1")
            (await journal.lease("run-2")).release()
            process.kill()
            process.wait()
            (await journal.lease("run-1")).release()


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED)


async def test_a_process_that_is_stopped_keeps_its_lease(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        with another_holder(path) as process:
            _stop(process.pid)
            with pytest.raises(LeaseHeld, match=f"process {process.pid};"):
                await journal.lease("run-1")


async def test_a_lease_that_another_process_lets_go_of_can_be_taken(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        with another_holder(path) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "released\n"
            (await journal.lease("run-1")).release()


async def test_two_journals_on_one_file_in_one_process_keep_each_other_off_a_run(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    (tmp_path / "other name").symlink_to(tmp_path)
    async with (
        await SqliteJournal.open(path) as one,
        await SqliteJournal.open(path) as two,
        await SqliteJournal.open(tmp_path / "other name" / "journal.db") as three,
    ):
        lease = await one.lease("run-1")
        for other in (two, three):
            with pytest.raises(LeaseHeld, match=rf"this process \({os.getpid()}\)"):
                await other.lease("run-1")
        lease.release()
        again = await two.lease("run-1")
        lease.release()  # it is not the one that is held now
        with pytest.raises(LeaseHeld):
            await three.lease("run-1")
        again.release()


async def test_a_lease_outlives_the_journal_object_that_took_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as one:
        lease = await one.lease("run-1")
    del one
    async with await SqliteJournal.open(path) as two:
        with pytest.raises(LeaseHeld):
            await two.lease("run-1")
        lease.release()
        (await two.lease("run-1")).release()


async def test_whoever_takes_a_run_up_finds_what_was_put_off(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as one, await SqliteJournal.open(path) as two:
        lease = await one.lease("run-1")
        assert one.append_soon(started("run-1"))
        lease.release()
        assert await two.history("run-1") == [started("run-1")]


async def test_whoever_reads_the_files_beside_the_journal_takes_no_lease_away(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        lease = await journal.lease("run-1")
        assert _contents(tmp_path / "journal.db.leases") == {b""}
        assert await asyncio.to_thread(_outcome_in_another_process, path) == "LeaseHeld"
        lease.release()
        assert await asyncio.to_thread(_outcome_in_another_process, path) == "taken"


def _contents(folder: Path) -> set[bytes]:
    return {file.read_bytes() for file in folder.iterdir()}


def _outcome_in_another_process(path: Path) -> str:
    code = """
import asyncio, sys
from handrail.core.errors import LeaseHeld
from handrail.journal.journal import SqliteJournal

async def main():
    async with await SqliteJournal.open(sys.argv[1]) as journal:
        try:
            await journal.lease("run-1")
            return "taken"
        except LeaseHeld:
            return "LeaseHeld"
print(asyncio.run(main()))
"""
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


FORK = """
import asyncio, os, sys
from handrail.core.errors import LeaseHeld
from handrail.journal.journal import SqliteJournal
from handrail.journal.lease import RunLeases

async def main():
    journal = await SqliteJournal.open(sys.argv[1])
    lease = await journal.lease("run-1")
    child = os.fork()
    if not child:
        lease.release()  # it is the parent's, and stays so
        try:
            RunLeases.of(journal.path).take("run-1")
        except LeaseHeld as held:
            print(held.holder, flush=True)
        sys.stdin.readline()
        os._exit(0)
    sys.stdin.read()
asyncio.run(main())
"""


@contextmanager
def _forked_holder(path: Path) -> Iterator[tuple[int, str]]:
    """A process that has the lease and a child: its id, and who has the lease in the words that the child is told."""
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.pid, process.stdout.readline().strip()


async def test_a_forked_child_neither_has_nor_releases_nor_prolongs_the_leases_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with _forked_holder(path) as (pid, told):
        assert told == f"process {pid}"
        async with await SqliteJournal.open(path) as journal:
            with pytest.raises(LeaseHeld, match=f"process {pid};"):
                await journal.lease("run-1")
            os.kill(pid, signal.SIGKILL)  # the child lives on
            await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            (await journal.lease("run-1")).release()


async def test_the_folder_of_the_leases_may_be_removed_and_the_next_lease_still_keeps_others_off(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        (await journal.lease("run-1")).release()
        shutil.rmtree(tmp_path / "journal.db.leases")
        lease = await journal.lease("run-1")
        assert await asyncio.to_thread(_outcome_in_another_process, path) == "LeaseHeld"
        lease.release()


async def test_where_no_file_can_be_locked_no_lease_is_given(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        (tmp_path / "journal.db.leases").write_text("somebody put a file here")
        with pytest.raises(JournalError, match=r"no lease can be taken in .* check the folder"):
            await journal.lease("run-1")
        (tmp_path / "journal.db.leases").unlink()
        (await journal.lease("run-1")).release()


async def test_more_runs_can_be_open_than_the_process_may_open_files(tmp_path: Path) -> None:
    @tool(side_effects=False)
    async def look() -> str:
        return "seen"

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd")) + 80
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal, Executor([look], journal=journal) as all:
        resource.setrlimit(resource.RLIMIT_NOFILE, (opened, before[1]))
        try:
            for number in range(opened + 100):
                result = await all.invoke(ToolCall("call-1", "look", {}), Context(run=f"run-{number}"))
                assert result.text == "seen"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
