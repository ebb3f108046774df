"""The files of a node's stores: those that earlier commits wrote are taken over, those of a later one refused."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import BusError, UsageError
from handrail.node.services.blobs import TABLES as BLOBS, BlobStore
from handrail.node.services.event_log import TABLES as EVENTS, EventDraft, EventLog
from handrail.node.services.rag.index import TABLES as RAG, ChunkFilter, DocumentIndex
from handrail.node.tokens.token_store import TABLES as TOKENS, TokenStore
from handrail.state.sql import StoreTables

FORMATS = Path(__file__).parent / "formats"
"""Files as the code of the commit in their name wrote them."""
PARENT, CHILD = "01M3250V000000000000000001", "01M3250V000000000000000002"

STORES: dict[str, tuple[StoreTables, Callable[[Path], Any]]] = {
    "tokens": (TOKENS, TokenStore),
    "events": (EVENTS, EventLog),
    "rag": (RAG, lambda path: DocumentIndex(path, None)),
    "blobs": (BLOBS, lambda path: BlobStore(path.parent)),
}


def restored(name: str, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.decompress((FORMATS / f"{name}.db.gz").read_bytes()))
    return target


@pytest.mark.parametrize("commit", ["2f2813ca", "55075db0", "7661b13e"])
def test_tokens_of_each_earlier_format_stay_issued_counted_and_revoked(tmp_path: Path, commit: str) -> None:
    path = restored(f"tokens-{commit}", tmp_path / "tokens.db")

    with closing(TokenStore(path)) as store:
        found = {entry.token.id: entry for entry in store.issued()}
        assert found.keys() == {PARENT, CHILD}
        assert [each.id for each in store.chain(found[CHILD].token)] == [CHILD, PARENT]
        assert found[CHILD].calls == 2
        assert store.any_revoked(["ed25519:gone"])
        assert not store.count({CHILD: 2}, 0)
        assert store.count({CHILD: 3}, 0)


async def test_events_of_the_earlier_format_keep_their_numbers(tmp_path: Path) -> None:
    with closing(EventLog(restored("events-7661b13e", tmp_path / "events.db"))) as log:
        known, is_new = await log.add(EventDraft("market.post", "ada", "c1", {"text": "héllo"}))
        later, _ = await log.add(EventDraft("market.post", "ada", "c2", {"text": "again"}))

    assert (known.id, known.lamport, is_new) == ("event_0001", 1, False)
    assert later.lamport == 2


@pytest.mark.parametrize(("commit", "shared"), [("2f2813ca", False), ("7661b13e", True)])
async def test_blobs_of_each_earlier_format_are_found(tmp_path: Path, commit: str, shared: bool) -> None:
    restored(f"blobs-{commit}", tmp_path / "index.sqlite")
    with closing(BlobStore(tmp_path)) as store:
        picture = await store.put(b"a picture", "image/jpeg", "grace")  # the file, which the index knew as ada's
        assert await store.delete(picture, "grace")

        assert await store.read(picture, "ada") == ("image/png", b"a picture")
        if shared:
            assert await store.read(picture, "bob") == ("image/png", b"a picture")
        else:
            with pytest.raises(BusError, match="not_found"):
                await store.read(picture, "bob")


async def test_documents_of_the_earlier_format_are_found(tmp_path: Path) -> None:
    with closing(DocumentIndex(restored("rag-7661b13e", tmp_path / "rag.db"), None)) as index:
        found = await index.query("docs", "trams", 3, ChunkFilter())

    assert found is not None
    assert [each.title for each in found] == ["Lisbon"]


@pytest.mark.parametrize("store", STORES)
def test_a_file_of_a_later_handrail_is_refused_with_the_one_that_reads_it(tmp_path: Path, store: str) -> None:
    tables, opened = STORES[store]
    path = tmp_path / "index.sqlite"
    opened(path).close()
    later = len(tables.sqlite) + 1
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        assert file.execute("SELECT store, version FROM schema_version").fetchall() == [(store, later - 1)]
        file.execute("UPDATE schema_version SET version = ?, reads_with = '7.3.1'", (later,))

    with pytest.raises(UsageError, match=rf"{store!r} in version {later}.*reads {later - 1}; use handrail 7\.3\.1 or"):
        opened(path)


@pytest.mark.parametrize("store", STORES)
def test_the_file_of_another_store_is_refused_by_its_name(tmp_path: Path, store: str) -> None:
    path = tmp_path / "index.sqlite"
    other = next(each for each in STORES if each != store)
    STORES[other][1](path).close()

    with pytest.raises(UsageError, match=rf"holds '{other}', not '{store}'"):
        STORES[store][1](path)


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = restored("tokens-55075db0", tmp_path / "tokens.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("CREATE TABLE token_use (somebody TEXT)")  # in the way of a new name

    with pytest.raises(UsageError, match="cannot be used"):
        TokenStore(path)

    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM issued").fetchone() == (2,)
        assert file.execute("PRAGMA user_version").fetchone() == (2,)
