"""What every journal does, whichever it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from handrail.core.errors import JournalError, LeaseHeld
from handrail.core.events import Recorded
from handrail.core.ports import AppendsAtOnce, Journal
from handrail.journal.in_memory import InMemoryJournal
from handrail.journal.journal import JournalTiming, SqliteJournal
from handrail.journal.postgres_journal import PostgresJournal
from handrail.testing.journal import MemoryJournal
from tests.journal.event_samples import finished, settled, started, whole_run


@pytest.fixture(params=["double", "memory", "sqlite", "sqlite by thread", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    made: Journal
    match request.param:
        case "double":
            made = MemoryJournal()
        case "memory":
            made = InMemoryJournal()
        case "sqlite":
            made = await SqliteJournal.open(tmp_path / "journal.db")
        case "postgres":
            made = await PostgresJournal.open(request.getfixturevalue("postgres_url"))
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


async def test_what_is_put_off_is_written_before_what_is_appended_later(journal: Journal) -> None:
    if not isinstance(journal, AppendsAtOnce):
        pytest.skip("it appends only as it is asked to")
    assert journal.append_soon(started())
    assert await journal.history("run-1") == [started()]
    assert journal.append_soon(settled(1))
    assert journal.append_soon(settled(2))
    await journal.append(settled(3), durable=True)
    assert journal.append_soon(settled(4))
    if not journal.append_at_once(settled(5), durable=True):
        await journal.append(settled(5), durable=True)
    assert await journal.history("run-1") == [started(), *(settled(number) for number in range(1, 6))]


async def test_each_task_finds_its_entries_in_the_order_in_which_it_gave_them(journal: Journal) -> None:
    if not isinstance(journal, AppendsAtOnce):
        pytest.skip("it appends only as it is asked to")
    quick: AppendsAtOnce = journal

    async def write(run: str, chance: Random) -> None:
        for number in range(60):
            event, durable = settled(number, run), chance.random() < 0.3
            match chance.randrange(3):
                case 0 if quick.append_soon(event):
                    pass
                case 1 if quick.append_at_once(event, durable=durable):
                    pass
                case _:
                    await journal.append(event, durable=durable)
            if chance.random() < 0.2:
                await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for lane in range(6):
            group.create_task(write(f"run-{lane}", Random(lane)))
    for lane in range(6):
        assert await journal.history(f"run-{lane}") == [settled(number, f"run-{lane}") for number in range(60)]


async def test_a_closed_journal_takes_no_more_and_may_be_closed_again(journal: Journal) -> None:
    await journal.append(started())
    await journal.aclose()
    await journal.aclose()
    with pytest.raises(JournalError):
        await journal.append(finished())
    if isinstance(journal, AppendsAtOnce):
        with pytest.raises(JournalError):
            journal.append_soon(finished())
        with pytest.raises(JournalError):
            journal.append_at_once(finished())
    assert await journal.history("run-1") == [started()]
