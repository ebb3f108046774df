"""Answers by the ids of calls: kept for a while, up to so many and so much."""

from __future__ import annotations

import asyncio

import pytest

from handrail.core.errors import BusError
from handrail.node.bus import answered_calls
from handrail.node.bus.answered_calls import AnsweredCalls
from handrail.node.bus.streams import CapabilityResponse
from handrail.testing.clock import FixedClock


class Caller:
    def __init__(self, size: int = 10) -> None:
        self.clock = FixedClock()
        self.replays = AnsweredCalls(self.clock)
        self.size = size
        self.settled: list[str] = []

    async def ask(self, id: str, *, who: str = "ann", same: bytes = b"x", again: bool = True) -> int:
        async def settle(id: str) -> CapabilityResponse:
            self.settled.append(id)
            return CapabilityResponse({"n": len(self.settled), "text": "x" * self.size}, {})

        response = await self.replays.once((who, id), same, settle, again=again)
        assert response.output is not None
        n: int = response.output["n"]
        response.output["n"] = -1  # what one caller does with its answer is no business of the next
        return n


async def test_an_answer_is_good_for_ten_minutes() -> None:
    caller = Caller()
    found = [await caller.ask("c")]
    for seconds in (1, 598, 2):
        caller.clock.advance(seconds)
        found.append(await caller.ask("c"))

    assert found == [1, 1, 1, 2]


async def test_the_oldest_answers_go_when_there_are_too_many_or_they_are_too_large() -> None:
    many = Caller()
    for n in range(answered_calls.MOST + 5):
        await many.ask(str(n))
    large = Caller(size=answered_calls.BYTES // 3 - 100)
    for n in range(10):
        await large.ask(str(n))

    assert len(many.replays) == answered_calls.MOST
    assert len(large.replays) == 3
    assert await large.ask("9") == 10


async def test_an_id_is_good_for_the_one_who_gave_it() -> None:
    caller = Caller()

    assert [await caller.ask("c", who=who) for who in ("ann", "bob")] == [1, 2]
    with pytest.raises(BusError, match="another call"):
        await caller.ask("c", same=b"y")


async def test_of_two_at_once_the_second_asks_itself_if_the_first_was_cancelled() -> None:
    replays, ran, gate = AnsweredCalls(FixedClock()), list[str](), asyncio.Event()

    async def settle(id: str) -> CapabilityResponse:
        ran.append(id)
        await gate.wait()
        return CapabilityResponse({}, {})

    def ask() -> asyncio.Task[CapabilityResponse]:
        call = replays.once(("ann", "c"), b"", settle, again=True)
        return asyncio.create_task(call)

    first = ask()
    await asyncio.sleep(0)
    second = ask()
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    await second

    assert first.cancelled()
    assert ran == ["c", "c~1"]
