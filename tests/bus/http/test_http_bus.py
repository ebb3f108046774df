"""The bus of another node when the way to it breaks: nothing is lost, nothing is done twice, and doubt is said."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as websocket_server
from websockets.typing import Subprotocol

from handrail.bus.descriptor import CapabilityDescriptor
from handrail.bus.frames import Frame
from handrail.bus.http import HttpBus, Transport
from handrail.bus.http.answers import error_of
from handrail.bus.http.backoff import Backoff
from handrail.bus.request import Caller, RouteRequest
from handrail.bus.tokens.identity import Identity
from handrail.bus.tokens.signatures import Authenticator
from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.faces.bus import CapabilityBus
from handrail.server.node import NodeFacts
from tests.bus.http.served import ServerLimits, SocketLimits, served
from tests.bus.http.wire import wire_to
from tests.server.scene import eventually
from tests.server.sockets import Counting, counting_bus

TRANSPORTS: tuple[Transport, ...] = ("sse", "websocket")
by_both = pytest.mark.parametrize("transport", TRANSPORTS)
LINGER = ServerLimits(linger=60, grace=0.2)


class Hurried:
    """A clock on which sleeping takes no time, and says how long it would have been."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self._at = 0.0

    def now(self) -> int:
        return 1_700_000_000_000

    def monotonic(self) -> float:
        return self._at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._at += seconds
        await asyncio.sleep(0)


async def frames_of(bus: HttpBus, **input: Any) -> list[Frame]:
    async with asyncio.timeout(30), bus.stream("count.up", (1, 0), {"input": input}) as stream:
        return [frame async for frame in stream]


# ── streams ──────────────────────────────────────────────────────────────────────────


@by_both
@pytest.mark.parametrize("cut", [300, 400, 900, 1_500])
async def test_a_stream_that_is_cut_is_taken_up_after_its_last_frame(transport: Transport, cut: int) -> None:
    bus, counting = counting_bus()
    async with bus, served(bus, limits=LINGER) as node, wire_to(node, cut, cut, cut) as (url, wire):
        caller = HttpBus(url, transport=transport, clock=Hurried())
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


async def test_an_answer_given_while_the_wire_was_cut_arrives_when_it_is_mended() -> None:
    bus, counting = counting_bus()
    async with bus, served(bus, limits=LINGER) as node, wire_to(node) as (url, wire):
        caller = HttpBus(url, clock=Hurried())
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
    clock = Hurried()
    async with bus, served(bus) as node, wire_to(node) as (url, wire):
        caller = HttpBus(url, transport=transport, clock=clock, chance=lambda: 1.0, patience=20)
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
        caller = HttpBus(url, transport=transport, clock=Hurried())
        assert len(await caller.discover("count.up")) == 1  # so that it knows
        async with asyncio.timeout(30), caller.stream("count.up", (1, 0), {"input": {"to": 3, "wait": 2}}) as stream:
            await anext(stream)
            wire.cut()
            [last] = [frame async for frame in stream]
        await caller.aclose()
    assert (last.data["error"], last.data["outcome"]) == ("partition", "failed")


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
        caller = HttpBus(url, transport="websocket", clock=Hurried())
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
        caller = HttpBus(url, transport="websocket", alive=0.02)
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
        caller = HttpBus(url, clock=Hurried())
        paying.go.set()
        async with asyncio.timeout(30):
            response = await caller.call("bank.pay", (1, 0), {})
        await caller.aclose()
    assert (response["output"], paying.paid, wire.connections) == ({"receipt": 1}, 1, 2)


async def test_a_call_whose_wire_is_cut_while_it_runs_is_joined_and_not_made_again() -> None:
    bus, paying = paying_bus()
    async with bus, served(bus, limits=LINGER) as node, wire_to(node) as (url, wire):
        caller = HttpBus(url, clock=Hurried(), patience=600)
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
async def test_a_node_that_was_started_anew_does_nothing_twice(side_effects: bool) -> None:
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
        caller = HttpBus(url, clock=Hurried(), patience=600)
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
    clock = Hurried()
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
    clock = Hurried()

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d Bad\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbad" % status)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(proxy, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        caller = HttpBus(url, clock=clock, chance=lambda: 1.0, patience=5)
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
        caller = HttpBus(url, clock=Hurried())
        with pytest.raises(BusError) as caught:
            await caller.call("bank.pay", (1, 0), {})
        await caller.aclose()
    async with answering(None, refused) as url:
        caller = HttpBus(url, clock=Hurried())
        async with caller.stream("bank.pay", (1, 0), {}) as stream:
            [only] = [frame async for frame in stream]
        await caller.aclose()
    assert (caught.value.outcome, only.data["outcome"]) == ("in_doubt", "in_doubt")
    async with answering(refused) as url:
        caller = HttpBus(url, clock=Hurried())
        with pytest.raises(BusError) as caught:
            await caller.call("bank.pay", (1, 0), {})
        await caller.aclose()
    assert caught.value.outcome != "in_doubt"  # of the first attempt it is the truth


