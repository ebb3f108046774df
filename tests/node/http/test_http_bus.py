"""The bus of another node when the way to it breaks: nothing is lost, nothing is done twice, and doubt is said."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from handrail.core.errors import BusError
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.node.http import HttpBus, Transport
from handrail.node.http.bus import HttpPace
from handrail.node.http.link_loss import HttpBackoff
from tests.node.http.cuttable_wire import wire_to
from tests.node.http.fast_clock import FastClock, frames_of
from tests.node.http.loopback_node import ServerLimits, SocketLimits, served
from tests.node.server.http_node import eventually
from tests.node.server.websocket_client import counting_bus

TRANSPORTS: tuple[Transport, ...] = ("sse", "websocket")
by_both = pytest.mark.parametrize("transport", TRANSPORTS)
LINGER = ServerLimits(linger=60, grace=0.2)


# ── streams ──────────────────────────────────────────────────────────────────────────


@by_both
@pytest.mark.parametrize("cut", [300, 400, 900, 1_500])
async def test_a_stream_that_is_cut_is_taken_up_after_its_last_frame(transport: Transport, cut: int) -> None:
    bus, counting = counting_bus()
    async with bus, served(bus, limits=LINGER) as node, wire_to(node, cut, cut, cut) as (url, wire):
        caller = HttpBus(url, transport=transport, clock=FastClock())
        frames = await frames_of(caller, to=40)
        await caller.aclose()
    assert [frame.seq for frame in frames] == list(range(1, 42))
    assert [frame.data.get("text") for frame in frames[:-1]] == [str(number) for number in range(1, 41)]
    assert frames[-1].event == "done"
    assert counting.runs == 1
    assert wire.connections > 1


@by_both
async def test_by_default_it_is_back_before_the_node_gives_the_call_up(transport: Transport) -> None:
    bus, counting = counting_bus()
    async with bus, served(bus, limits=ServerLimits()) as node, wire_to(node) as (url, wire):
        caller = HttpBus(url, transport=transport, chance=lambda: 1.0)  # it waits for as long as it may
        async with asyncio.timeout(30), caller.stream("count.up", (1, 0), {"input": {"to": 2, "wait": 2}}) as stream:
            await anext(stream)
            wire.cut()
            wire.closed = False
            reading = asyncio.create_task(anext(stream))
            await eventually(lambda: wire.connections == 2)
            counting.go.set()
            assert [(await reading).seq, *[frame.seq async for frame in stream]] == [2, 3]
        await caller.aclose()
    assert (counting.runs, counting.cancelled.is_set()) == (1, False)


async def test_an_answer_given_while_the_network_was_cut_arrives_when_it_is_back() -> None:
    bus, counting = counting_bus()
    async with bus, served(bus, limits=LINGER) as node, wire_to(node) as (url, wire):
        caller = HttpBus(url, clock=FastClock())
        async with (
            asyncio.timeout(30),
            caller.stream("count.up", (1, 0), {"input": {"to": 1, "asks": True}}, interactive=True) as stream,
        ):
            assert [(await anext(stream)).event for _ in range(2)] == ["token", "tool_call"]
            wire.cut()
            await stream.tool_result("tc_1", {"sum": 3})
            wire.closed = False
            assert [frame.event async for frame in stream] == ["token", "done"]
        await caller.aclose()
    assert (counting.runs, wire.connections) == (1, 2)


@by_both
async def test_a_node_that_is_lost_for_good_ends_the_stream_in_doubt(transport: Transport) -> None:
    bus, _counting = counting_bus()
    clock = FastClock()
    async with bus, served(bus) as node, wire_to(node) as (url, wire):
        caller = HttpBus(url, transport=transport, clock=clock, chance=lambda: 1.0, pace=HttpPace(patience=20))
        async with asyncio.timeout(30), caller.stream("count.up", (1, 0), {"input": {"to": 3, "wait": 2}}) as stream:
            await anext(stream)
            wire.cut()
            [last] = [frame async for frame in stream]
        await caller.aclose()
    assert (last.event, last.data["error"], last.data["outcome"]) == ("error", "partition", "in_doubt")
    assert last.seq == 2
    assert clock.slept == [0.25, 1, 2, 4, 8, 16]


@by_both
async def test_what_may_be_done_again_is_no_matter_of_doubt_when_the_node_is_lost(transport: Transport) -> None:
    bus, _counting = counting_bus()
    async with bus, served(bus) as node, wire_to(node) as (url, wire):
        caller = HttpBus(url, transport=transport, clock=FastClock())
        assert len(await caller.discover("count.up")) == 1  # so that it knows
        async with asyncio.timeout(30), caller.stream("count.up", (1, 0), {"input": {"to": 3, "wait": 2}}) as stream:
            await anext(stream)
            wire.cut()
            [last] = [frame async for frame in stream]
        await caller.aclose()
    assert (last.data["error"], last.data["outcome"]) == ("partition", "failed")


async def test_of_a_version_that_the_node_said_nothing_of_nobody_knows_whether_it_may_be_done_again() -> None:
    bus, _counting = counting_bus()
    async with bus, served(bus) as node, wire_to(node) as (url, wire):
        caller = HttpBus(url, clock=FastClock())
        assert len(await caller.discover("count.up")) == 1  # at 1.0
        wire.cut()
        wire.to, wire.closed = "http://127.0.0.1:9", False  # what is sent now is lost
        with pytest.raises(BusError) as caught:
            await caller.call("count.up", (2, 0), {})
        await caller.aclose()
    assert (caught.value.code, caught.value.outcome) == ("partition", "in_doubt")


@by_both
async def test_a_stream_is_cancelled_while_its_wire_is_cut(transport: Transport) -> None:
    bus, counting = counting_bus()
    limits = ServerLimits(linger=0.05, grace=0.2)
    async with bus, served(bus, limits=limits) as node, wire_to(node) as (url, wire):
        caller = HttpBus(url, transport=transport, chance=lambda: 1.0)
        async with asyncio.timeout(30), caller.stream("count.up", (1, 0), {"input": {"to": 3, "wait": 2}}) as stream:
            await anext(stream)
            wire.cut()
            reading = asyncio.create_task(anext(stream))
            await counting.cancelled.wait()
            await stream.cancel()
            last = await reading
        await caller.aclose()
    assert (last.event, last.data["error"]) == ("error", "cancelled")


async def test_a_node_without_sockets_is_asked_by_events_unless_somebody_must_answer() -> None:
    bus, counting = counting_bus()
    async with bus, served(bus) as node, wire_to(node) as (url, wire):
        caller = HttpBus(url, transport="websocket")
        for wire.upgrades in (426, 503, 404):
            assert [frame.event for frame in await frames_of(caller, to=1)] == ["token", "done"]
        wire.upgrades = 426
        async with caller.stream("count.up", (1, 0), {}, interactive=True) as stream:
            [only] = [frame async for frame in stream]
        await caller.aclose()
    assert (only.data["error"], only.data["local"]) == ("not_implemented", "upgrade_refused")
    assert counting.runs == 3


async def test_a_stream_that_was_begun_on_a_socket_is_not_begun_again_by_events() -> None:
    first, counted_first = counting_bus(side_effects=True)
    second, counted_second = counting_bus(side_effects=True)
    async with (
        first,
        second,
        served(second) as anew,
        served(first, limits=LINGER) as node,
        wire_to(node) as (url, wire),
    ):
        caller = HttpBus(url, transport="websocket", clock=FastClock())
        async with asyncio.timeout(30), caller.stream("count.up", (1, 0), {"input": {"to": 3, "wait": 1}}) as stream:
            reading = asyncio.create_task(anext(stream))
            await counted_first.began.wait()
            wire.to, wire.upgrades = anew, 503  # it was started anew, and has no room for sockets
            wire.cut()
            wire.closed = False
            only = await reading
        await caller.aclose()
    assert (only.event, only.data["outcome"]) == ("error", "in_doubt")
    assert (counted_first.runs, counted_second.runs) == (1, 0)


@by_both
@pytest.mark.parametrize("begun", [True, False])
async def test_a_stream_that_is_cancelled_before_its_first_frame_is_cancelled(
    transport: Transport, begun: bool
) -> None:
    bus, counting = counting_bus()
    async with bus, served(bus) as url:
        caller = HttpBus(url, transport=transport)
        async with asyncio.timeout(10), caller.stream("count.up", (1, 0), {"input": {"wait": 1}}) as stream:
            reading = asyncio.create_task(anext(stream))
            await (counting.began.wait() if begun else asyncio.sleep(0))
            await stream.cancel()
            only = await reading
            if begun:
                await counting.cancelled.wait()
        await caller.aclose()
    assert (only.event, only.data["error"]) == ("error", "cancelled")


async def test_a_stream_that_waits_for_long_tells_the_node_that_somebody_is_there() -> None:
    bus, counting = counting_bus()
    limits = ServerLimits(sockets=SocketLimits(idle_seconds=0.3), linger=0, grace=0.2)
    async with bus, served(bus, limits=limits) as url:
        caller = HttpBus(url, transport="websocket", pace=HttpPace(alive=0.02))
        async with asyncio.timeout(30), caller.stream("count.up", (1, 0), {"input": {"to": 2, "wait": 2}}) as stream:
            await anext(stream)
            asyncio.get_running_loop().call_later(0.7, counting.go.set)  # longer than a socket may be idle
            assert [frame.event async for frame in stream] == ["token", "done"]
        await caller.aclose()
    assert counting.runs == 1


async def test_frames_that_are_missing_are_noticed() -> None:
    said = b"event: token\nid: 1\ndata: {}\n\nevent: done\nid: 3\ndata: {}\n\n"

    async def shortened(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + said)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(shortened, "127.0.0.1", 0) as server:
        caller = HttpBus(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        frames = await frames_of(caller)
        await caller.aclose()
    assert [(frame.event, frame.seq) for frame in frames] == [("token", 1), ("error", 2)]
    assert frames[-1].data["error"] == "internal_error"


# ── calls ────────────────────────────────────────────────────────────────────────────


class Paying:
    """A side effect that is counted, and takes as long as a test wants."""

    def __init__(self) -> None:
        self.paid = 0
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, request: RouteRequest) -> dict[str, Any]:
        self.begun.set()
        await self.go.wait()
        self.paid += 1
        return {"output": {"receipt": self.paid}}


def paying_bus(*, side_effects: bool = True) -> tuple[CapabilityBus, Paying]:
    bus, paying = CapabilityBus(), Paying()
    bus.register(CapabilityDescriptor(name="bank.pay", side_effects=side_effects, timeout_seconds=60), paying)
    return bus, paying


async def test_an_answer_that_was_cut_off_is_asked_for_again_and_paid_once() -> None:
    bus, paying = paying_bus()
    async with bus, served(bus, limits=LINGER) as node, wire_to(node, 40) as (url, wire):
        caller = HttpBus(url, clock=FastClock())
        paying.go.set()
        async with asyncio.timeout(30):
            response = await caller.call("bank.pay", (1, 0), {})
        await caller.aclose()
    assert (response["output"], paying.paid, wire.connections) == ({"receipt": 1}, 1, 2)


async def test_a_call_whose_wire_is_cut_while_it_runs_is_joined_and_not_made_again() -> None:
    bus, paying = paying_bus()
    async with bus, served(bus, limits=LINGER) as node, wire_to(node) as (url, wire):
        caller = HttpBus(url, clock=FastClock(), pace=HttpPace(patience=600))
        async with asyncio.timeout(30):
            asking = asyncio.create_task(caller.call("bank.pay", (1, 0), {}))
            await paying.begun.wait()
            wire.cut()
            await wire.turned_away.wait()  # it tries, and is not let in
            wire.closed = False
            paying.go.set()
            response = await asking
        await caller.aclose()
    assert (response["output"], paying.paid) == ({"receipt": 1}, 1)


@pytest.mark.parametrize("side_effects", [True, False])
async def test_a_restarted_node_does_nothing_twice(side_effects: bool) -> None:
    first, paid_first = paying_bus(side_effects=side_effects)
    second, paid_second = paying_bus(side_effects=side_effects)
    paid_second.go.set()
    async with (
        first,
        second,
        served(second) as anew,
        served(first, limits=LINGER) as node,
        wire_to(node) as (url, wire),
    ):
        caller = HttpBus(url, clock=FastClock(), pace=HttpPace(patience=600))
        asking = asyncio.create_task(caller.call("bank.pay", (1, 0), {}))
        await asyncio.wait_for(paid_first.begun.wait(), 30)
        wire.to = anew
        wire.cut()
        wire.closed = False
        await asyncio.wait((asking,), timeout=30)
        if side_effects:
            with pytest.raises(BusError) as caught:
                asking.result()
            assert (caught.value.code, caught.value.outcome) == ("partition", "in_doubt")
        else:
            assert asking.result()["output"] == {"receipt": 1}
        await caller.aclose()
    assert (paid_first.paid, paid_second.paid) == (0, 0 if side_effects else 1)


async def test_a_node_that_was_never_there_did_nothing_and_is_not_waited_for() -> None:
    clock = FastClock()
    async with await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
    caller = HttpBus(f"http://127.0.0.1:{port}", clock=clock)
    with pytest.raises(BusError) as caught:
        await caller.call("bank.pay", (1, 0), {})
    for interactive in (True, False):
        async with caller.stream("bank.pay", (1, 0), {}, interactive=interactive) as stream:
            [only] = [frame async for frame in stream]
        assert (only.data["error"], only.data["outcome"]) == ("partition", "failed")
    assert (caught.value.code, caught.value.outcome, clock.slept) == ("partition", "failed", [])
    with pytest.raises(BusError, match="partition"):
        await caller.discover()
    await caller.aclose()


async def test_a_node_that_never_answers_is_left_when_the_time_is_over() -> None:
    left = asyncio.Semaphore(0)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()
        left.release()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        caller = HttpBus(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        time = asyncio.get_running_loop().time
        with pytest.raises(BusError) as caught:  # what is left is a moment for the node to say so itself
            await caller.call("bank.pay", (1, 0), {}, deadline=time() - 1.9)
        async with caller.stream("bank.pay", (1, 0), {}, deadline=time() - 1.9) as stream:
            [only] = [frame async for frame in stream]
        await caller.aclose()
        for _ in range(2):
            await asyncio.wait_for(left.acquire(), 30)
    assert (caught.value.code, caught.value.outcome) == ("timeout", "in_doubt")
    assert (only.data["error"], only.data["outcome"]) == ("timeout", "in_doubt")


@pytest.mark.parametrize("status", [502, 504])
async def test_what_a_proxy_says_of_a_lost_node_is_no_answer_of_the_node(status: int) -> None:
    clock = FastClock()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d Bad\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbad" % status)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        caller = HttpBus(url, clock=clock, chance=lambda: 1.0, pace=HttpPace(patience=5))
        with pytest.raises(BusError) as caught:
            await caller.call("bank.pay", (1, 0), {})
        await caller.aclose()
    assert (caught.value.code, caught.value.outcome, clock.slept) == ("partition", "in_doubt", [0.25, 1, 2, 4])


@contextlib.asynccontextmanager
async def answering(*answers: tuple[int, bytes] | None) -> AsyncIterator[str]:
    """A node that answers like this, one connection after the other, the last one for ever; None hangs up."""
    count = itertools.count()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        found = answers[min(next(count), len(answers) - 1)]
        if found is not None:
            status, body = found
            writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(body)))
            writer.write(body)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


REFUSED = {
    "it ends": (503, b'{"error":"partition","message":"ending","outcome":"failed","retry_after_ms":1000}'),
    "it is full": (503, b'{"error":"capacity_exceeded","message":"full","outcome":"failed"}'),
    "the token has ended": (410, b'{"error":"token_expired","message":"","outcome":"forbidden"}'),
    "it does not offer that": (404, b'{"error":"not_found","message":"","outcome":"failed"}'),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=list(REFUSED))
async def test_a_second_attempt_that_is_not_let_in_says_nothing_about_the_first(refused: tuple[int, bytes]) -> None:
    async with answering(None, refused) as url:
        caller = HttpBus(url, clock=FastClock())
        with pytest.raises(BusError) as caught:
            await caller.call("bank.pay", (1, 0), {})
        await caller.aclose()
    async with answering(None, refused) as url:
        caller = HttpBus(url, clock=FastClock())
        async with caller.stream("bank.pay", (1, 0), {}) as stream:
            [only] = [frame async for frame in stream]
        await caller.aclose()
    assert (caught.value.outcome, only.data["outcome"]) == ("in_doubt", "in_doubt")
    async with answering(refused) as url:
        caller = HttpBus(url, clock=FastClock())
        with pytest.raises(BusError) as caught:
            await caller.call("bank.pay", (1, 0), {})
        await caller.aclose()
    assert caught.value.outcome != "in_doubt"  # of the first attempt it is the truth


@pytest.mark.parametrize(
    ("status", "outcome"), [(500, "in_doubt"), (524, "in_doubt"), (403, "failed"), (429, "failed")]
)
async def test_who_fails_in_the_place_of_the_node_may_have_passed_the_call_on(status: int, outcome: str) -> None:
    async with answering((status, b"<html>sorry</html>")) as url:
        caller = HttpBus(url, clock=FastClock())
        with pytest.raises(BusError) as caught:
            await caller.call("bank.pay", (1, 0), {})
        await caller.aclose()
    assert caught.value.outcome == outcome


def test_the_delays_double_up_to_a_minute_and_start_over() -> None:
    backoff = HttpBackoff(lambda: 1.0)
    assert [backoff.delay() for _ in range(9)] == [0.25, 1, 2, 4, 8, 16, 32, 60, 60]
    backoff.reset()
    assert backoff.delay() == 0.25
