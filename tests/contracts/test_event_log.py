"""What every log of events does, whether in a file or in the shared state of several replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import BusError
from handrail.node.services.event_log import EventDraft, EventLog
from handrail.state.database import StateDatabase
from handrail.testing.clock import FixedClock
from tests.contracts.state_places import file_in, place as place

Log = Callable[..., EventLog]


@pytest.fixture
def opened(place: Path | StateDatabase) -> Iterator[Log]:
    """Opens the log as a process, or a replica, does."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(closing(EventLog(file_in(place, "events.db"), **options)))


def draft(client_id: str, text: str = "hello", **more: Any) -> EventDraft:
    return EventDraft("note", "ada", client_id, {"text": text}, **more)


async def test_each_event_has_a_number_above_all_before_it_whoever_adds_it(opened: Log) -> None:
    logs = [opened(), opened()]

    added = await asyncio.gather(*(logs[number % 2].add(draft(str(number))) for number in range(20)))

    assert sorted(event.lamport for event, _ in added) == list(range(1, 21))
    later, _ = await logs[0].add(draft("later", heard=99))
    assert later.lamport == 100 == await logs[1].latest("note")


async def test_what_comes_again_is_the_same_event_and_something_else_is_refused(opened: Log) -> None:
    first, is_new = await opened().add(draft("1", "ünïcode \0 \ud800"))
    again, is_again_new = await opened().add(draft("1", "ünïcode \0 \ud800"))

    assert (first, is_new, is_again_new) == (again, True, False)
    with pytest.raises(BusError, match="client_id was already used"):
        await opened().add(draft("1", "else"))


async def test_events_are_found_by_what_they_say_until_they_end(opened: Log) -> None:
    clock = FixedClock()
    log = opened(clock=clock)
    for number in range(5):
        await log.add(draft(str(number), lives_ms=1_000 if number % 2 else None, recipient="bob"))

    newest, more = await log.find("recipient = ? AND lamport > ?", ["bob", 1], newest=True, limit=2)
    assert ([event.lamport for event in newest], more) == ([4, 5], True)
    clock.advance(2)
    left, more = await opened(clock=clock).find("recipient = ?", ["bob"], newest=False, limit=9)
    assert ([event.lamport for event in left], more) == ([1, 3, 5], False)


async def test_an_author_has_room_for_so_many_and_what_was_settled_long_ago_makes_room(opened: Log) -> None:
    clock = FixedClock()
    log = opened(clock=clock, most_per_author=2)
    first, _ = await log.add(draft("1", state="queued"))
    await log.add(draft("2", state="queued"))
    with pytest.raises(BusError, match="capacity_exceeded"):
        await opened(clock=clock, most_per_author=2).add(draft("3"))

    await log.settle(first.id, "delivered")
    clock.advance(8 * 86_400)
    await opened(clock=clock, most_per_author=2).add(draft("3"))
    found, _ = await log.find("kind = ?", ["note"], newest=False, limit=9)
    assert [event.lamport for event in found] == [2, 3]


async def test_a_text_that_is_not_unicode_is_refused(opened: Log) -> None:
    with pytest.raises(BusError, match="bad_request"):
        await opened().add(draft("\ud800"))