@pytest.mark.parametrize(
    ("status", "outcome"), [(500, "in_doubt"), (524, "in_doubt"), (403, "failed"), (429, "failed")]
)
async def test_who_fails_in_the_place_of_the_node_may_have_passed_the_call_on(status: int, outcome: str) -> None:
    async with answering((status, b"<html>sorry</html>")) as url:
        caller = HttpBus(url, clock=Hurried())
        with pytest.raises(BusError) as caught:
            await caller.call("bank.pay", (1, 0), {})
        await caller.aclose()
    assert caught.value.outcome == outcome


def test_the_delays_double_up_to_a_minute_and_begin_anew() -> None:
    backoff = Backoff(lambda: 1.0)
    assert [backoff.delay() for _ in range(9)] == [0.25, 1, 2, 4, 8, 16, 32, 60, 60]
    backoff.reset()
    assert backoff.delay() == 0.25


# ── who asks ─────────────────────────────────────────────────────────────────────────


class Seen:
    """An admission that lets everybody in and remembers who it was."""

    def __init__(self) -> None:
        self.callers: list[tuple[str, str | None]] = []

    async def admit(
        self, caller: Caller, token: Secret | None, descriptor: CapabilityDescriptor, body: Mapping[str, Any]
    ) -> Caller:
        self.callers.append((caller.id, None if token is None else str(token)))
        return Caller(principal=Principal(caller.id), trust="trusted", token=token)


async def asked(bus: HttpBus, /, **how: Any) -> None:
    """The same call in each of the three ways."""
    await bus.call("count.up", (1, 0), {"input": {"to": 1, "text": "ü"}}, **how)
    for interactive in (False, True):
        body = {"input": {"to": 1, "text": "ü"}}
        async with (
            asyncio.timeout(30),
            bus.stream("count.up", (1, 0), body, interactive=interactive, **how) as stream,
        ):
            frames = [frame async for frame in stream]
            assert frames[-1].event == "done", frames


async def test_calls_of_the_program_are_signed_in_every_way_and_those_for_others_never() -> None:
    seen, identity = Seen(), Identity.from_seed(bytes(range(32)))
    bus = CapabilityBus(admission=seen)
    bus.register(CapabilityDescriptor(name="count.up", stream_schema={"token": {}}), Counting())
    facts: dict[str, Any] = {"check": Authenticator(community="home"), "node": NodeFacts(node_id="n", community="home")}
    async with bus, served(bus, token_required=True, **facts) as url:
        async with HttpBus(url, identity=identity) as caller:
            assert caller.node_id == "n"
            await asked(caller)
            await asked(caller, caller=Caller(principal=Principal("guest"), token=Secret("hntoken://v1/theirs")))
        other = HttpBus(url, identity=identity, community="elsewhere")
        with pytest.raises(BusError, match="community"):
            await other.call("count.up", (1, 0), {})
        await other.aclose()
    assert seen.callers == [(identity.node_id, None)] * 3 + [("anonymous", "hntoken://v1/theirs")] * 3


async def test_the_token_of_the_program_goes_only_with_its_own_calls() -> None:
    seen = Seen()
    bus = CapabilityBus(admission=seen)
    bus.register(CapabilityDescriptor(name="count.up", stream_schema={"token": {}}), Counting())
    async with bus, served(bus) as url:
        caller = HttpBus(url, token="hntoken://v1/ours")
        await asked(caller)
        await asked(caller, caller=Caller(principal=Principal("guest"), token=Secret("hntoken://v1/theirs")))
        await asked(caller, caller=Caller(principal=Principal("guest")), token="hntoken://v1/theirs-too")
        await asked(caller, caller=Caller(principal=Principal("guest")))
        await caller.aclose()
    tokens = [None if token is None else token.removeprefix("hntoken://v1/") for _, token in seen.callers]
    assert tokens == ["ours"] * 3 + ["theirs"] * 3 + ["theirs-too"] * 3 + [None] * 3


async def test_what_a_caller_may_not_here_it_may_not_there() -> None:
    bus, counting = counting_bus()
    async with bus, served(bus) as url:
        caller = HttpBus(url, token=None)
        narrow = Caller(principal=Principal("self", ("rag.*",)), trust="self")
        with pytest.raises(BusError) as caught:
            await caller.call("count.up", (1, 0), {}, caller=narrow)
        await caller.aclose()
    assert (caught.value.code, counting.runs) == ("token_scope_insufficient", 0)


