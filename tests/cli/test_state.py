"""`handrail state erase` and `compact`, on a state in files and on one in PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handrail import Context, Executor, Policy, ToolCall, tool
from handrail.app.erasure import all_leased
from handrail.app.mcp_resources import owner_prefix
from handrail.app.node_state import NodeState, state_at
from handrail.core.context import Principal
from handrail.core.messages import Conversation, Text, UserMessage
from handrail.journal.auditing import audit
from handrail.journal.places import JournalPlace, open_journal, parse_place
from handrail.journal.reader import JournalReader
from handrail.node.services.blobs import BlobStore
from handrail.node.services.event_log import EventDraft, EventLog
from handrail.state.connections import connect
from handrail.state.url import VARIABLE, StateUrl
from tests.approved import approve
from tests.cli.journal_fixtures import run

WORD = "pomegranate"
"""What has to be nowhere in the state any more."""


@tool(side_effects=False)
async def look(text: str) -> str:
    """Looks."""
    return f"seen, see {'out_1234' if WORD in text else 'out_9'}: {text}"


@dataclass(frozen=True)
class FilledState:
    """A state in which two people left something of every kind."""

    journal: JournalPlace
    node: NodeState

    def holding(self) -> list[str]:
        """Where the word is."""
        if self.node.database is None:
            files = [path for path in self.node.folder.rglob("*") if path.is_file()]
            return [str(path) for path in files if WORD.encode() in path.read_bytes()]
        tables = self.node.database.read_now(lambda connection: connection.execute(_TABLES).fetchall())
        return [table for (table,) in tables if WORD in self._text_of(table)]

    def _text_of(self, table: str) -> str:
        """With bytes as the text that they are of."""
        assert self.node.database is not None
        rows: list[Any] = self.node.database.read_now(
            lambda connection: connection.execute(f"SELECT * FROM {table}").fetchall()
        )
        return "".join(each.decode("latin-1") if isinstance(each, bytes) else str(each) for row in rows for each in row)

    def outputs(self) -> list[str]:
        return [output.id for output in asyncio.run(self.node.outputs().known())]


@contextmanager
def in_use(journal: JournalPlace) -> Iterator[None]:
    """Somebody writes to the journal, and does not come to an end."""
    if isinstance(journal, StateUrl):
        with closing(connect(journal)) as writing, writing.transaction(force_rollback=True):
            writing.execute("LOCK TABLE entry IN ROW EXCLUSIVE MODE")
            yield
        return
    with closing(sqlite3.connect(journal, isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        yield
        file.execute("ROLLBACK")


_TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'handrail'"


@pytest.fixture(params=["files", "postgres"])
def state(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FilledState]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    place = parse_place(".handrail/journal.db")
    if request.param == "files":
        (tmp_path / ".handrail").mkdir(mode=0o700)
    else:
        url = request.getfixturevalue("postgres_url")
        monkeypatch.setenv(VARIABLE, url)
        place = parse_place(url)
    with state_at(place) as node:
        asyncio.run(_fill(place, node))
        yield FilledState(place, node)


async def _fill(place: JournalPlace, node: NodeState) -> None:
    names = iter(("out_1234", "out_9"))
    outputs = node.outputs(new_id=lambda kind: next(names))
    for text in (WORD, "pears"):
        await outputs.put(text)
    async with (
        await open_journal(place) as journal,
        Executor([look], journal=journal, policy=Policy(confirm_side_effects=False)) as executor,
    ):
        for who, name, said in (("token:ada", "run_ada", WORD * 2000), ("token:bob", "run_bob", "pears")):
            for each in (name, f"{name}.call_1"):
                context = Context(run=each, principal=Principal(who))
                await executor.invoke(ToolCall("call_1", "look", {"text": said}), context)
                await executor.finish(each)
    store = node.conversations()
    for id, said in (("run_ada", WORD), (f"{owner_prefix('token:ada')}talk", WORD), ("run_bob", "pears")):
        store.save(id, Conversation((UserMessage((Text(said),)),)))
    blobs, log = BlobStore(node.file("blobs")), EventLog(node.file("events.db"))
    for who, text in (("token:ada", WORD), ("token:bob", "pears")):
        await blobs.put(text.encode(), "text/plain", who)
        await log.add(EventDraft("chat", who, "1", {"text": text}))
    blobs.close()
    log.close()


def test_a_person_is_erased_everywhere_and_every_proof_stays_valid(state: FilledState) -> None:
    assert len(state.holding()) >= 5

    result = run("state", "erase", "--person", "token:ada", "--yes", "--json")

    report = json.loads(result.stdout)
    assert report["runs"] == ["run_ada", "run_ada.call_1"]
    assert (len(report["conversations"]), report["outputs"], report["blobs"], report["events"]) == (2, 1, 1, 1)
    assert report["bodies"] > 0
    assert report["entries_kept"] >= report["bodies"]
    assert run("state", "compact").exit_code == 0
    assert state.holding() == []
    found = audit(state.journal)
    assert (found.ok, found.erased) == (True, report["bodies"])
    with JournalReader(state.journal) as reader:
        assert any("pears" in str(event) for event in reader.events("run_bob"))
    assert [each.id for each in state.node.conversations().list()] == ["run_bob"]
    assert state.outputs() == ["out_9"]


def test_a_run_is_erased_with_the_runs_that_it_began_and_its_conversation(state: FilledState) -> None:
    result = run("state", "erase", "--run", "run_ada", "--yes")

    assert result.exit_code == 0
    assert "2 runs, 1 conversation, 1 long output, 0 blobs and 0 events" in result.stdout
    with JournalReader(state.journal) as reader:
        assert all(entry.data is None for name in ("run_ada", "run_ada.call_1") for entry in reader.entries(name))
        assert any(entry.data is not None for entry in reader.entries("run_bob"))


def test_a_run_that_is_at_work_is_not_erased(state: FilledState) -> None:
    with all_leased(state.journal, state.node, ["run_ada"]):
        result = run("state", "erase", "--person", "token:ada", "--yes")

    assert result.exit_code != 0
    assert "run_ada" in result.stderr
    assert len(state.holding()) >= 5


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--run RUN or --person NAME"),
        (("--run", "run_ada", "--person", "x"), "--run RUN or --person NAME"),
        (("--run", "run_nobody"), "there is no run"),
        (("--person", "local"), "own user"),
    ],
)
def test_what_cannot_be_erased_is_said(state: FilledState, words: tuple[str, ...], told: str) -> None:
    result = run("state", "erase", *words, "--yes")

    assert result.exit_code != 0
    assert told in result.stderr
    assert len(state.holding()) >= 5


def test_compacting_gives_space_back_and_keeps_the_record(state: FilledState) -> None:
    with JournalReader(state.journal) as reader:
        before = reader.hashes()
    run("state", "erase", "--run", "run_ada", "--yes")

    report = json.loads(run("state", "compact", "--json").stdout)

    assert report["freed"] > 0
    if state.node.database is None:
        assert {Path(path).name for path in report["files"]} == {"journal.db", "events.db", "index.sqlite"}
    else:
        assert {"entry", "event", "blob_content", "long_output"} <= set(report["tables"])
    with JournalReader(state.journal) as reader:
        assert reader.hashes() == before
    assert audit(state.journal).ok


def test_what_is_in_use_is_left_as_it_is(state: FilledState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.app.compaction._PATIENCE", 0.0)
    with in_use(state.journal):
        result = run("state", "compact")

    assert result.exit_code != 0
    assert ("end what writes to it" if state.node.database is None else "pg_stat_activity") in result.stderr
    assert audit(state.journal).ok


def test_what_is_too_old_is_removed_by_what_the_configuration_says(state: FilledState) -> None:
    config = Path("handrail.toml")
    config.write_text("[retention]\nbodies_days = 1\noutputs_days = 1\n")
    assert "erase the words of the record older than 1 days" in run("state", "retain").stderr
    approve(config)
    told = json.loads(run("state", "retain", "--dry-run", "--json").stdout)
    done = run("state", "retain")

    assert (told["dry_run"], told["bodies"], told["kept"]) == (True, 0, {})
    assert "removed: 0 conversations, 0 long outputs (0 bytes)" in done.stdout
    config.write_text("")
    assert "nothing under [retention]" in run("state", "retain").stderr
