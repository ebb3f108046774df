"""`handrail state erase` and `compact`."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest

from handrail import Context, Executor, Policy, ToolCall, tool
from handrail.app.mcp_resources import owner_prefix
from handrail.core.context import Principal
from handrail.core.messages import Conversation, Text, UserMessage
from handrail.journal.auditing import audit
from handrail.journal.journal import SqliteJournal
from handrail.journal.lease import RunLeases
from handrail.journal.reader import JournalReader
from handrail.node.services.blobs import BlobStore
from handrail.node.services.event_log import EventDraft, EventLog
from handrail.sessions.store.conversations import ConversationStore
from tests.cli.journal_fixtures import run

WORD = "pomegranate"
"""What has to be nowhere in the state any more."""


@tool(side_effects=False)
async def look(text: str) -> str:
    """Looks."""
    return f"seen, see {'out_1234' if WORD in text else 'out_9'}: {text}"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which two people left something of every kind."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".handrail"
    folder.mkdir(mode=0o700)
    (folder / "outputs").mkdir()
    (folder / "outputs" / "out_1234.txt").write_text(WORD)
    (folder / "outputs" / "out_9.txt").write_text("pears")
    asyncio.run(_fill(folder))
    return folder


async def _fill(folder: Path) -> None:
    async with (
        await SqliteJournal.open(folder / "journal.db") as journal,
        Executor([look], journal=journal, policy=Policy(confirm_side_effects=False)) as executor,
    ):
        for who, name, said in (("token:ada", "run_ada", WORD * 2000), ("token:bob", "run_bob", "pears")):
            for each in (name, f"{name}.call_1"):
                context = Context(run=each, principal=Principal(who))
                await executor.invoke(ToolCall("call_1", "look", {"text": said}), context)
                await executor.finish(each)
    store = ConversationStore(folder)
    for id, said in (("run_ada", WORD), (f"{owner_prefix('token:ada')}talk", WORD), ("run_bob", "pears")):
        store.save(id, Conversation((UserMessage((Text(said),)),)))
    blobs, log = BlobStore(folder / "blobs"), EventLog(folder / "events.db")
    for who, text in (("token:ada", WORD), ("token:bob", "pears")):
        await blobs.put(text.encode(), "text/plain", who)
        await log.add(EventDraft("chat", who, "1", {"text": text}))
    blobs.close()
    log.close()


def holding(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and WORD.encode() in path.read_bytes()]


def test_a_person_is_erased_everywhere_and_every_proof_stays_valid(state: Path) -> None:
    assert len(holding(state)) >= 5

    result = run("state", "erase", "--person", "token:ada", "--yes", "--json")

    report = json.loads(result.stdout)
    assert report["runs"] == ["run_ada", "run_ada.call_1"]
    assert (len(report["conversations"]), report["outputs"], report["blobs"], report["events"]) == (2, 1, 1, 1)
    assert report["bodies"] > 0
    assert report["entries_kept"] >= report["bodies"]
    assert run("state", "compact").exit_code == 0
    assert holding(state) == []
    found = audit(state / "journal.db")
    assert (found.ok, found.erased) == (True, report["bodies"])
    with JournalReader(state / "journal.db") as reader:
        assert any("pears" in str(event) for event in reader.events("run_bob"))
    assert [each.id for each in ConversationStore(state).list()] == ["run_bob"]
    assert (state / "outputs" / "out_9.txt").exists()


def test_a_run_is_erased_with_the_runs_that_it_began_and_its_conversation(state: Path) -> None:
    result = run("state", "erase", "--run", "run_ada", "--yes")

    assert result.exit_code == 0
    assert "2 runs, 1 conversation, 1 long output, 0 blobs and 0 events" in result.stdout
    with JournalReader(state / "journal.db") as reader:
        assert all(entry.data is None for name in ("run_ada", "run_ada.call_1") for entry in reader.entries(name))
        assert any(entry.data is not None for entry in reader.entries("run_bob"))


def test_a_run_that_is_at_work_is_not_erased(state: Path) -> None:
    lease = RunLeases.of(state / "journal.db").take("run_ada")
    try:
        result = run("state", "erase", "--person", "token:ada", "--yes")
    finally:
        lease.release()

    assert result.exit_code != 0
    assert "run_ada" in result.stderr
    assert len(holding(state)) >= 5


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--run RUN or --person NAME"),
        (("--run", "run_ada", "--person", "x"), "--run RUN or --person NAME"),
        (("--run", "run_nobody"), "there is no run"),
        (("--person", "local"), "own user"),
    ],
)
def test_what_cannot_be_erased_is_said(state: Path, words: tuple[str, ...], told: str) -> None:
    result = run("state", "erase", *words, "--yes")

    assert result.exit_code != 0
    assert told in result.stderr
    assert len(holding(state)) >= 5


def test_compacting_gives_space_back_and_keeps_the_record(state: Path) -> None:
    with sqlite3.connect(state / "journal.db") as connection:
        before = connection.execute("SELECT hash FROM entry").fetchall()
    run("state", "erase", "--run", "run_ada", "--yes")

    report = json.loads(run("state", "compact", "--json").stdout)

    assert report["freed"] > 0
    assert {Path(path).name for path in report["files"]} == {"journal.db", "events.db", "index.sqlite"}
    with sqlite3.connect(state / "journal.db") as connection:
        assert connection.execute("SELECT hash FROM entry").fetchall() == before
    assert audit(state / "journal.db").ok


def test_a_file_that_is_in_use_is_left_as_it_is(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.cli.state.compact._PATIENCE", 0.0)
    writing = sqlite3.connect(state / "journal.db", isolation_level=None)
    writing.execute("BEGIN IMMEDIATE")
    result = run("state", "compact")
    writing.execute("ROLLBACK")
    writing.close()

    assert result.exit_code != 0
    assert "end what writes to it" in result.stderr
    assert audit(state / "journal.db").ok
