"""A journal without a file: what it keeps and proves is what a journal on disk would."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.errors import JournalError
from handrail.core.events import Recorded
from handrail.journal import InMemoryJournal, SqliteJournal, Verifier, audit, export_run, prove
from handrail.journal.reader import JournalReader, JournalRow
from handrail.journal.verifier import check
from tests.core.secret_samples import SHAPES
from tests.examples import examples
from tests.journal.event_samples import events as any_events, intended, settled, started, whole_run


def unsalted(count: int) -> bytes:
    """Salts that two journals draw alike."""
    return bytes(count)


def rows_of(journal: InMemoryJournal) -> list[JournalRow]:
    with journal.reader() as reader:
        return list(reader.entries())


async def kept_in_memory(events: list[Recorded]) -> list[JournalRow]:
    journal = InMemoryJournal(random=unsalted)
    for event in events:
        await journal.append(event)
    return rows_of(journal)


async def kept_on_disk(events: list[Recorded], path: Path) -> list[JournalRow]:
    async with await SqliteJournal.open(path, random=unsalted) as journal:
        for event in events:
            await journal.append(event)
    with JournalReader(path) as reader:
        return list(reader.entries())


async def test_entries_are_byte_for_byte_those_of_a_journal_on_disk(tmp_path: Path) -> None:
    events = [*whole_run("run-1"), *whole_run("run-2"), *whole_run("run-1")]

    assert await kept_in_memory(events) == await kept_on_disk(events, tmp_path / "journal.db")


@settings(max_examples=examples(25), deadline=None)
@given(events=st.lists(any_events(), max_size=4))
def test_any_events_are_kept_as_on_disk(tmp_path_factory: pytest.TempPathFactory, events: list[Recorded]) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.db"

    in_memory, on_disk = (asyncio.run(kept) for kept in (kept_in_memory(events), kept_on_disk(events, path)))

    assert [_without_exact(row) for row in in_memory] == [_without_exact(row) for row in on_disk]


def _without_exact(row: JournalRow) -> tuple[Any, ...]:
    """Exact arguments are hashed with the key of the journal, and every later entry hashes them in turn."""
    return row.seq, row.run, row.n, row.call, row.type, row.at, row.salt, row.data


async def test_a_run_is_verified_exported_and_proven_call_by_call(tmp_path: Path) -> None:
    journal = InMemoryJournal()
    for event in [*whole_run("run-1"), *whole_run("run-2")]:
        await journal.append(event)

    report = audit(journal)
    receipt = prove(journal, "call-0", run="run-2")
    bundle = export_run(journal, "run-2", tmp_path / "bundle")

    assert (report.ok, report.entries, report.unsigned_tail) == (True, 2 * len(whole_run()), 0)
    receipt.verify(Verifier.parse(receipt.verifier_key))
    assert check(bundle, receipt.verifier_key).problems == ()
    with pytest.raises(JournalError, match="has no run"):
        export_run(journal, "run-3", tmp_path / "other")


async def test_what_was_proven_stays_proven_as_the_record_grows() -> None:
    journal = InMemoryJournal()
    await journal.append(started())
    await journal.append(intended())
    first = rows_of(journal)
    await journal.append(settled())

    assert rows_of(journal)[:2] == first
    assert prove(journal, "call-0").verifier_key == prove(journal, "call-0").verifier_key


async def test_a_value_that_changes_later_is_proven_as_it_was() -> None:
    journal, arguments, unwritable = InMemoryJournal(), {"lines": ["one"]}, {"lines": [float("nan")]}
    await journal.append(intended(0, arguments=arguments))
    await journal.append(intended(1, arguments=unwritable))
    arguments["lines"].append("two")
    unwritable["lines"].append(2.0)

    bodies = [row.data for row in rows_of(journal)]

    assert bodies == [b'{"lines":["one"]}', b'{"lines":[{"$float":"nan"}]}']
    first = (await journal.history("run-1"))[0]
    assert getattr(first, "arguments", None) == {"lines": ["one"]}


async def test_secrets_are_masked_in_what_is_proven() -> None:
    journal, secret = InMemoryJournal(), SHAPES["Stripe"]
    await journal.append(intended(arguments={"key": secret}))

    assert secret.encode() not in b"".join(row.leaf + (row.data or b"") for row in rows_of(journal))
    with journal.reader() as reader:
        (row,) = reader.entries()
        assert getattr(reader.exact_event(row), "arguments", None) == {"key": secret}


async def test_proofs_may_be_asked_for_from_several_threads_while_it_grows() -> None:
    journal, reports = InMemoryJournal(), list[bool]()
    threads = [threading.Thread(target=lambda: reports.append(audit(journal).ok)) for _ in range(4)]
    for number, thread in enumerate(threads):
        await journal.append(settled(number))
        thread.start()
    for thread in threads:
        thread.join()

    assert reports == [True] * 4
    assert audit(journal).entries == 4


async def test_a_closed_one_takes_nothing_more_and_proves_what_it_has() -> None:
    journal = InMemoryJournal()
    await journal.append(started())
    await journal.aclose()

    with pytest.raises(JournalError, match="closed"):
        await journal.append(settled())
    assert audit(journal).entries == 1


def test_an_empty_one_verifies() -> None:
    report = audit(InMemoryJournal())

    assert (report.ok, report.entries) == (True, 0)
