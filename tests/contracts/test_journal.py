"""What every journal does, whichever it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from handrail.core.errors import JournalError, LeaseHeld
from handrail.core.events import Recorded
from handrail.core.ports import Journal
from handrail.journal.in_memory import InMemoryJournal
from handrail.journal.journal import JournalTiming, SqliteJournal
from handrail.testing.journal import MemoryJournal
from tests.journal.event_samples import finished, settled, started, whole_run


@pytest.fixture(params=["double", "memory", "sqlite", "sqlite by thread"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    made: Journal
    match request.param:
        case "double":
            made = MemoryJournal()
        case "memory":
            made = InMemoryJournal()
        case "sqlite":
            made = await SqliteJournal.open(tmp_path / "journal.db")
        case _:
            made = await SqliteJournal.open(tmp_path / "journal.db", timing=JournalTiming(stall=0))
    yield made
    await made.aclose()


async def test_a_run_comes_back_whole_and_in_order(journal: Journal) -> None:
    for event in whole_run():
        await journal.append(event, durable=event.body is not None)
    assert await journal.history("run-1") == whole_run()


async def test_runs_do_not_mix(journal: Journal) -> None:
    for one, two in zip(whole_run("run-1"), whole_run("run-2"), strict=True):
        await journal.append(one)
        await journal.append(two)
    assert await journal.history("run-1") == whole_run("run-1")
    assert await journal.history("run-2") == whole_run("run-2")


async def test_an_unknown_run_has_no_history(journal: Journal) -> None:
    await journal.append(started("run-1"))
    assert await journal.history("run") == []


async def test_entries_asked_for_together_keep_the_order_in_which_they_were_asked_for(journal: Journal) -> None:
    events = [settled(number) for number in range(100)]
    async with asyncio.TaskGroup() as group:
        for number, event in enumerate(events):
            group.create_task(journal.append(event, durable=number % 3 == 0))
    assert await journal.history("run-1") == events


async def test_a_run_may_go_on_after_it_was_finished(journal: Journal) -> None:
    events: list[Recorded] = [started(), finished(), started(), settled(), finished()]
    for event in events:
        await journal.append(event)
    assert await journal.history("run-1") == events


@pytest.mark.parametrize("run", ["", "/etc/passwd", "..", "ü\x00\n", "\ud800", "$text:00", "x" * 5000])
async def test_a_run_may_have_any_name(journal: Journal, run: str) -> None:
    await journal.append(started(run), durable=True)
    await journal.append(finished(run))
    assert await journal.history(run) == [started(run), finished(run)]
    (await journal.lease(run)).release()


async def test_a_run_can_be_leased_once_until_it_is_released(journal: Journal) -> None:
    lease = await journal.lease("run-1")
    other = await journal.lease("run-2")
    with pytest.raises(LeaseHeld) as held:
        await journal.lease("run-1")
    assert held.value.run == "run-1"
    assert "this process" in held.value.holder
    lease.release()
    lease.release()
    again = await journal.lease("run-1")
    again.release()
    other.release()


async def test_a_closed_journal_takes_no_more_and_may_be_closed_again(journal: Journal) -> None:
    await journal.append(started())
    await journal.aclose()
    await journal.aclose()
    with pytest.raises(JournalError):
        await journal.append(finished())
    assert await journal.history("run-1") == [started()]
