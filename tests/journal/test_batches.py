"""What is noted of many entries together finds the same as a look at all of them, and never more than they say."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from handrail.core.errors import BrokenProof
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested, Recorded, RunStarted
from handrail.desk.views.journal_index import JournalIndex
from handrail.journal.auditing import audit, export_run, prove
from handrail.journal.batches import BATCH
from handrail.journal.entry import draft
from handrail.journal.keys import Verifier
from handrail.journal.merkle import KEPT, root
from handrail.journal.places import JournalPlace
from handrail.journal.reader import JournalReader
from handrail.journal.stored_tree import StoredTree
from handrail.journal.verifier import check
from handrail.journal.writer import JournalWriter
from tests.journal.event_samples import asked, finished, granted, intended, settled, started

LONG = "run-long"
SMALL, LARGE = 3, 24
"""Batches of two journals, of which one is eight times as long."""


def events(count: int) -> list[Recorded]:
    """One run from the first entry to the last, and short ones beside it, some of which ask."""
    found: list[Recorded] = [started(LONG)]
    number = 0
    while len(found) < count:
        number += 1
        run = f"run-{number}"
        found += [started(run), intended(number, run), settled(number, run), finished(run)]
        if number % 40 == 0:
            found += [asked(number, run), *([granted(number, run)] if number % 80 else [])]
        if number % 25 == 0:
            found += [intended(number, LONG), settled(number, LONG)]
    return found[:count]


def write(path: Path, count: int) -> Path:
    writer = JournalWriter.open(path)
    fill(writer, count)
    writer.close()
    return path


def fill(writer: JournalWriter, count: int) -> None:
    recorded = events(count)
    for at in range(0, count, 200):
        writer.commit([draft(each, bytes(16), writer.signer.sealing) for each in recorded[at : at + 200]], False)
        if at < count - 300:
            writer.checkpoint()
    while writer.behind:
        writer.checkpoint()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("small") / "journal.db", SMALL * BATCH + 300)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("large") / "journal.db", LARGE * BATCH + 300)


@pytest.fixture
def copy(small: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small.parent, tmp_path / "copy")) / small.name


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


UNNOTED = ("DELETE FROM batch", "DELETE FROM waiting", "DELETE FROM subtree")


@pytest.mark.parametrize("statements", [(), UNNOTED, ("DROP TABLE batch", "DROP TABLE waiting", "DROP TABLE subtree")])
def test_what_is_found_by_notes_is_what_all_entries_say(copy: Path, statements: tuple[str, ...]) -> None:
    change(copy, *statements)
    assert_found(copy, 0 if statements else SMALL * BATCH)


def assert_found(place: JournalPlace, noted: int) -> None:
    """What is found is what all entries say."""
    with JournalReader(place) as reader:
        every = list(reader.entries())
        assert reader.noted() == noted
        for run in (LONG, "run-7", every[-1].run, "run-nobody"):
            assert list(reader.entries_of(run)) == [each for each in every if each.run == run]
            assert list(reader.whole_run(run)) == [each for each in every if each.run == run]
        for call in ("call-7", "call-25", every[-2].call or ""):
            assert list(reader.entries_of_call(call)) == [each for each in every if each.call == call]
        begun = [each.run for each in every if each.n == 0]
        assert list(reader.newest_runs()) == begun[::-1]
        assert list(reader.newest_runs(begun[100])) == begun[:100][::-1]
        assert set(reader.runs_named("run-1")) == {run for run in begun if run.startswith("run-1")}
        waiting: dict[str, None] = {}
        for event in (each.event for each in every):
            if isinstance(event, ConfirmationRequested):
                waiting[event.request] = None
            elif isinstance(event, ConfirmationAnswered):
                waiting.pop(event.request)
        assert [each.request for each in reader.pending()] == list(waiting)
        assert len(waiting) > 1


@pytest.mark.parametrize("statements", [(), UNNOTED])
def test_receipts_and_bundles_made_from_the_stored_tree_are_good(
    copy: Path, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    change(copy, *statements)
    assert_provable(copy, tmp_path)


def assert_provable(place: JournalPlace, tmp_path: Path) -> None:
    """Receipts and a bundle can be made of it, and are good."""
    with JournalReader(place) as reader:
        key = reader.verifier_key
        assert StoredTree(reader._connection).frontier(reader.size()).root() == root(reader.hashes())
    prove(place, "call-7").verify(Verifier.parse(key))
    prove(place, "call-25", run=LONG).verify(Verifier.parse(key))
    report = check(export_run(place, LONG, tmp_path / "bundle"), key)
    assert (report.problems, report.entries) == (
        (),
        len([each for each in events(SMALL * BATCH + 300) if each.run == LONG]),
    )


def test_a_journal_of_an_earlier_handrail_is_noted_when_it_is_opened_to_write(copy: Path) -> None:
    with JournalReader(copy) as reader:
        noted = [list(rows) for rows in reader.stored_notes()]
    change(copy, "DROP TABLE batch", "DROP TABLE waiting", "DROP TABLE subtree")
    writer = JournalWriter.open(copy)
    assert writer.behind
    while writer.behind:
        writer.checkpoint()
    writer.close()
    with JournalReader(copy) as reader:
        again = [list(rows) for rows in reader.stored_notes()]
    assert again[:2] == noted[:2]
    assert set(again[2]) >= {row for row in noted[2] if row[1] + (1 << row[0]) <= SMALL * BATCH}
    assert audit(copy).ok


HIDES = [
    "UPDATE batch SET runs = zeroblob(length(runs)) WHERE start = 448",
    "UPDATE batch SET runs = x'00' WHERE start = 448",
    "UPDATE batch SET runs = (SELECT runs FROM batch WHERE start = 0), mark = (SELECT mark FROM batch WHERE start = 0)"
    " WHERE start = 448",
    "DELETE FROM batch WHERE start = 448",
]


@pytest.mark.parametrize("statement", HIDES)
def test_no_run_is_signed_with_entries_hidden(copy: Path, tmp_path: Path, statement: str) -> None:
    change(copy, statement)
    with pytest.raises(BrokenProof):
        export_run(copy, LONG, tmp_path / "bundle")
    with pytest.raises(BrokenProof):
        JournalIndex(copy).signed(LONG, 0, 10)
    assert not audit(copy).ok


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET run = 'run-other' WHERE seq = (SELECT max(seq) FROM entry WHERE run = 'run-long')",
        "UPDATE entry SET run = 'other' WHERE seq = (SELECT max(seq) FROM entry WHERE run = 'run-long' AND seq < 900)",
        "DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry WHERE run = 'run-long' AND seq < 900)",
    ],
)
def test_an_entry_whose_row_was_changed_is_not_left_out_of_its_run(copy: Path, tmp_path: Path, statement: str) -> None:
    change(copy, statement)
    with pytest.raises(BrokenProof):
        export_run(copy, LONG, tmp_path / "bundle")


@pytest.mark.parametrize(
    "statement",
    [
        *HIDES[:3],
        "UPDATE batch SET calls = zeroblob(length(calls))",
        "UPDATE batch SET began = x''",
        "DELETE FROM waiting",
        f"UPDATE subtree SET hash = zeroblob(32) WHERE level = {KEPT} AND start = 64",
    ],
)
def test_an_audit_finds_notes_that_were_changed(copy: Path, statement: str) -> None:
    assert audit(copy).ok
    change(copy, statement)
    (problem,) = audit(copy).problems
    assert problem.index is None


def test_a_changed_node_of_the_stored_tree_proves_nothing(copy: Path) -> None:
    change(copy, f"UPDATE subtree SET hash = zeroblob(32) WHERE level = {KEPT}")
    with pytest.raises(BrokenProof):
        prove(copy, "call-7")


def test_damaged_entries_are_not_noted_and_the_journal_goes_on(copy: Path) -> None:
    change(copy, *UNNOTED, "UPDATE entry SET leaf = 'nothing' WHERE type = 'confirmation.requested' AND seq < 448")
    writer = JournalWriter.open(copy)
    writer.commit([draft(RunStarted(run="run-new", at=0, tools=""), b"")], True)
    assert writer.checkpoint() is not None
    assert not writer.behind
    writer.close()
    with JournalReader(copy) as reader:
        assert reader.noted() == 0
        assert next(reader.newest_runs()) == "run-new"


# ── how much work ──


def steps(path: Path, work: Callable[[JournalReader], object]) -> int:
    """The steps of SQLite's machine that something takes."""
    with JournalReader(path) as reader:
        taken = 0

        def count() -> None:
            nonlocal taken
            taken += 1

        reader._connection.set_progress_handler(count, 1)
        work(reader)
        return taken


def first(rows: Iterator[object], n: int) -> list[object]:
    return [row for row, _ in zip(rows, range(n), strict=False)]


@pytest.mark.parametrize(
    "work",
    [
        lambda reader: list(reader.entries_of("run-7")),
        lambda reader: reader.begin("run-7"),
        lambda reader: first(reader.newest_runs(), 20),
        lambda reader: reader.tree().path(77, reader.end()),
        lambda reader: reader.runs_named("run-77"),
    ],
)
def test_a_journal_that_is_eight_times_as_long_asks_for_little_more_work(
    small: Path, large: Path, work: Callable[[JournalReader], object]
) -> None:
    assert steps(large, work) < 1.5 * steps(small, work)


def test_a_search_for_a_call_in_all_runs_reads_a_row_for_hundreds_of_entries(large: Path) -> None:
    def work(reader: JournalReader) -> None:
        assert list(reader.entries_of_call("call-7"))

    assert steps(large, work) < LARGE * BATCH
