"""The record as a page is shown it: what is sent holds by itself, and a byte that was changed shows."""

from __future__ import annotations

import io
import json
import sqlite3
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from handrail.core.errors import BrokenProof, JournalError, UsageError
from handrail.core.messages import Conversation, Text, UserMessage
from handrail.desk.views.journal_index import JournalIndex
from handrail.desk.views.proofs import INLINE, ProofViews
from handrail.desk.views.values import EntryRow, RunPage
from handrail.journal.auditing import Receipt
from handrail.journal.entry import body_digest, leaf_position
from handrail.journal.keys import Verifier
from handrail.journal.reader import JournalReader, erase
from handrail.journal.verifier import check, check_signature, included, leaf_hash, parse_key, parse_note
from handrail.sessions.store.conversations import ConversationStore
from tests.desk.views_folder import ViewsFolder, call


@pytest.fixture
def house(tmp_path: Path) -> Iterator[ViewsFolder]:
    yield ViewsFolder(tmp_path)
    sys.modules.pop("looked_at", None)  # another test has its own


def holds(page: RunPage, entry: EntryRow) -> bool:
    """As a browser checks it, by the functions of the verifier that stands alone."""
    note = parse_note(page.checkpoint.encode())
    check_signature(note, parse_key(page.verifier_key))
    assert (note.run, note.entries, note.size) == (page.row.run, page.count, page.size)
    proof = [bytes.fromhex(step) for step in entry.proof]
    if not included(leaf_hash(entry.leaf.encode()), entry.seq, page.size, proof, note.root):
        return False
    said = leaf_position(entry.leaf.encode()).body
    if entry.body is None:
        return True
    return said is not None and body_digest(bytes.fromhex(entry.salt or ""), entry.body.encode()) == said.digest


def change(house: ViewsFolder, statement: str, *values: object) -> None:
    connection = sqlite3.connect(house.journal)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


