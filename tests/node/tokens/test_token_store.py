"""What a node remembers of tokens: in a file, by several processes, and no token itself."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from handrail.core.errors import BusError, UsageError
from handrail.node.bus.request import NOBODY
from handrail.node.tokens.token_store import TokenStore
from handrail.state.sqlite_database import SqliteDatabase
from handrail.testing.clock import FixedClock
from tests.node.tokens.signing_nodes import BOB, TokenIssuingNode

COUNTS = """
import sys
from pathlib import Path
from handrail.node.tokens.token_store import TokenStore
store = TokenStore(Path(sys.argv[1]), patience=60)
print(sum(store.count({"parent": 70, sys.argv[2]: 40}, 0) for _ in range(50)))
store.close()
"""


def test_what_was_issued_revoked_and_counted_outlives_the_process(tmp_path: Path) -> None:
    path = tmp_path / "tokens.db"
    home = TokenIssuingNode(TokenStore(path))
    token, text = home.issue("rag.*@1.*", max_calls_total=5, params_constraints={"corpus": ["a", 1]})
    asyncio.run(home.admit(NOBODY, text, corpus="a"))
    home.store.revoke(token.id)
    home.store.close()

    with closing(TokenStore(path)) as again:
        entry = again.get(token.id)

    assert entry is not None
    assert (entry.token, entry.calls, entry.revoked) == (token, 1, True)


def test_the_file_is_its_owners_and_holds_no_token(tmp_path: Path) -> None:
    path = tmp_path / "new" / "tokens.db"
    home = TokenIssuingNode(TokenStore(path))
    _, text = home.issue("*")
    home.store.close()

    assert path.stat().st_mode & 0o777 == 0o600
    assert all(text.rpartition(".")[2].encode() not in each.read_bytes() for each in path.parent.iterdir())


def test_processes_that_count_at_once_lose_no_call_and_give_none_away(tmp_path: Path) -> None:
    path = tmp_path / "tokens.db"
    processes = [
        subprocess.Popen([sys.executable, "-c", COUNTS, path, child], stdout=subprocess.PIPE, text=True)
        for child in ("one", "two")
    ]

    counted = [int(process.communicate(timeout=60)[0]) for process in processes]

    with closing(TokenStore(path)) as store:
        assert sum(counted) == 70 == store.calls("parent")
        assert counted == [store.calls("one"), store.calls("two")]
        assert max(counted) <= 40


def test_threads_share_one_store() -> None:
    with closing(TokenStore()) as store, ThreadPoolExecutor(8) as threads:
        counted = list(threads.map(lambda _: store.count({"a": 100}, 0), range(150)))

        assert (sum(counted), store.calls("a")) == (100, 100)


def test_a_revocation_by_another_process_holds_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens.db"
    home = TokenIssuingNode(TokenStore(path))
    token, text = home.issue("*")
    asyncio.run(home.admit(NOBODY, text))

    with closing(TokenStore(path)) as other:
        other.revoke(token.id)

    with pytest.raises(BusError, match="token_revoked"):
        asyncio.run(home.admit(NOBODY, text))


def test_what_ended_long_ago_is_forgotten() -> None:
    clock = FixedClock()
    with closing(TokenStore(clock=clock)) as store:
        home = TokenIssuingNode(store)
        old, _ = home.issue("*", clock=clock)
        store.revoke(old.id)
        clock.advance(8 * 86_400)
        new, _ = home.issue("*", clock=clock)

        assert [entry.token.id for entry in store.issued()] == [new.id]
        assert not store.any_revoked([old.id])


def test_the_calls_of_tokens_from_elsewhere_are_forgotten_too() -> None:
    clock = FixedClock()
    with closing(TokenStore(clock=clock)) as store:
        home = TokenIssuingNode(store, directory={BOB.node_id: "member"})
        token, text = TokenIssuingNode().issue("*", identity=BOB, max_calls_total=5)
        asyncio.run(home.admit(NOBODY, text))
        key = f"{BOB.node_id}#{token.id}"
        assert store.calls(key) == 1
        clock.advance(8 * 86_400)
        home.issue("*", clock=clock)

        assert store.calls(key) == 0


def test_who_reads_does_not_wait_for_who_writes(tmp_path: Path) -> None:
    """Calls are admitted in the event loop, and another process may hold the file."""
    path = tmp_path / "tokens.db"
    with (
        closing(TokenStore(path, patience=60)) as store,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
        ThreadPoolExecutor(1) as threads,
    ):
        other.execute("BEGIN IMMEDIATE")
        revoked = threads.submit(store.revoke, "x")
        tables = store._tables
        assert isinstance(tables, SqliteDatabase)
        while not tables._writing.locked():
            pass
        assert not store.any_revoked(["x"])
        assert not revoked.done()
        other.execute("COMMIT")
        revoked.result(60)
        assert store.any_revoked(["x"])


def test_an_id_is_issued_once() -> None:
    home = TokenIssuingNode()
    home.issue("*", random=bytes)

    with pytest.raises(BusError, match="internal_error"):
        home.issue("*", random=bytes)

    assert len(home.store.issued()) == 1


@pytest.mark.parametrize("content", [b"no database at all, but long enough to look like a file of some kind" * 9, None])
def test_another_file_is_left_alone(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "other.db"
    if content is None:
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE mine (x)")
    else:
        path.write_bytes(content)
    before = path.read_bytes()

    with pytest.raises(UsageError, match="cannot be used"):
        TokenStore(path)

    assert path.read_bytes() == before