async def test_the_token_is_in_no_error_no_log_and_no_repr(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "hntoken://v1/canary-canary-canary"
    bus, _counting = counting_bus()
    async with bus, served(bus, limits=ServerLimits(grace=0.2)) as url:
        caller = HttpBus(url, token=secret)
        with pytest.raises(BusError) as caught:
            await caller.call("no.such", (1, 0), {})
        async with caller.stream("no.such", (1, 0), {}, interactive=True) as stream:
            frames = [frame async for frame in stream]
        await caller.aclose()
    said = [repr(caught.value), str(caught.value.to_dict()), repr(caller), *(repr(frame) for frame in frames)]
    assert [frame.event for frame in frames] == ["error"]
    assert not [each for each in (*said, *caplog.messages) if "canary" in each]


@pytest.mark.parametrize("name", ["", "nodots", "Ünicode.name", "a.b\r\nx: y", "a.b c"])
async def test_a_name_that_cannot_be_one_is_not_sent(name: str) -> None:
    caller = HttpBus("http://127.0.0.1:9")
    with pytest.raises(BusError, match="not_found"):
        await caller.call(name, (1, 0), {})
    async with caller.stream(name, (1, 0), {}) as stream:
        assert [frame.data["error"] async for frame in stream] == ["not_found"]
    await caller.aclose()


async def test_a_body_that_is_no_json_is_not_sent() -> None:
    caller = HttpBus("http://127.0.0.1:9")
    for body in ({"input": {"x": object()}}, {"input": {"x": "\ud800"}}):
        with pytest.raises(BusError, match="bad_request"):
            await caller.call("a.b", (1, 0), body)
    await caller.aclose()


async def test_an_answer_that_is_no_json_is_refused_and_another_can_be_given() -> None:
    bus, _counting = counting_bus()
    async with bus, served(bus) as url, HttpBus(url) as caller, asyncio.timeout(30):
        body = {"input": {"to": 0, "asks": True}}
        async with caller.stream("count.up", (1, 0), body, interactive=True) as stream:
            await anext(stream)
            with pytest.raises(BusError, match="bad_request"):
                await stream.tool_result("tc_1", object())
            await stream.tool_result("tc_1", {"sum": 3})
            with pytest.raises(BusError, match="bad_request"):
                await stream.tool_result("tc_1", {"sum": 4})  # it was answered
            assert [frame.event async for frame in stream] == ["token", "done"]


async def test_a_bus_that_knows_another_node_calls_through_it_and_passes_answers_on() -> None:
    far, counting = counting_bus()
    async with far, served(far) as url, HttpBus(url) as way, CapabilityBus(node_id="near") as near:
        await near.connect(way)
        response = await near.call("count.up", (1, 0), {"input": {"to": 2}})
        async with (
            asyncio.timeout(30),
            near.stream("count.up", (1, 0), {"input": {"to": 1, "asks": True}}, interactive=True) as stream,
        ):
            assert [(await anext(stream)).event for _ in range(2)] == ["token", "tool_call"]
            await stream.tool_result("tc_1", {"sum": 3})
            assert [frame.event async for frame in stream] == ["token", "done"]
    assert (response["output"], counting.runs) == ({"sent": 2}, 2)


async def test_two_streams_at_once_do_not_mix() -> None:
    bus, _counting = counting_bus()
    async with bus, served(bus) as url:
        caller = HttpBus(url)
        found = await asyncio.gather(*(frames_of(caller, to=number) for number in range(6)))
        await caller.aclose()
    for number, frames in enumerate(found):
        assert [frame.seq for frame in frames] == list(itertools.islice(itertools.count(1), number + 1))


@pytest.mark.parametrize(
    "said", [b'{"event": "\xff"}', b"[" * 5_000, b'{"event": 3}'], ids=["no text", "deep", "no event"]
)
async def test_a_node_that_sends_what_is_no_frame_is_lost_and_nobody_waits_for_ever(said: bytes) -> None:
    async def talk(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(said, text=True)
        await connection.wait_closed()

    async with websocket_server(talk, "127.0.0.1", 0, subprotocols=[Subprotocol("hearthnet-bus.v2")]) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        bus = HttpBus(f"http://127.0.0.1:{port}", transport="websocket", clock=Hurried())
        *_, last = await frames_of(bus)
        await bus.aclose()
    assert (last.event, last.data["error"], last.data["outcome"]) == ("error", "partition", "in_doubt")


@pytest.mark.parametrize("body", [b'{"error": "\xff"}', b"\xff", b"[" * 5_000, b""])
def test_an_answer_that_cannot_be_read_is_what_its_status_says(body: bytes) -> None:
    assert error_of(503, body).code == error_of(503, b"").code == "partition"
