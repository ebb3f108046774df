"""An audit finds every change, and says where; what leaves the journal can be verified by others."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.calls import ToolResult
from handrail.core.errors import BrokenProof, JournalError, UsageError
from handrail.core.events import CallAmended, Recorded
from handrail.journal.auditing import Receipt, audit, export_run, prove
from handrail.journal.journal import JournalTiming, SqliteJournal
from handrail.journal.keys import Signer, Verifier
from handrail.journal.merkle import leaf_hash
from handrail.journal.reader import JournalReader, erase
from tests.examples import examples
from tests.journal.event_samples import AT, finished, intended, settled, started, whole_run

ENTRIES = 14


async def write(path: Path, events: list[Recorded]) -> None:
    async with await SqliteJournal.open(path, checkpoint_every=4, timing=JournalTiming(stall=0)) as journal:
        for event in events:
            await journal.append(event)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed journal of two runs and `ENTRIES` entries, in one file."""
    path = tmp_path_factory.mktemp("original") / "journal.db"
    events: list[Recorded] = [*whole_run("run-1", calls=2), *whole_run("run-2", calls=2)]
    assert len(events) == ENTRIES
    asyncio.run(write(path, events))
    return path


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original.parent, tmp_path / "copy")) / original.name


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


Tamper = Callable[[sqlite3.Connection, int], None]


def change_leaf(connection: sqlite3.Connection, index: int) -> None:
    (leaf,) = connection.execute("SELECT leaf FROM entry WHERE seq = ?", (index,)).fetchone()
    connection.execute("UPDATE entry SET leaf = ? WHERE seq = ?", (leaf.replace(b'"v":1', b'"v":1 '), index))


def change_leaf_and_hash(connection: sqlite3.Connection, index: int) -> None:
    change_leaf(connection, index)
    (leaf,) = connection.execute("SELECT leaf FROM entry WHERE seq = ?", (index,)).fetchone()
    connection.execute("UPDATE entry SET hash = ? WHERE seq = ?", (leaf_hash(leaf), index))


def change_hash(connection: sqlite3.Connection, index: int) -> None:
    connection.execute("UPDATE entry SET hash = zeroblob(32) WHERE seq = ?", (index,))


def spoil_leaf(connection: sqlite3.Connection, index: int) -> None:
    connection.execute("UPDATE entry SET leaf = 'nothing' WHERE seq = ?", (index,))


def drop(connection: sqlite3.Connection, index: int) -> None:
    connection.execute("DELETE FROM entry WHERE seq = ?", (index,))


def drop_and_close_ranks(connection: sqlite3.Connection, index: int) -> None:
    drop(connection, index)
    for seq in range(index + 1, ENTRIES):
        connection.execute("UPDATE entry SET seq = seq - 1 WHERE seq = ?", (seq,))


def swap_with_another(connection: sqlite3.Connection, index: int) -> None:
    other = index + 1 if index + 1 < ENTRIES else 0
    for old, new in ((index, -1), (other, index), (-1, other)):
        connection.execute("UPDATE entry SET seq = ? WHERE seq = ?", (new, old))


def insert_before(connection: sqlite3.Connection, index: int) -> None:
    for seq in reversed(range(index, ENTRIES)):
        connection.execute("UPDATE entry SET seq = seq + 1 WHERE seq = ?", (seq,))
    connection.execute(
        "INSERT INTO entry SELECT ?, run, n, call, type, at, leaf, hash, salt, data FROM entry WHERE seq = ?",
        (index, index + 1),
    )
    change_leaf_and_hash(connection, index)


def cut(connection: sqlite3.Connection, index: int) -> None:
    connection.execute("DELETE FROM entry WHERE seq >= ?", (index,))


def change_column(connection: sqlite3.Connection, index: int) -> None:
    column = ("run", "type", "call", "at", "n")[index % 5]
    connection.execute(f"UPDATE entry SET {column} = 77 WHERE seq = ?", (index,))