async def test_every_entry_of_a_run_can_be_verified_from_what_is_sent(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        await call(app, "run_0", "add", a=1, b=1)
        await call(app, "run_1", "add", "call_1", a=1, b=2)
        await call(app, "run_1", "fail")
        await app.executor.finish("run_1")
        page = await views.proofs.run("run_1")

    assert page.count == len(page.entries) == 6
    assert all(holds(page, entry) for entry in page.entries)
    assert page.entries[1].says == "desk:add begins"
    assert page.entries[2].says.startswith("desk:add: ok, after ")
    assert (page.entries[1].call_id, page.entries[1].tool) == ("call_1", "desk:add")
    assert (page.row.calls, page.row.failed, page.row.state) == (2, 1, "done")


async def test_a_changed_letter_of_what_is_sent_is_noticed(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        await call(app, "run_1", "add", a=1, b=2)
        page = await views.proofs.run("run_1")

    entry = page.entries[1]
    assert holds(page, entry)
    assert not holds(page, replace(entry, leaf=entry.leaf.replace("desk:add", "desk:sub")))
    assert not holds(page, replace(entry, body=(entry.body or "").replace("1", "9")))
    assert not holds(page, replace(entry, seq=entry.seq + 1))


async def test_a_look_does_not_make_the_journal_grow(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        await call(app, "run_1", "add", a=1, b=2)
        await views.proofs.run("run_1")
        with JournalReader(house.journal) as reader:
            before = reader.size(), len(reader.checkpoints())
        for _ in range(3):
            await views.proofs.run("run_1")
            await views.tools.rows()
            await views.proofs.runs()
        with JournalReader(house.journal) as reader:
            assert (reader.size(), len(reader.checkpoints())) <= (before[0], before[1] + 1)  # its own, in time


async def test_what_is_new_in_the_record_is_shown_and_signed(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        await call(app, "run_1", "add", a=1, b=2)
        first = await views.proofs.run("run_1")
        await call(app, "run_1", "add", a=2, b=2)
        second = await views.proofs.run("run_1")

    assert (first.count, second.count) == (3, 5)
    assert all(holds(second, entry) for entry in second.entries)


async def test_a_run_comes_in_parts_each_of_which_can_be_verified(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        for number in range(5):
            await call(app, "run_1", "add", a=number, b=0)
        parts = [await views.proofs.run("run_1", first, 4) for first in (0, 4, 8, 12)]

    assert [len(part.entries) for part in parts] == [4, 4, 3, 0]
    assert all(holds(part, entry) for part in parts for entry in part.entries)
    assert [entry.seq for part in parts for entry in part.entries] == list(range(11))


async def test_the_parts_of_a_run_that_goes_on_meanwhile_stand_under_one_checkpoint(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        for number in range(3):
            await call(app, "run_1", "add", a=number, b=0)
        first = await views.proofs.run("run_1", 0, 4)
        await call(app, "run_2", "add", a=1, b=1)
        await call(app, "run_1", "add", a=9, b=0)
        rest = await views.proofs.run("run_1", 4, 100, size=first.size)
        with pytest.raises(UsageError, match="open the run again"):
            await views.proofs.run("run_1", 0, 4, size=1_000)

    assert (rest.checkpoint, rest.count, rest.size) == (first.checkpoint, 7, first.size)
    assert [entry.seq for part in (first, rest) for entry in part.entries] == list(range(7))
    assert all(holds(rest, entry) for entry in rest.entries)


@pytest.mark.parametrize("column", ["leaf", "data"])
async def test_an_entry_that_is_changed_on_disk_after_it_was_read_no_longer_fits(
    house: ViewsFolder, column: str
) -> None:
    async with house.open() as (app, views):
        await call(app, "run_1", "add", a=1, b=2)
        await views.proofs.run("run_1")
        change(house, f"UPDATE entry SET {column} = CAST(replace({column}, '2', '7') AS BLOB) WHERE seq = 1")
        page = await views.proofs.run("run_1")

        assert [holds(page, entry) for entry in page.entries] == [True, False, True]


async def test_a_journal_that_was_changed_before_is_not_signed_again(house: ViewsFolder) -> None:
    async with house.open() as (app, _):
        await call(app, "run_1", "add", a=1, b=2)
        await call(app, "run_1", "add", a=2, b=2)
    change(house, "UPDATE entry SET leaf = CAST(replace(leaf, 'desk:add', 'desk:sub') AS BLOB) WHERE seq = 1")

    async with house.open() as (_, views):
        with pytest.raises(BrokenProof) as broken:
            await views.proofs.run("run_1")
        assert broken.value.index == 1
        assert [row.run for row in (await views.proofs.runs()).runs] == ["run_1"]  # it can still be looked at


async def test_a_history_that_was_rewritten_whole_does_not_fit_what_the_journal_signed(house: ViewsFolder) -> None:
    (house.folder / "other").mkdir()
    other = ViewsFolder(house.folder / "other")
    for each, number in ((house, 2), (other, 5)):
        async with each.open() as (app, _):
            await call(app, "run_1", "add", a=1, b=number)
            await app.executor.finish("run_1")
    connection = sqlite3.connect(house.journal)
    connection.execute("ATTACH ? AS other", [str(other.journal)])
    connection.execute("DELETE FROM entry")
    connection.execute("INSERT INTO entry SELECT * FROM other.entry")
    connection.commit()
    connection.close()

    with pytest.raises(BrokenProof, match="checkpoint"):
        await ProofViews(JournalIndex(house.journal), ConversationStore(house.journal.parent)).run("run_1")


async def test_long_bodies_come_when_they_are_asked_for(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        await call(app, "run_1", "note", text="tea")
        await call(app, "run_1", "fail", why="x" * (INLINE + 1))
        page = await views.proofs.run("run_1")
        long = next(entry for entry in page.entries if entry.body_size > INLINE)
        body = await views.proofs.body("run_1", long.seq)

        assert (long.body, long.salt, long.erased) == (None, None, False)
        assert holds(page, replace(long, salt=body.salt, body=body.body))
        with pytest.raises(UsageError):
            await views.proofs.body("run_2", long.seq)
        with pytest.raises(UsageError):
            await views.proofs.body("run_1", 10_000)


async def test_an_erased_body_is_said_to_be_and_its_entry_still_holds(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        await call(app, "run_1", "add", a=1, b=2)
    erase(house.journal, run="run_1")
    async with house.open() as (app, views):
        page = await views.proofs.run("run_1")
        with pytest.raises(UsageError, match="erased"):
            await views.proofs.body("run_1", 1)

    assert [entry.erased for entry in page.entries] == [False, True, True]
    assert all(holds(page, entry) for entry in page.entries)


async def test_runs_are_listed_newest_first_in_parts_with_the_titles_of_conversations(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        for number in range(5):
            await call(app, f"run_{number}", "add", a=number, b=0)
        await call(app, "run_3", "note", text="beer")
        ConversationStore(house.journal.parent).save("run_2", Conversation((UserMessage((Text("Boil the eggs"),)),)))
        first = await views.proofs.runs(limit=3)
        rest = await views.proofs.runs(before=first.runs[-1].run, limit=3)

        assert [row.run for row in (*first.runs, *rest.runs)] == [f"run_{number}" for number in (4, 3, 2, 1, 0)]
        assert (first.more, rest.more) == (True, False)
        assert [row.title for row in first.runs] == ["", "", "Boil the eggs"]
        assert [row.tools for row in first.runs] == [("desk:add",), ("desk:add", "desk:note"), ("desk:add",)]
        for words, found in (
            ("EGGS", ["run_2"]),
            ("desk:note", ["run_3"]),
            ("run_1", ["run_1"]),
            ("waiting", ["run_3"]),
        ):
            assert [row.run for row in (await views.proofs.runs(search=words)).runs] == found


async def test_runs_that_a_run_began_are_left_out(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        for run in ("run_1", "run_1.call_2", "run_2.call_1"):
            await call(app, run, "add", a=1, b=0)

        assert [row.run for row in (await views.proofs.runs()).runs] == ["run_2.call_1", "run_1"]


async def test_the_bundle_is_what_the_verifier_takes(house: ViewsFolder, tmp_path: Path) -> None:
    async with house.open() as (app, views):
        await call(app, "run_1", "add", a=1, b=2)
        file = await views.proofs.bundle("run_1")
        key = (await views.proofs.run("run_1")).verifier_key
        with pytest.raises(JournalError):
            await views.proofs.bundle("run_2")

    assert (file.name, file.media_type) == ("run_1.proof.zip", "application/zip")
    zipfile.ZipFile(io.BytesIO(file.data)).extractall(tmp_path / "out")
    assert check(tmp_path / "out" / "run_1.proof", key).problems == ()


async def test_the_receipt_of_a_call_holds(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        await call(app, "run_1", "add", "call_1", a=1, b=2)
        file = await views.proofs.receipt("run_1", "call_1")
        with pytest.raises(JournalError):
            await views.proofs.receipt("run_1", "call_2")

    receipt = Receipt.from_json(file.data)
    receipt.verify(Verifier.parse(receipt.verifier_key))
    assert json.loads(receipt.body or "")["content"] == 3
    assert file.name == "call_1.receipt.json"


async def test_a_run_that_is_not_there_is_refused(house: ViewsFolder) -> None:
    async with house.open() as (_, views):
        with pytest.raises(UsageError):
            await views.proofs.run("run_9")
        assert (await views.proofs.runs()).runs == ()


async def test_ids_of_strangers_make_no_paths(house: ViewsFolder) -> None:
    async with house.open() as (app, views):
        await call(app, "../../run", "add", a=1, b=2)
        file = await views.proofs.bundle("../../run")

    assert "/" not in file.name
    assert all(name.startswith("-..-run.proof/") for name in zipfile.ZipFile(io.BytesIO(file.data)).namelist())
