"""The state of a node as a whole: backed up, verified, restored and moved between engines, at the command line."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from handrail import tool
from handrail.app.app import AllowAll
from handrail.app.node_state import NodeState
from handrail.config.values import Config
from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.messages import AssistantMessage, Conversation, Text, UserMessage
from handrail.execute.executor import Executor
from handrail.journal.auditing import audit
from handrail.journal.journal import SqliteJournal
from handrail.journal.postgres_journal import PostgresJournal
from handrail.journal.reader import JournalReader
from handrail.node.services.blobs import BlobStore
from handrail.node.services.event_log import EventDraft, EventLog
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import issue
from handrail.sessions.store.metadata import ConversationChoices
from handrail.state.database import StateDatabase
from handrail.tools.registry import RegisteredTools
from tests.cli.test_serve import asked

LONG = "the hills of Lisbon " * 200
TALK = Conversation((UserMessage((Text("When does the tram go?"),)), AssistantMessage(LONG)))


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """The folder of a node; its configuration would be in the folder above."""
    (tmp_path / "house").mkdir()
    return tmp_path / "house" / ".handrail"


async def fill(state: NodeState) -> None:
    identity = state.identity(Config())
    with closing(state.tokens()) as tokens:
        parent, _ = issue(identity, tokens, Scope.of(["*"], max_calls_total=9))
        child, _ = issue(identity, tokens, Scope.of(["tool.add@1.*"], max_calls_total=4), parent=parent)
        tokens.count({parent.id: 9}, parent.expires_at)
        tokens.revoke(child.id)
    talks = state.conversations()
    talks.save("run_1", TALK, title="Trams\n🚋", chosen=ConversationChoices(model="large", working=True))
    talks.fork("run_1", upto=1)
    with closing(EventLog(state.file("events.db"))) as log:
        await log.add(EventDraft("note", "ada", "1", {"text": "ünï\0 \ud800"}, lives_ms=5_000, state="queued"))
    with closing(BlobStore(state.file("blobs"))) as blobs:
        await blobs.put(bytes(range(256)), "image/png", "ada", shared=True)
        await blobs.put(b"", "text/plain", "bob")
    async with await journal_of(state) as journal:
        executor = Executor(RegisteredTools((pay,)), journal=journal, approver=AllowAll("test"))
        async with executor:
            paid = await executor.invoke(ToolCall("call_1", "pay", {"amount": 3}), Context(run="run_1"))
        assert paid.outcome == "ok"


@tool(side_effects=True)
def pay(amount: int) -> str:
    """Pay somebody.

    Args:
        amount: How much.
    """
    return f"paid {amount} to somebody \0"


async def journal_of(state: NodeState) -> Any:
    if state.database is None:
        return await SqliteJournal.open(state.folder / "journal.db")
    return await PostgresJournal.open(state.database)


def proven(state: NodeState) -> tuple[Any, ...]:
    """What the record of a node holds, and whether it proves itself."""
    place = state.folder / "journal.db" if state.database is None else state.database.url
    report = audit(place)
    with JournalReader(place) as reader:
        assert report.ok, report
        return reader.origin, reader.hashes(), [row.leaf for row in reader.entries()], reader.checkpoints()


async def shown(state: NodeState) -> dict[str, Any]:
    """All that a node finds in its stores."""
    with closing(state.tokens()) as tokens:
        issued = [(each.token, each.calls, each.revoked) for each in tokens.issued()]
    talks = state.conversations()
    with closing(EventLog(state.file("events.db"))) as log:
        again, is_new = await log.add(
            EventDraft("note", "ada", "1", {"text": "ünï\0 \ud800"}, lives_ms=5_000, state="queued")
        )
        latest = await log.latest("note")
    with closing(BlobStore(state.file("blobs"))) as blobs:
        held = await blobs._database.read(
            lambda index: index.execute(
                "SELECT cid, owner, media_type, at, shared FROM blob_holder ORDER BY cid"
            ).fetchall()
        )
        kept = [(row, await blobs.read(row[0], row[1])) for row in map(tuple, held)]
    return {
        "node": state.identity(Config(), create=False).node_id,
        "tokens": issued,
        "conversations": [(about, talks.load(about.id)) for about in talks.list()],
        "events": (again, is_new, latest),
        "blobs": kept,
        "record": proven(state),
    }


@pytest.fixture
def database(postgres_url: str) -> Iterator[StateDatabase]:
    with closing(StateDatabase.open(postgres_url)) as opened:
        yield opened


def handrail(folder: Path, *words: object, **variables: str) -> Result:
    return asked(folder, *map(str, words), **variables)


async def test_a_state_moved_to_a_database_and_back_is_the_same(
    house: Path, tmp_path: Path, postgres_url: str, database: StateDatabase
) -> None:
    await fill(NodeState(house))
    before = await shown(NodeState(house))

    there = handrail(tmp_path, "state", "migrate", house, postgres_url)
    moved = await shown(NodeState(tmp_path, database))
    back = handrail(tmp_path, "state", "migrate", postgres_url, tmp_path / "back", "--json")

    assert (there.exit_code, back.exit_code) == (0, 0), there.stderr + back.stderr
    assert moved == before
    assert await shown(NodeState(tmp_path / "back")) == before
    counts = json.loads(back.stdout)["counts"]
    assert counts["entries"] == len(before["record"][1]) > 3
    async with await SqliteJournal.open(tmp_path / "back" / "journal.db") as journal:  # with the key it had
        again = Executor(RegisteredTools((pay,)), journal=journal, approver=AllowAll("test"))
        async with again:
            told = await again.invoke(ToolCall("call_1", "pay", {"amount": 3}), Context(run="run_1"))
        assert told.text == "paid 3 to somebody \0"  # as it was recorded, and not done again
    assert (counts["tokens"], counts["conversations"], counts["events"], counts["blobs"]) == (2, 2, 1, 2)
    password = postgres_url.partition("tester:")[2].partition("@")[0]
    assert password not in there.stdout + there.stderr + back.stdout + back.stderr


async def test_a_place_that_has_a_state_is_refused_and_stays_as_it_was(
    house: Path, tmp_path: Path, postgres_url: str, database: StateDatabase
) -> None:
    await fill(NodeState(house))
    await fill(NodeState(tmp_path, database))
    before = await shown(NodeState(tmp_path, database))
    ours = Identity.load(house / "identity.key").node_id

    into = handrail(tmp_path, "state", "migrate", house, postgres_url)
    out = handrail(tmp_path, "state", "migrate", postgres_url, house)

    assert (into.exit_code, out.exit_code) == (1, 1)
    assert "there is a state at" in into.stderr and "nothing was copied" in into.stderr
    assert "there is a state in" in out.stderr and "identity.key" in out.stderr
    assert await shown(NodeState(tmp_path, database)) == before
    assert Identity.load(house / "identity.key").node_id == ours


@pytest.mark.parametrize("engine", ["files", "postgres"])
@pytest.mark.parametrize("target", ["files", "postgres"])
async def test_a_backup_of_either_engine_is_whole_and_restored_into_either(
    house: Path, tmp_path: Path, engine: str, target: str, postgres_server: Any
) -> None:
    with postgres_server.database() as one, postgres_server.database() as other:
        variables = {"HANDRAIL_STATE": one} if engine == "postgres" else {}
        with closing(StateDatabase.open(one)) as first, closing(StateDatabase.open(other)) as second:
            await fill(source := NodeState(house, first if variables else None))
            before = await shown(source)

            made = handrail(house.parent, "state", "backup", tmp_path / "node.tar", **variables)
            verified = handrail(tmp_path, "state", "verify", tmp_path / "node.tar", "--json")
            place = other if target == "postgres" else tmp_path / "new"
            restored = handrail(tmp_path, "state", "restore", tmp_path / "node.tar", "--to", place)

            assert made.exit_code == verified.exit_code == restored.exit_code == 0, made.stderr + restored.stderr
            assert json.loads(verified.stdout)["problems"] == []
            assert json.loads(verified.stdout)["node_id"] == before["node"]
            assert (tmp_path / "node.tar").stat().st_mode & 0o777 == 0o600
            after = NodeState(tmp_path / "new", second if target == "postgres" else None)
            assert await shown(after) == before


async def test_a_backup_is_made_while_the_node_writes(house: Path, tmp_path: Path) -> None:
    """What stands in the logs beside the files, and is not in them yet, is in the backup."""
    await fill(NodeState(house))
    with (
        closing(EventLog(house / "events.db")) as log,
        closing(sqlite3.connect(house / "tokens.db", isolation_level=None)) as writing,
    ):
        for number in range(20):
            await log.add(EventDraft("note", "ada", f"more-{number}", {}))
        writing.execute("BEGIN IMMEDIATE")
        assert (house / "events.db-wal").stat().st_size > 0
        made = handrail(house.parent, "state", "backup", tmp_path / "node.tar", "--json")
        writing.execute("ROLLBACK")

    assert made.exit_code == 0, made.stderr
    assert json.loads(made.stdout)["counts"]["events"] == 21
    again = handrail(house.parent, "state", "backup", tmp_path / "node.tar")
    assert again.exit_code == 1 and "is there already" in again.stderr


def rewritten(file: Path, change: Any) -> None:
    """A backup in which the list of digests is right for what was changed."""
    import hashlib
    import io

    with tarfile.open(file) as tar:
        held = {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr]
    change(held)
    manifest = json.loads(held.pop("manifest.json"))
    manifest["files"] = {name: hashlib.sha256(data).hexdigest() for name, data in held.items()}
    with tarfile.open(file, "w") as tar:
        for name, data in {"manifest.json": json.dumps(manifest).encode(), **held}.items():
            about = tarfile.TarInfo(name)
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))


async def test_a_backup_that_was_cut_off_or_changed_is_told_as_such(house: Path, tmp_path: Path) -> None:
    await fill(NodeState(house))
    whole = tmp_path / "node.tar"
    assert handrail(house.parent, "state", "backup", whole).exit_code == 0
    data = whole.read_bytes()

    def told(changed: bytes) -> str:
        whole.write_bytes(changed)
        verified = handrail(tmp_path, "state", "verify", whole)
        restored = handrail(tmp_path, "state", "restore", whole, "--to", tmp_path / "never")
        assert (verified.exit_code, restored.exit_code) == (1, 1)
        assert not (tmp_path / "never").exists()
        return verified.stderr

    assert "node.tar" in told(data[: len(data) // 2])
    assert "'tokens.db' was changed" in told(data.replace(b"tool.add@1.*", b"tool.sub@1.*"))
    assert "node.tar" in told(b"")
    assert "not a backup of a node" in told(data[: data.index(b"manifest.json")] + bytes(10_240))
    other = data.replace(b'"format": 1', b'"format": 9')
    assert "format 9, and this handrail reads 1" in told(other)


async def test_verify_looks_into_what_the_digests_cannot_tell(house: Path, tmp_path: Path) -> None:
    await fill(NodeState(house))
    file = tmp_path / "node.tar"
    assert handrail(house.parent, "state", "backup", file).exit_code == 0

    def damage(held: dict[str, bytes]) -> None:
        cid = next(name for name in held if name.startswith("blobs/") and not name.endswith("sqlite"))
        held[cid] = b"fake"
        held["conversations/run_1/messages.jsonl"] = b"{}\n" * 2

    rewritten(file, damage)
    told = handrail(tmp_path, "state", "verify", file)

    assert told.exit_code == 1
    assert "its bytes were changed" in told.stdout
    assert "conversation run_1" in told.stdout
    assert told.stdout.rstrip().endswith("damaged")


async def test_a_name_that_leads_out_of_the_place_is_refused(house: Path, tmp_path: Path) -> None:
    await fill(NodeState(house))
    file = tmp_path / "node.tar"
    assert handrail(house.parent, "state", "backup", file).exit_code == 0
    for name in ("../out", "/tmp/out"):
        rewritten(file, lambda held, name=name: held.update({name: b"x"}))
        told = handrail(tmp_path, "state", "restore", file, "--to", tmp_path / "new" / "place")
        assert told.exit_code == 1
        assert "holds" in told.stderr
    assert not (tmp_path / "new").exists()


def test_what_is_no_state_is_refused_in_words(tmp_path: Path, postgres_url: str) -> None:
    assert "no folder" in handrail(tmp_path, "state", "migrate", "gone", postgres_url).stderr
    assert "first the source" in handrail(tmp_path, "state", "migrate", tmp_path, tmp_path / "b").stderr
    assert "only PostgreSQL" in handrail(tmp_path, "state", "migrate", tmp_path, "mysql://x/y").stderr
