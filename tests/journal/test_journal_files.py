"""A journal whose file is gone: noticed while it is written, and never begun anew in silence."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from handrail.core.calls import ToolCall
from handrail.core.errors import JournalError
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.journal.auditing import audit
from handrail.journal.journal import SqliteJournal
from handrail.journal.reader import JournalReader
from handrail.tools.tool import tool
from tests.cli.journal_fixtures import command, run
from tests.faults import failing_disks
from tests.faults.test_disks import can_mount
from tests.journal.event_samples import settled, started


def removed(path: Path) -> None:
    shutil.rmtree(path.parent)


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def replaced(path: Path) -> None:
    other = path.with_name("other.db")
    shutil.copyfile(path, other)
    other.replace(path)


def without_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").unlink()


@pytest.mark.parametrize("lose", [removed, moved, replaced, without_log])
async def test_an_effect_after_the_journal_has_vanished_does_not_run(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    done: list[str] = []

    @tool(side_effects=True)
    def pay(to: str) -> str:
        """Pay somebody."""
        done.append(to)
        return "paid"

    path = tmp_path / "state" / "journal.db"
    path.parent.mkdir()
    async with await SqliteJournal.open(path) as journal:
        executor = Executor([pay], journal=journal, policy=Policy(confirm_side_effects=False))
        await executor.invoke(ToolCall("call_1", "pay", {"to": "ada"}))
        lose(path)
        with pytest.raises(JournalError, match="removed or replaced while it was in use"):
            await executor.invoke(ToolCall("call_2", "pay", {"to": "bob"}))
        with pytest.raises(JournalError, match="takes no more entries"):
            await executor.invoke(ToolCall("call_3", "pay", {"to": "eve"}))

    assert done == ["ada"]


async def test_a_lost_journal_is_not_begun_again_with_its_old_key(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        await journal.append(started(), durable=True)
    path.unlink()

    with pytest.raises(JournalError, match="handrail proof new"):
        await SqliteJournal.open(path)
    path.touch()
    with pytest.raises(JournalError, match="put it back from a backup"):
        await SqliteJournal.open(path)


async def test_a_log_without_its_journal_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    log = tmp_path / "journal.db-wal"
    log.write_bytes(b"the only entries there are")

    with pytest.raises(JournalError, match=r"the log .* is there, but its journal is not"):
        await SqliteJournal.open(path)
    assert log.read_bytes() == b"the only entries there are"


async def test_proof_new_begins_again_with_another_key_and_keeps_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        await journal.append(started(), durable=True)
        old = journal.verifier_key
    kept = (tmp_path / "journal.key").read_bytes()
    path.unlink()

    told = await asyncio.to_thread(run, "proof", "new", "--journal", str(path), "--json")

    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["verifier_key"] != old
    assert (tmp_path / "journal.key.lost-1").read_bytes() == kept
    async with await SqliteJournal.open(path) as journal:
        await journal.append(started(), durable=True)


async def test_proof_new_does_nothing_where_a_journal_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        await journal.append(started(), durable=True)

    told = await asyncio.to_thread(run, "proof", "new", "--journal", str(path))

    assert told.exit_code == 1
    assert "nothing was moved" in told.output
    assert audit(path).entries == 1


@pytest.mark.parametrize("with_key", [True, False])
async def test_a_plain_copy_of_a_live_journal_is_refused_with_how_to_make_a_real_one(
    tmp_path: Path, with_key: bool
) -> None:
    path, copy = tmp_path / "journal.db", tmp_path / "copy.db"
    async with await SqliteJournal.open(path) as journal:
        await journal.append(started(), durable=True)
        shutil.copyfile(path, copy)
    if with_key:
        shutil.copy(tmp_path / "journal.key", tmp_path / "copy.key")
    before = copy.read_bytes()

    with pytest.raises(JournalError, match="handrail proof backup FILE"):
        await SqliteJournal.open(copy)
    with pytest.raises(JournalError, match="handrail proof backup FILE"):
        audit(copy)
    assert copy.read_bytes() == before


async def test_a_backup_of_a_live_journal_is_whole_and_goes_on_as_a_journal(tmp_path: Path) -> None:
    path, copy = tmp_path / "journal.db", tmp_path / "copy" / "journal.db"
    copy.parent.mkdir()
    async with await SqliteJournal.open(path) as journal:
        await journal.append(started(), durable=True)
        told = await asyncio.to_thread(run, "proof", "backup", str(copy), "--journal", str(path), "--json")
        await journal.append(settled(1), durable=True)

    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)["entries"] == 1
    assert copy.stat().st_mode & 0o077 == 0
    assert (audit(copy).ok, audit(copy).entries) == (True, 1)
    shutil.copy(tmp_path / "journal.key", copy.parent / "journal.key")
    async with await SqliteJournal.open(copy) as journal:
        await journal.append(settled(1), durable=True)
    assert (audit(copy).ok, audit(copy).entries) == (True, 2)


async def test_a_backup_never_writes_over_a_file(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        await journal.append(started(), durable=True)
    (tmp_path / "there").write_text("mine")

    told = await asyncio.to_thread(run, "proof", "backup", str(tmp_path / "there"), "--journal", str(path))

    assert told.exit_code != 0
    assert (tmp_path / "there").read_text() == "mine"


@pytest.mark.parametrize("is_live", [True, False], ids=["with its log", "closed"])
async def test_proof_verify_works_where_nothing_can_be_written(tmp_path: Path, is_live: bool) -> None:
    if not can_mount():
        pytest.skip("this kernel lets nobody but root have mounts of their own")
    media = tmp_path / "media"
    media.mkdir()
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        await journal.append(started(), durable=True)
        if is_live:
            for name in ("journal.db", "journal.db-wal"):
                shutil.copyfile(tmp_path / name, media / name)
    if not is_live:
        shutil.copyfile(tmp_path / "journal.db", media / "journal.db")

    def protect() -> None:
        failing_disks.own_mounts()
        failing_disks.read_only(media)
        os.chdir(media)

    verify = command("proof", "verify", "--journal", str(media / "journal.db"))
    out = await asyncio.to_thread(
        subprocess.run, verify, preexec_fn=protect, check=False, capture_output=True, text=True
    )

    assert (out.returncode, "VERIFIED: 1 entry" in out.stdout) == (0, True), out.stderr
    assert sorted(each.name for each in media.iterdir()) == (
        ["journal.db", "journal.db-wal"] if is_live else ["journal.db"]
    )


OPEN_AND_CLOSE = """
import asyncio, sys
from handrail.journal.journal import SqliteJournal
from tests.journal.event_samples import settled

async def main():
    async with await SqliteJournal.open(sys.argv[1]) as journal:
        await journal.append(settled(1), durable=True)

asyncio.run(main())
"""


async def test_looking_into_a_journal_does_not_let_another_process_remove_its_log(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        await journal.append(started(), durable=True)
        with JournalReader(path) as reader:
            assert reader.size() == 1
        async with await SqliteJournal.open(path) as second:
            await second.append(settled(0), durable=True)
        other = await asyncio.create_subprocess_exec(sys.executable, "-c", OPEN_AND_CLOSE, path)
        assert await other.wait() == 0
        await journal.append(settled(2), durable=True)

    assert (audit(path).ok, audit(path).entries) == (True, 4)


def test_a_journal_whose_making_was_cut_off_is_made_the_next_time(tmp_path: Path) -> None:
    """A kill between the first page and the log leaves the same bytes as a copy without its log."""
    path = tmp_path / "journal.db"

    async def open_and_close() -> None:
        async with await SqliteJournal.open(path):
            pass

    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(JournalError, match="proof backup"):
        asyncio.run(open_and_close())

    path.with_name("journal.db-new").touch()  # what whoever makes a journal writes first
    asyncio.run(open_and_close())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["journal.db", "journal.key"]