def change_body(connection: sqlite3.Connection, index: int) -> None:
    connection.execute(
        "UPDATE entry SET data = coalesce(data, '') || ' ', salt = coalesce(salt, '') WHERE seq = ?", (index,)
    )


def take_salt(connection: sqlite3.Connection, index: int) -> None:
    connection.execute("UPDATE entry SET data = x'7b7d', salt = NULL WHERE seq = ?", (index,))


TAMPERS: list[Tamper] = [
    change_leaf,
    change_leaf_and_hash,
    change_hash,
    spoil_leaf,
    drop,
    drop_and_close_ranks,
    swap_with_another,
    insert_before,
    cut,
    change_column,
    change_body,
    take_salt,
]


def test_an_untouched_journal_is_good(original: Path) -> None:
    report = audit(original)
    assert report.ok
    assert report.problems == ()
    assert (report.entries, report.bodies, report.erased, report.unsigned_tail) == (ENTRIES, 8, 0, 0)
    assert report.checkpoints >= 3


async def test_a_journal_that_is_written_meanwhile_is_audited_as_it_was_at_first(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await write(path, whole_run("run-1", calls=2))

    def kept_elsewhere() -> Iterator[str]:
        """Somebody goes on with the journal between two looks of the audit."""
        asyncio.run(write(path, [settled(7), settled(8)]))
        yield from ()

    report = await asyncio.to_thread(audit, path, known=kept_elsewhere())

    assert (report.problems, report.entries) == ((), 7)
    assert audit(path).entries == 9


@pytest.mark.requirement("nrv.proof")
@given(tamper=st.sampled_from(TAMPERS), index=st.integers(0, ENTRIES - 1))
@settings(max_examples=examples(120), deadline=None)
def test_every_change_is_found_at_the_first_entry_that_is_bad(
    original: Path, tmp_path_factory: pytest.TempPathFactory, tamper: Tamper, index: int
) -> None:
    path = tmp_path_factory.mktemp("changed") / original.name
    shutil.copy(original, path)
    with closing(connect(path)) as connection:
        tamper(connection, index)
    report = audit(path)
    assert not report.ok
    first = report.problems[0].index
    if tamper is swap_with_another and index == ENTRIES - 1:
        assert first == 0
    elif tamper is change_leaf_and_hash and index == ENTRIES - 1:
        # Nothing is chained to the last entry: only the checkpoint knows, and it knows a subtree.
        assert first is not None
        assert ENTRIES - 2 <= first <= index
    else:
        assert first == index, report.problems
    shutil.rmtree(path.parent)


def amended(number: int, why: Literal["late", "person"]) -> CallAmended:
    said = ToolResult(f"call-{number}", "io:write", f"written, says {why}")
    return CallAmended(
        run="run-1", at=AT + 3, call_id=f"call-{number}", tool="io:write", outcome="ok", why=why, result=said
    )


@pytest.mark.parametrize(("why", "body"), [("person", "says person"), ("late", '"content":"written"')])
async def test_a_receipt_is_for_the_answer_and_a_persons_word_is_the_answer(
    tmp_path: Path, why: Literal["late", "person"], body: str
) -> None:
    await write(tmp_path / "journal.db", [started(), intended(0), settled(0), amended(0, why)])

    receipt = prove(tmp_path / "journal.db", "call-0")

    assert body in (receipt.body or "")
    receipt.verify(Verifier.parse(receipt.verifier_key))


def test_a_receipt_names_the_key_that_signed_its_checkpoint(original: Path) -> None:
    receipt = prove(original, "call-0", run="run-1", signer=Signer.from_seed("somebody.else", bytes(32)))

    receipt.verify(Verifier.parse(receipt.verifier_key))


def rewrite_from(connection: sqlite3.Connection, index: int) -> None:
    """Change an entry and chain all later ones to it, as someone without the key can."""
    change_leaf_and_hash(connection, index)
    for seq in range(index + 1, ENTRIES):
        ((leaf, prev),) = connection.execute(
            "SELECT one.leaf, two.hash FROM entry one JOIN entry two ON two.seq = one.seq - 1 WHERE one.seq = ?", (seq,)
        )
        start = leaf.index(b'"prev":"') + len(b'"prev":"')
        leaf = leaf[:start] + prev.hex().encode() + leaf[start + 64 :]
        connection.execute("UPDATE entry SET leaf = ?, hash = ? WHERE seq = ?", (leaf, leaf_hash(leaf), seq))


@pytest.mark.parametrize("index", range(ENTRIES))
def test_a_history_rewritten_to_the_end_does_not_fit_its_checkpoints(copy: Path, index: int) -> None:
    with closing(connect(copy)) as connection:
        rewrite_from(connection, index)
    (problem,) = audit(copy).problems
    assert problem.index is not None
    assert index - 4 <= problem.index <= index
    assert "rewritten" in problem.why


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM span WHERE run = 'run-1'",
        "UPDATE span SET run = 'run-3' WHERE run = 'run-1'",
        "UPDATE span SET last = last - 1 WHERE run = 'run-1'",
        "UPDATE span SET first = first + 1 WHERE run = 'run-2'",
        "UPDATE span SET n = n + 1 WHERE run = 'run-2'",
        "UPDATE span SET last = x'00' WHERE run = 'run-2'",
    ],
)
def test_hiding_entries_of_a_run_by_the_note_on_where_it_stands_is_found(copy: Path, statement: str) -> None:
    with closing(connect(copy)) as connection:
        connection.execute(statement)
    (problem,) = audit(copy).problems
    assert problem.index is None
    assert "run-" in problem.why


