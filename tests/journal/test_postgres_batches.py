"""What is noted of many entries together, in a shared state: it finds and proves what it does in a file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from handrail.core.errors import BrokenProof
from handrail.desk.views.journal_index import JournalIndex
from handrail.journal.auditing import audit, export_run
from handrail.journal.batches import BATCH
from handrail.journal.postgres_journal import HEARTBEAT, PostgresJournal
from handrail.journal.postgres_leases import PostgresLeases
from handrail.journal.postgres_writer import PostgresWriter
from handrail.journal.reader import JournalReader
from handrail.state.database import StateDatabase
from handrail.state.url import StateUrl
from tests.journal.event_samples import started
from tests.journal.test_batches import LONG, SMALL, UNNOTED, assert_found, assert_provable, events, fill
from tests.postgres import PostgresServer

EARLIER = (
    "DROP TABLE batch, waiting, subtree",
    "DROP FUNCTION instr",
    "DROP INDEX entry_run",
    "DROP INDEX span_name; DROP FUNCTION append_entries",
    "CREATE FUNCTION append_entries(BOOLEAN, BIGINT, TEXT[], BIGINT[], BIGINT[], TEXT[], BIGINT[], TEXT[], TEXT[],"
    " BIGINT[], BYTEA[], BYTEA[], BYTEA[], BYTEA[], BIGINT[], BYTEA[], BYTEA[], BIGINT[])"
    " RETURNS TEXT LANGUAGE sql AS 'SELECT NULL'",
    "UPDATE schema_version SET version = 1 WHERE store = 'journal'",
)
"""A state as a handrail left it that noted nothing there."""


@contextmanager
def writer(url: StateUrl) -> Iterator[PostgresWriter]:
    with ExitStack() as stack:
        database = stack.enter_context(closing(StateDatabase.open(url)))
        leases = stack.enter_context(closing(PostgresLeases(database, HEARTBEAT)))
        yield stack.enter_context(
            closing(PostgresWriter.open_state(url, signer=None, origin=None, leases=leases, patience=10))
        )


@pytest.fixture
def url(postgres_url: str) -> StateUrl:
    url = StateUrl(postgres_url)
    with writer(url) as opened:
        fill(opened, SMALL * BATCH + 300)
    return url


def change(server: PostgresServer, url: StateUrl, *statements: str) -> None:
    for statement in statements:
        server.execute(f"SET search_path TO handrail; {statement}", url.name)


@pytest.mark.parametrize("statements", [(), UNNOTED, EARLIER], ids=["noted", "not noted", "earlier"])
def test_it_finds_and_proves_what_all_entries_say(
    postgres_server: PostgresServer, url: StateUrl, tmp_path: Path, statements: tuple[str, ...]
) -> None:
    change(postgres_server, url, *statements)

    assert_found(url, 0 if statements else SMALL * BATCH)
    assert_provable(url, tmp_path)
    listed, _ = JournalIndex(url).runs(limit=5)
    assert [each.summary.run for each in listed] == [
        each.summary.run for each in JournalIndex(url).runs()[0][: len(listed)]
    ]
    assert JournalIndex(url).signed(LONG, 0, 10).count == sum(each.run == LONG for each in events(SMALL * BATCH + 300))
    assert audit(url).ok


def test_a_state_of_an_earlier_handrail_is_noted_when_it_is_opened_to_write(
    postgres_server: PostgresServer, url: StateUrl
) -> None:
    with JournalReader(url) as reader:
        noted = [list(rows) for rows in reader.stored_notes()]
    change(postgres_server, url, *EARLIER)
    with writer(url) as opened:
        assert opened.behind
        while opened.behind:
            opened.checkpoint()
    with JournalReader(url) as reader:
        assert [list(rows) for rows in reader.stored_notes()][:2] == noted[:2]
    assert audit(url).ok


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE batch SET runs = decode(repeat('00', length(runs)), 'hex') WHERE start = 448",
        "DELETE FROM batch WHERE start = 448",
        "UPDATE entry SET run = 'other' WHERE seq = (SELECT max(seq) FROM entry WHERE run = 'run-long' AND seq < 900)",
    ],
)
def test_no_run_is_signed_with_entries_hidden(
    postgres_server: PostgresServer, url: StateUrl, tmp_path: Path, statement: str
) -> None:
    change(postgres_server, url, statement)

    with pytest.raises(BrokenProof):
        export_run(url, LONG, tmp_path / "bundle")
    assert not audit(url).ok


async def test_replicas_that_sign_at_once_note_each_batch_once(postgres_url: str) -> None:
    async def write(name: str) -> None:
        async with await PostgresJournal.open(postgres_url, checkpoint_every=64) as journal:
            for number in range(BATCH):
                await journal.append(started(f"{name}-{number}"))

    await asyncio.gather(*(write(str(number)) for number in range(3)))
    url = StateUrl(postgres_url)
    with writer(url) as opened:
        while opened.behind:
            opened.checkpoint()
    with JournalReader(url) as reader:
        assert reader.noted() == 3 * BATCH
    assert audit(url).ok
