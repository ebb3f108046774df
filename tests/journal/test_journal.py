"""The journal in SQLite under everything that goes wrong: kills, full disks, other processes, strange files."""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from handrail.core.calls import ToolResult
from handrail.core.errors import BrokenProof, JournalError, UsageError
from handrail.core.events import CallSettled, RunStarted
from handrail.journal.auditing import audit
from handrail.journal.entry import SALT_SIZE, draft
from handrail.journal.journal import JournalTiming, SqliteJournal
from handrail.journal.keys import Signer
from handrail.journal.reader import JournalReader, erase
from handrail.journal.writer import JournalWriter
from handrail.testing.clock import FixedClock
from tests.faults.test_disks import can_mount
from tests.journal.event_samples import asked, finished, granted, intended, settled, started, whole_run
from tests.polling import until

WAIT = 30


def child(code: str, *arguments: object) -> subprocess.Popen[str]:
    prelude = "import asyncio, os, sys\nfrom handrail.journal.journal import SqliteJournal\n"
    prelude += "from tests.journal.event_samples import *\n"
    command = [sys.executable, "-c", prelude + code, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def files_open_to_others(folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.stat().st_mode & 0o077]


def files_with(text: bytes, folder: Path) -> list[Path]:
    return [file for file in folder.iterdir() if file.is_file() and text in file.read_bytes()]


APPEND_FOR_EVER = """
async def main():
    journal = await SqliteJournal.open(sys.argv[1], checkpoint_every=16)
    number = 0
    while True:
        await journal.append(settled(number), durable=number % 2 == 0)
        print(number, flush=True)
        number += 1
asyncio.run(main())
"""

APPEND_A_RUN = """
async def main():
    async with await SqliteJournal.open(sys.argv[1], checkpoint_every=16) as journal:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(150):
            await journal.append(settled(number, sys.argv[2]), durable=number % 2 == 0)
asyncio.run(main())
"""


@pytest.mark.parametrize("seed", range(4))
def test_whatever_was_answered_for_outlives_a_kill(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "journal.db"
    with child(APPEND_FOR_EVER, path) as process:
        assert process.stdout is not None
        for _ in range(random.Random(seed).randrange(1, 120)):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        # What was still in the pipe was answered for as well; a cut last line was not.
        answered = sum(line.endswith("\n") for line in process.stdout) + random.Random(seed).randrange(1, 120)
    with JournalReader(path) as reader:
        found = list(reader.events("run-1"))
    assert len(found) >= answered
    assert found == [settled(number) for number in range(len(found))]
    assert audit(path).ok


async def test_a_journal_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with child(APPEND_FOR_EVER, path) as process:
        assert process.stdout is not None
        for _ in range(20):
            await asyncio.to_thread(process.stdout.readline)
        process.kill()
    async with await SqliteJournal.open(path) as journal:
        before = await journal.history("run-1")
        await journal.append(finished())
        assert await journal.history("run-1") == [*before, finished()]
    report = audit(path)
    assert (report.ok, report.unsigned_tail) == (True, 0)


def test_two_processes_write_two_runs_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with child(APPEND_A_RUN, path, "run-1") as one, child(APPEND_A_RUN, path, "run-2") as two:
        for process in (one, two):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in (one, two):
            process.communicate("go\n", timeout=WAIT)
            assert process.returncode == 0
    with JournalReader(path) as reader:
        for run in ("run-1", "run-2"):
            assert list(reader.events(run)) == [settled(number, run) for number in range(150)]
    report = audit(path)
    assert (report.problems, report.entries, report.unsigned_tail) == ((), 300, 0)


async def test_two_journals_take_turns_on_one_run(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    one, two = await SqliteJournal.open(path), await SqliteJournal.open(path)
    async with one, two:
        await one.append(asked(), durable=True)
        await two.append(granted(), durable=True)
        await one.append(intended(), durable=True)
        await two.append(settled(1))
        assert await one.history("run-1") == await two.history("run-1") == [asked(), granted(), intended(), settled(1)]
    assert audit(path).ok


@pytest.mark.requirement("nrv.proof")
async def test_a_call_is_recorded_with_its_request_result_times_and_status(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        for event in whole_run(calls=2):
            await journal.append(event)
    with JournalReader(path) as reader:
        one, two = reader.calls("run-1")
        assert (one.intent, one.answer) == (intended(0), settled(0))
        assert reader.find_call("call-1") == reader.find_call("call-1", "run-1") == two
        assert reader.find_call("call-9") is None
        (summary,) = reader.runs()
    assert (summary.calls, summary.errors, summary.open, summary.finished) == (2, 0, 0, "answered")


async def test_a_question_is_pending_until_it_is_answered_from_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        await journal.append(asked(0))
        await journal.append(asked(1))
        with JournalReader(path) as reader:
            assert reader.pending() == reader.pending("run-1") == [asked(0), asked(1)]
            async with await SqliteJournal.open(path) as elsewhere:
                await elsewhere.append(granted(0), durable=True)
            assert reader.pending("run-1") == [asked(1)]


async def test_appends_in_flight_share_commits(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        sizes: list[int] = []
        commit = journal._writer.commit

        def counted(drafts: Any, durable: bool) -> None:
            sizes.append(len(drafts))
            commit(drafts, durable)

        journal._writer.commit = counted  # type: ignore[method-assign]  # only counts
        async with asyncio.TaskGroup() as group:
            for number in range(64):
                group.create_task(journal.append(settled(number), durable=True))
    assert sum(sizes) == 64
    assert max(sizes) > 8


async def test_one_who_appends_without_pause_lets_the_others_have_their_turn(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        turns = 0
        done = asyncio.Event()

        async def other() -> None:
            nonlocal turns
            while not done.is_set():
                turns += 1
                await asyncio.sleep(0)  # only gives up its turn

        task = asyncio.create_task(other())
        for number in range(2000):
            await journal.append(settled(number))
        done.set()
        await task
    assert turns > 10


async def test_a_cancelled_append_leaves_the_journal_in_order(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path, timing=JournalTiming(stall=0)) as journal:
        tasks = [asyncio.create_task(journal.append(settled(number), durable=True)) for number in range(20)]
        await asyncio.sleep(0)  # lets them begin
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await journal.append(finished(), durable=True)
        history = await journal.history("run-1")
    assert set(map(repr, history)) >= {repr(settled(number)) for number in range(1, 20, 2)}
    assert history[-1] == finished()
    assert audit(path).ok


async def test_an_event_that_cannot_be_written_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    bad = RunStarted(run="run-1", at=cast("int", object()), tools="")
    async with await SqliteJournal.open(path) as journal:
        answers = await asyncio.gather(
            journal.append(started()), journal.append(bad), journal.append(finished()), return_exceptions=True
        )
        assert [type(answer) for answer in answers] == [type(None), TypeError, type(None)]
        with pytest.raises(TypeError):
            await journal.append(bad)
        assert await journal.history("run-1") == [started(), finished()]
    assert audit(path).ok


async def test_one_journal_serves_several_event_loops(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:

        async def others() -> None:
            await asyncio.gather(*(journal.append(settled(number, "run-2"), durable=True) for number in range(50)))

        elsewhere = asyncio.create_task(asyncio.to_thread(asyncio.run, others()))
        for number in range(50):
            await journal.append(settled(number, "run-1"), durable=True)
        await elsewhere
        assert len(await journal.history("run-1")) == len(await journal.history("run-2")) == 50
    assert audit(path).ok


class Checkpoints:
    """A publisher that can be waited for."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._published = threading.Event()

    def __call__(self, note: str) -> None:
        self.notes.append(note)
        self._published.set()

    async def wait(self) -> int:
        """The size that the next checkpoint signs."""
        assert await asyncio.to_thread(self._published.wait, WAIT)
        self._published.clear()
        return int(self.notes[-1].split("\n")[1])


async def test_no_entry_stays_unsigned_for_long(tmp_path: Path) -> None:
    publish = Checkpoints()
    async with await SqliteJournal.open(
        tmp_path / "j.db", publish=publish, timing=JournalTiming(unsigned=0.01)
    ) as journal:
        await journal.append(started())
        assert await publish.wait() == 1
        await journal.append(settled())
        assert await publish.wait() == 2


async def test_the_end_of_a_run_is_signed(tmp_path: Path) -> None:
    publish = Checkpoints()
    async with await SqliteJournal.open(
        tmp_path / "j.db", publish=publish, timing=JournalTiming(unsigned=WAIT)
    ) as journal:
        await journal.append(started())
        await journal.append(finished())
        assert await publish.wait() == 2


async def test_every_so_many_entries_are_signed(tmp_path: Path) -> None:
    publish = Checkpoints()
    path = tmp_path / "j.db"
    async with await SqliteJournal.open(
        path, publish=publish, checkpoint_every=5, timing=JournalTiming(unsigned=WAIT, stall=0)
    ) as journal:
        for number in range(5):
            await journal.append(settled(number))
        assert await publish.wait() == 5
    assert audit(path, known=publish.notes).ok


async def test_closing_signs_what_is_left(tmp_path: Path) -> None:
    publish = Checkpoints()
    async with await SqliteJournal.open(tmp_path / "j.db", publish=publish) as journal:
        await journal.append(started())
    assert audit(tmp_path / "j.db").unsigned_tail == 0
    assert len(publish.notes) == 1


async def test_a_publisher_that_fails_does_not_stop_the_journal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(note: str) -> None:
        raise OSError("no network")

    async with await SqliteJournal.open(tmp_path / "j.db", publish=refuse) as journal:
        await journal.append(started())
    assert "could not be published" in caplog.text
    assert audit(tmp_path / "j.db").ok


WRITE_UNTIL_REFUSED = """
import resource
from handrail.core.errors import JournalError
async def main():
    journal = await SqliteJournal.open(sys.argv[1])
    await journal.append(settled(0), durable=True)
    limit = os.path.getsize(sys.argv[1] + "-wal") + 300_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    number = 1
    try:
        while True:
            await journal.append(settled(number), durable=True)
            number += 1
    except JournalError as error:
        print(number, error)
    try:
        await journal.append(settled(number))
    except JournalError as error:
        print("still refused", error)
    await journal.aclose()
asyncio.run(main())
"""


def test_after_a_write_error_nothing_more_is_taken_and_what_was_answered_for_is_there(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with child(WRITE_UNTIL_REFUSED, path) as process:
        out, _ = process.communicate(timeout=WAIT)
    first, second = out.splitlines()
    answered, _, why = first.partition(" ")
    assert "check the disk" in why
    assert second.startswith("still refused")
    with JournalReader(path) as reader:
        found = list(reader.events("run-1"))
    assert found[: int(answered)] == [settled(number) for number in range(int(answered))]
    assert len(found) - int(answered) in (0, 1)
    assert audit(path).ok


def test_a_full_disk_refuses_the_whole_batch_and_may_be_overcome(tmp_path: Path) -> None:
    with closing(JournalWriter.open(tmp_path / "journal.db")) as writer:
        salt = bytes(SALT_SIZE)
        writer.commit([draft(started(), salt)], durable=True)
        (pages,) = writer._connection.execute("PRAGMA page_count").fetchone()
        writer._connection.execute(f"PRAGMA max_page_count = {pages}")
        batch = [draft(settled(number, content="x" * 5000), salt) for number in range(3)]
        with pytest.raises(JournalError, match="disk is full"):
            writer.commit(batch, durable=True)
        assert writer.size == 1
        writer._connection.execute("PRAGMA max_page_count = 100000")
        writer.commit(batch, durable=True)
        assert writer.checkpoint() is not None
    assert audit(tmp_path / "journal.db").entries == 4


PROBE = """
from pathlib import Path
from handrail.testing.clock import FixedClock
from tests.faults import disks
folder = Path(sys.argv[1])
disks.own_mounts()
disks.small_disk(folder, 2**20)

async def main():
    clock = FixedClock()
    async with await SqliteJournal.open(folder / "journal.db", clock=clock) as journal:
        await journal.check()
        disks.fill(folder)
        clock.advance(2)
        try:
            await journal.check()
        except JournalError as error:
            print(error)
        disks.filler(folder).unlink()
        await journal.check()
        print("ready")

from handrail.core.errors import JournalError
asyncio.run(main())
"""


def test_whether_a_journal_can_be_written_is_found_out_by_writing(tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("this kernel lets nobody but root have mounts of their own")
    with child(PROBE, tmp_path) as process:
        out, _ = process.communicate(timeout=WAIT)
    full, ready = out.splitlines()
    assert "the disk is full; make room, then try again" in full
    assert ready == "ready"


OPEN_AS_NOBODY = """
import concurrent.futures.thread, cryptography.hazmat.primitives.asymmetric.ed25519
from handrail.core.errors import JournalError
if os.geteuid() == 0:
    os.setgroups([])
    os.setuid(65534)
try:
    asyncio.run(SqliteJournal.open(sys.argv[1]))
except JournalError as error:
    print(error)
"""


def test_a_folder_that_cannot_be_written_is_an_error_that_says_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with child(OPEN_AS_NOBODY, tmp_path / "journal.db") as process:
        out, _ = process.communicate(timeout=WAIT)
    assert "folder" in out
    assert "Permission denied" in out


async def test_a_missing_folder_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="folder exists"):
        await SqliteJournal.open(tmp_path / "nowhere" / "journal.db")


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"dear diary, " * 500)
    with pytest.raises(JournalError, match="not a journal"):
        await SqliteJournal.open(path)
    with pytest.raises(JournalError, match="not a journal"):
        JournalReader(path)
    assert path.read_bytes() == b"dear diary, " * 500


async def test_the_database_of_somebody_else_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    before = path.read_bytes()
    with pytest.raises(JournalError, match="not a journal"):
        await SqliteJournal.open(path)
    assert path.read_bytes() == before


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await (await SqliteJournal.open(path)).aclose()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = '2' WHERE key = 'format'")
    with pytest.raises(JournalError, match="upgrade"):
        await SqliteJournal.open(path)
    with pytest.raises(JournalError, match="upgrade"):
        JournalReader(path)


async def test_another_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await (await SqliteJournal.open(path)).aclose()
    with pytest.raises(JournalError, match="another key"):
        await SqliteJournal.open(path, signer=Signer.from_seed("handrail/journal", b"k" * 32))


async def test_a_journal_that_was_cut_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        for number in range(5):
            await journal.append(settled(number))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM entry WHERE seq = 4")
    with pytest.raises(BrokenProof) as broken:
        await SqliteJournal.open(path)
    assert broken.value.index == 4


async def test_the_entries_of_another_process_are_checked_before_ours_are_put_behind_them(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = await SqliteJournal.open(path, timing=JournalTiming(unsigned=WAIT))
    await journal.append(settled(0))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO entry SELECT 1, run, 1, call, type, at, leaf, hash, salt, data FROM entry")
    with pytest.raises(BrokenProof) as broken:
        await journal.append(settled(1))
    assert broken.value.index == 1
    with pytest.raises(JournalError):
        await journal.append(settled(2))
    await journal.aclose()


async def test_a_process_that_never_lets_go_of_the_file_is_waited_for_and_then_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path, timing=JournalTiming(patience=0.05)) as journal:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            answers = await asyncio.gather(
                *(journal.append(settled(number)) for number in range(3)), return_exceptions=True
            )
            assert [type(answer) for answer in answers] == [JournalError] * 3
            other.execute("ROLLBACK")
        await journal.append(settled(3), durable=True)
        assert await journal.history("run-1") == [settled(3)]
    assert audit(path).ok


async def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        await journal.append(started(), durable=True)
        assert files_open_to_others(tmp_path) == []


@pytest.mark.requirement("nrv.proof")
async def test_erasing_takes_the_body_off_the_disk_and_keeps_the_proof(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        for number in range(4):
            await journal.append(settled(number, content=f"private-{number} " * 700), durable=True)
        assert await asyncio.to_thread(erase, path, call_id="call-2") == 1
        assert files_with(b"private-1", tmp_path) != []
        assert files_with(b"private-2", tmp_path) == []
        history = await journal.history("run-1")
        await journal.append(finished())
    gone = history[2]
    assert isinstance(gone, CallSettled)
    assert gone.result is None
    assert history[1] == settled(1, content="private-1 " * 700)
    report = audit(path)
    assert (report.ok, report.bodies, report.erased) == (True, 3, 1)


async def test_bodies_are_erased_by_run_and_by_time(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        for run in ("run-1", "run-2"):
            for event in whole_run(run):
                await journal.append(event)
    assert erase(path, run="run-1") == 6
    assert erase(path, run="run-1") == 0
    assert erase(path, before=intended().at) == 0
    assert erase(path, run="run-2", before=settled().at) == 3
    assert audit(path).erased == 9
    with pytest.raises(UsageError):
        erase(path)


async def test_who_appends_while_another_loop_closes_the_journal_is_told_so(tmp_path: Path) -> None:
    drawing, signing, queued = threading.Event(), threading.Event(), threading.Event()

    def random(size: int) -> bytes:
        if threading.current_thread() is not threading.main_thread():
            drawing.set()
            signing.wait(WAIT)
        return bytes(size)

    def publish(note: str) -> None:
        signing.set()
        queued.wait(WAIT)

    async def append_late() -> None:
        task = asyncio.create_task(journal.append(settled(1)))
        for _ in range(3):
            await asyncio.sleep(0)
        queued.set()
        async with asyncio.timeout(WAIT):
            await task

    path = tmp_path / "journal.db"
    journal = await SqliteJournal.open(path, timing=JournalTiming(unsigned=WAIT), publish=publish, random=random)
    await journal.append(settled(0))
    late = asyncio.create_task(asyncio.to_thread(asyncio.run, append_late()))
    await asyncio.to_thread(drawing.wait, WAIT)
    await journal.aclose()

    with pytest.raises(JournalError):
        await late
    assert audit(path).entries == 1


async def test_what_other_processes_wrote_of_a_run_is_found_by_a_journal_that_was_opened_before(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as here, await SqliteJournal.open(path) as there:
        assert await here.history("run-1") == []
        for event in whole_run("run-1"):
            await there.append(event)
        await there.append(started("run-2"))
        assert await here.history("run-1") == whole_run("run-1")
        assert await here.history("run-2") == [started("run-2")]
        assert await here.history("run-3") == []
        await here.append(settled(1, "run-2"))
        await there.append(finished("run-2"))
        assert await here.history("run-2") == [started("run-2"), settled(1, "run-2"), finished("run-2")]
    assert audit(path).ok


@pytest.mark.parametrize("every", [1, 3, 1024])
async def test_a_run_that_is_taken_up_long_after_it_ended_goes_on_with_its_numbers(tmp_path: Path, every: int) -> None:
    path = tmp_path / "journal.db"
    for _ in range(2):
        async with await SqliteJournal.open(path, checkpoint_every=every) as journal:
            for number in range(20):
                run = f"run-{number % 4}"
                await journal.append(started(run))
                await journal.append(settled(number, run))
                await journal.append(finished(run))
                await asyncio.to_thread(audit, path)  # the thread signs meanwhile
    assert audit(path).ok
    with JournalReader(path) as reader:
        assert [entry.n for entry in reader.entries("run-1")] == list(range(30))


PUT_OFF_FOR_EVER = """
async def main():
    journal = await SqliteJournal.open(sys.argv[1])
    number = 0
    while True:
        for _ in range(3):
            if not journal.append_soon(settled(number)):  # as many are put off as may be
                await journal.append(settled(number))
            number += 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        print(number, flush=True)
asyncio.run(main())
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_takes_only_the_last_of_what_was_put_off(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "journal.db"
    with child(PUT_OFF_FOR_EVER, path) as process:
        assert process.stdout is not None
        for _ in range(random.Random(seed).randrange(1, 120)):
            said = int(process.stdout.readline())
        process.kill()
    with JournalReader(path) as reader:
        kept = [event.call_id for event in reader.events() if isinstance(event, CallSettled)]
    assert len(kept) >= said - 256
    assert kept == [settled(number).call_id for number in range(len(kept))]
    assert audit(path).ok


async def test_what_is_put_off_shares_a_commit_with_the_entry_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    # Time stands still, so that no checkpoint is signed.
    async with await SqliteJournal.open(path, clock=FixedClock()) as journal:
        await journal.append(started())
        before = commits(path)
        assert all(journal.append_soon(settled(number)) for number in range(20))
        assert commits(path) == before
        assert journal.append_at_once(settled(20), durable=True)
        assert commits(path) == before + 1

        assert journal.append_soon(started("run-2"))  # nothing comes behind this one
        await until(lambda: commits(path) > before + 1)
        assert await journal.history("run-2") == [started("run-2")]


def commits(path: Path) -> int:
    """How many transactions are in the write-ahead log: the last page of each names the size of the file."""
    log = path.with_name(f"{path.name}-wal").read_bytes()
    size = int.from_bytes(log[8:12], "big") + 24
    return sum(log[at + 4 : at + 8] != bytes(4) for at in range(32, len(log), size))


async def test_an_entry_that_could_not_be_written_when_it_was_put_off_is_written_before_any_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        await journal.append(started())
        with full_disk(journal):
            assert journal.append_soon(long(1))
            await until(lambda: "1 entries are yet to be written" in caplog.text)
            for durable in (False, True):
                with pytest.raises(JournalError, match="full"):
                    await journal.append(long(2), durable=durable)
            with pytest.raises(JournalError, match="full"):
                if not journal.append_at_once(long(2)):
                    await journal.append(long(2))
        await journal.append(long(3))
        assert await journal.history("run-1") == [started(), long(1), long(3)]


async def test_closing_a_journal_says_that_an_entry_could_not_be_written(tmp_path: Path) -> None:
    journal = await SqliteJournal.open(tmp_path / "journal.db")
    await journal.append(started())
    with full_disk(journal):
        assert journal.append_soon(long(1))
        with pytest.raises(JournalError, match="full"):
            await journal.aclose()
    assert audit(tmp_path / "journal.db").entries == 1


def long(number: int) -> CallSettled:
    return replace(settled(number), result=ToolResult(settled(number).call_id, "pay", "x" * 20_000))


@contextmanager
def full_disk(journal: SqliteJournal) -> Iterator[None]:
    """The file may not grow meanwhile."""
    connection = journal._writer._connection
    connection.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size for it
    yield
    if not journal._closing:
        connection.execute("PRAGMA max_page_count = 1000000")


async def test_runs_that_end_together_share_a_checkpoint_and_the_end_is_signed(tmp_path: Path) -> None:
    signed: list[str] = []
    path, clock = tmp_path / "journal.db", FixedClock()
    async with await SqliteJournal.open(path, clock=clock, publish=signed.append) as journal:
        await journal.append(started("first"))
        await journal.append(finished("first"))
        await until(lambda: len(signed) == 1)
        for number in range(100):
            await journal.append(started(f"run-{number}"))
            await journal.append(finished(f"run-{number}"))
        await asyncio.to_thread(audit, path)
        assert len(signed) == 1
        clock.advance(1)
        await journal.append(finished("last"))
        await until(lambda: len(signed) == 2)
    report = audit(path)
    assert (report.entries, report.ok) == (203, True)


def test_a_journal_that_failed_and_whose_file_is_gone_can_still_be_closed(tmp_path: Path) -> None:
    writer = JournalWriter.open(tmp_path / "journal.db")
    writer.failure = JournalError("the disk is away")
    for file in tmp_path.iterdir():
        file.unlink()

    writer.close()

    with pytest.raises(JournalError, match="failed before"):
        writer.commit([draft(started(), bytes(SALT_SIZE))], durable=True)


async def test_recent_events_are_the_last_ones_of_all_runs(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        for number in range(10):
            await journal.append(settled(number, f"run-{number % 2}"))
    with JournalReader(path) as reader:
        assert reader.recent(3) == [settled(7, "run-1"), settled(8, "run-0"), settled(9, "run-1")]
        assert reader.size() == 10
        assert reader.entry(3).event == settled(3, "run-1")
        assert reader.body(3) == reader.entry(3).data
        with pytest.raises(JournalError, match="no entry 10"):
            reader.entry(10)


def test_there_is_nothing_to_read_where_no_journal_is(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="no journal"):
        JournalReader(tmp_path / "journal.db")
    assert list(tmp_path.iterdir()) == []