def test_cutting_the_checkpoints_too_is_found_by_one_kept_elsewhere(copy: Path) -> None:
    with JournalReader(copy) as reader:
        kept = [note for _, note, _ in reader.checkpoints()]
    with closing(connect(copy)) as connection:
        connection.execute("DELETE FROM entry WHERE seq >= 6")
        connection.execute("DELETE FROM checkpoint WHERE size > 6")
        connection.execute("DELETE FROM span")
        connection.execute(
            "INSERT INTO span SELECT run, min(seq), max(seq), max(n) FROM entry"
            " WHERE seq < (SELECT max(size) FROM checkpoint) GROUP BY run"
        )
    assert audit(copy).ok
    (problem,) = audit(copy, known=kept).problems
    assert problem.index == 6


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE checkpoint SET note = replace(note, '14', '15') WHERE size = 14",
        "UPDATE checkpoint SET note = (SELECT note FROM checkpoint WHERE size = 14) WHERE size < 14",
        "UPDATE checkpoint SET note = x'00'",
        "UPDATE checkpoint SET note = 'nothing'",
        "UPDATE checkpoint SET frontier = zeroblob(32)",
        "UPDATE meta SET value = 'nobody' WHERE key = 'origin'",
        "UPDATE meta SET value = 'nothing' WHERE key = 'key'",
    ],
)
def test_a_changed_checkpoint_is_found(copy: Path, statement: str) -> None:
    with closing(connect(copy)) as connection:
        connection.execute(statement)
    report = audit(copy)
    assert not report.ok
    assert {problem.index for problem in report.problems} == {None}


def test_a_journal_signed_by_someone_else_is_good_only_under_their_key(copy: Path) -> None:
    with JournalReader(copy) as reader:
        own = Verifier.parse(reader.verifier_key)
    stranger = Signer.from_seed(own.name, b"s" * 32).verifier
    assert audit(copy, verifiers=[own]).ok
    assert audit(copy, verifiers=[own, stranger]).ok
    assert not audit(copy, verifiers=[stranger]).ok
    assert not audit(copy, verifiers=[]).ok


