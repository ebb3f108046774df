"""Who may ask a service when, whatever the order in which requests and pauses come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import RateLimited, UsageError
from handrail.core.messages import Conversation
from handrail.core.model_request import ModelRequest
from handrail.core.redact import Secret
from handrail.models.codec import WireRequest
from handrail.models.codec_model import CodecModel
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.rate_limit import MINUTE, RateLimitSlot, ServiceRateLimit, ServiceRateLimits
from handrail.models.retry_policy import RetryPolicy
from handrail.models.transport import Endpoint
from handrail.models.wire_events import WireEvent
from handrail.testing.clock import FixedClock


def sent(pace: ServiceRateLimit, clock: FixedClock) -> float:
    """When a request goes out that asks now."""
    place = RateLimitSlot()
    while (wait := pace.wait(place)) > 0:
        clock.advance(wait)
    return clock.monotonic()


def test_without_a_limit_or_a_pause_nobody_waits() -> None:
    pace = ServiceRateLimit(clock=FixedClock())
    assert pace.is_free
    assert [pace.wait(RateLimitSlot()) for _ in range(1000)] == [0.0] * 1000


@given(st.integers(1, 5), st.lists(st.floats(0, 50), min_size=1, max_size=40))
def test_no_minute_has_more_than_its_limit(limit: int, pauses: list[float]) -> None:
    clock = FixedClock()
    pace = ServiceRateLimit(limit, clock=clock)
    times = []
    for pause in pauses:
        times.append(sent(pace, clock))
        clock.advance(pause)
    for at, first in enumerate(times):
        later = times[at + limit : at + limit + 1]
        assert all(each - first >= MINUTE - 1e-6 for each in later)


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=10), st.integers(1, 50))
def test_after_a_pause_none_goes_before_its_end_and_no_two_go_together(pauses: list[float], waiting: int) -> None:
    clock = FixedClock()
    pace = ServiceRateLimit(clock=clock)
    for pause in pauses:
        pace.hold(pause)
    waits = [pace.wait(RateLimitSlot()) for _ in range(waiting)]
    assert waits[0] == pytest.approx(max(pauses))
    assert len(set(waits)) == waiting
    assert max(waits) < max(pauses) + 2.0


def test_a_second_pause_sends_those_who_wait_to_the_end_of_the_line() -> None:
    clock = FixedClock()
    pace = ServiceRateLimit(clock=clock)
    pace.hold(5)
    first, second = RateLimitSlot(), RateLimitSlot()
    assert (pace.wait(first), pace.wait(second)) == (5, 5.25)
    clock.advance(5)
    assert pace.wait(first) == 0
    pace.hold(10)
    clock.advance(0.25)
    assert pace.wait(second) == 9.75


def test_who_leaves_gives_its_place_back() -> None:
    clock = FixedClock()
    pace = ServiceRateLimit(1, clock=clock)
    assert pace.wait(RateLimitSlot()) == 0
    leaving = RateLimitSlot()
    assert pace.wait(leaving) == MINUTE
    pace.leave(leaving)
    clock.advance(MINUTE)
    assert pace.wait(RateLimitSlot()) == 0


@given(st.integers(1, 4), st.lists(st.one_of(st.sampled_from(["ask", "leave"]), st.floats(1, 40)), max_size=60))
def test_no_minute_has_more_than_its_limit_whoever_leaves(limit: int, acts: list[str | float]) -> None:
    clock = FixedClock()
    pace = ServiceRateLimit(limit, clock=clock)
    waiting: list[RateLimitSlot] = []
    times: list[float] = []
    for act in acts:
        match act:
            case "ask":
                waiting.append(RateLimitSlot())
            case "leave" if waiting:
                pace.leave(waiting.pop(0))
            case float():
                clock.advance(act)
        for place in [place for place in waiting if pace.wait(place) == 0]:
            waiting.remove(place)
            times.append(place.at or 0.0)
    times.sort()
    assert all(later - first >= MINUTE - 1e-6 for first, later in zip(times, times[limit:], strict=False))


def test_one_service_and_key_have_one_pace_and_the_lowest_limit_holds() -> None:
    paces = ServiceRateLimits(clock=FixedClock())
    one = Endpoint("http://localhost:1/v1", Secret("k"))
    assert paces.of(one, 9) is paces.of(Endpoint("http://localhost:1/other", Secret("k")), 2)
    assert paces.of(one) is not paces.of(Endpoint("http://localhost:1/v1", Secret("other")))
    assert [paces.of(one).wait(RateLimitSlot()) for _ in range(3)] == [0, 0, MINUTE]


@pytest.mark.parametrize("limit", [0, -1, 0.5, "many"])
def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        ServiceRateLimit(limit)


def test_threads_may_share_a_pace() -> None:
    pace = ServiceRateLimit(1000, clock=FixedClock())

    async def main() -> list[list[float]]:
        ask = lambda: [pace.wait(RateLimitSlot()) for _ in range(250)]  # noqa: E731
        return await asyncio.gather(*(asyncio.to_thread(ask) for _ in range(8)))

    waits = [wait for each in asyncio.run(main()) for wait in each]
    assert (waits.count(0.0), waits.count(MINUTE)) == (1000, 1000)


async def test_a_pause_that_is_too_long_for_others_is_still_waited_for_by_the_one_who_met_it() -> None:
    class Busy:
        async def send(self, request: WireRequest, endpoint: Endpoint) -> AsyncGenerator[WireEvent, None]:
            raise RateLimited("busy")
            yield WireEvent({})

        async def aclose(self) -> None: ...

    clock, retry = FixedClock(), RetryPolicy(attempts=3, first_delay=5, longest_wait=0.0)
    where = Endpoint("http://localhost/v1")
    model = CodecModel(OpenAIChatCodec(), Busy(), where, "m", retry=retry, clock=clock, chance=lambda: 1.0)

    with pytest.raises(RateLimited):
        async for _ in model.stream(ModelRequest(messages=Conversation().say("x").messages)):
            pass

    assert clock.slept[-1] == 10.0
