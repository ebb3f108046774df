"""Calls to another node, as they are sent: on whose behalf, with what, and to whom they are passed on."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve as websocket_server
from websockets.typing import Subprotocol

from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import Caller
from handrail.node.capability_bus import CapabilityBus
from handrail.node.http import HttpBus
from handrail.node.http.link_loss import error_of_answer
from handrail.node.server.node import NodeFacts
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.signatures import Authenticator
from tests.node.http.fast_clock import FastClock, frames_of
from tests.node.http.loopback_node import ServerLimits, served
from tests.node.server.websocket_client import CountingCapability, counting_bus


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
    bus.register(CapabilityDescriptor(name="count.up", stream_schema={"token": {}}), CountingCapability())
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
    bus.register(CapabilityDescriptor(name="count.up", stream_schema={"token": {}}), CountingCapability())
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
        bus = HttpBus(f"http://127.0.0.1:{port}", transport="websocket", clock=FastClock())
        *_, last = await frames_of(bus)
        await bus.aclose()
    assert (last.event, last.data["error"], last.data["outcome"]) == ("error", "partition", "in_doubt")


@pytest.mark.parametrize("body", [b'{"error": "\xff"}', b"\xff", b"[" * 5_000, b""])
def test_an_answer_that_cannot_be_read_is_what_its_status_says(body: bytes) -> None:
    assert error_of_answer(503, body).code == error_of_answer(503, b"").code == "partition"