def test_an_erased_body_is_counted_and_is_no_problem(copy: Path) -> None:
    assert erase(copy, run="run-1") == 4
    report = audit(copy)
    assert (report.ok, report.bodies, report.erased) == (True, 4, 4)


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_no_flipped_byte_of_the_file_crashes_an_audit(
    original: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(original.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("flipped") / original.name
    path.write_bytes(content)
    try:
        audit(path)
    except JournalError as error:
        assert str(path) in str(error)  # not even a database any more
    shutil.rmtree(path.parent)


@pytest.mark.requirement("nrv.proof")
def test_a_receipt_proves_one_call_to_someone_who_has_only_the_key(copy: Path) -> None:
    receipt = Receipt.from_json(prove(copy, "call-1", run="run-2").to_json())
    verifier = Verifier.parse(receipt.verifier_key)
    receipt.verify(verifier)
    assert (receipt.index, receipt.size) == (12, ENTRIES)
    assert receipt.body is not None
    assert "written" in receipt.body
    with pytest.raises(BrokenProof):
        receipt.verify(Signer.from_seed(verifier.name, b"s" * 32).verifier)


@pytest.mark.parametrize("field", ["call_id", "index", "size", "leaf", "proof", "checkpoint", "salt", "body"])
def test_a_changed_receipt_does_not_verify(copy: Path, field: str) -> None:
    receipt = prove(copy, "call-0", run="run-1")
    verifier = Verifier.parse(receipt.verifier_key)
    value = getattr(receipt, field)
    changed = {
        int: lambda: value + 1,
        str: lambda: value + "0",
        tuple: lambda: value[:-1],
    }[type(value)]()
    with pytest.raises(BrokenProof):
        msgspec.structs.replace(receipt, **{field: changed}).verify(verifier)


async def test_a_call_that_no_checkpoint_covers_yet_gets_a_fresh_one(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path, timing=JournalTiming(unsigned=60)) as journal:
        await journal.append(started())
        await journal.append(settled())
        receipt = prove(path, "call-0")
    receipt.verify(Verifier.parse(receipt.verifier_key))
    assert receipt.size == 2


def test_an_unknown_call_has_no_receipt_and_an_unknown_run_no_bundle(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="call-9"):
        prove(copy, "call-9")
    with pytest.raises(JournalError, match="run-9"):
        export_run(copy, "run-9", tmp_path / "bundle")


@pytest.mark.parametrize("tamper", [change_leaf, change_leaf_and_hash, change_body, change_column, spoil_leaf])
def test_a_changed_entry_is_in_no_receipt_and_no_bundle(copy: Path, tmp_path: Path, tamper: Tamper) -> None:
    with closing(connect(copy)) as connection:
        tamper(connection, 12)
    for attempt in (lambda: prove(copy, "call-1", run="run-2"), lambda: export_run(copy, "run-2", tmp_path / "bundle")):
        with pytest.raises(BrokenProof) as broken:
            attempt()
        assert broken.value.index in (12, 13)
    with JournalReader(copy) as reader:
        key = reader.verifier_key
    assert (
        tamper is not change_body or verify_bundle(export_run(copy, "run-1", tmp_path / "other"), key).returncode == 0
    )


def verify_bundle(folder: Path, key: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(folder / "verify.py"), str(folder), "--key", key]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.requirement("nrv.proof")
def test_an_exported_run_verifies_without_handrail_even_with_erased_bodies(copy: Path, tmp_path: Path) -> None:
    erase(copy, run="run-1", call_id="call-1")
    with JournalReader(copy) as reader:
        key = reader.verifier_key
    folder = export_run(copy, "run-1", tmp_path / "bundle")
    answer = verify_bundle(folder, key)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "7 entries" in answer.stdout
    with pytest.raises(UsageError):
        export_run(copy, "run-1", folder)


@pytest.mark.slow
async def test_twenty_thousand_entries_are_written_and_audited(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with await SqliteJournal.open(path) as journal:
        for chunk in range(20):
            async with asyncio.TaskGroup() as group:
                for number in range(1000):
                    group.create_task(journal.append(settled(number, f"run-{chunk}")))
        await journal.append(finished("run-0"))
        assert await journal.history("run-10") == [settled(number, "run-10") for number in range(1000)]
    report = audit(path)
    assert (report.problems, report.entries, report.bodies, report.unsigned_tail) == ((), 20_001, 20_000, 0)
