"""Calls over WebSocket: how they begin, flow and end, and what is not let in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.capability_bus import CapabilityBus
from tests.node.http.loopback_node import ServerLimits, SocketLimits, SwappableBus, served
from tests.node.server.websocket_client import (
    CountingCapability,
    call,
    counting_bus,
    receive_message,
    receive_until_closed,
    reset_connection,
    send_message,
    socket_to,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
BRIEF = SocketLimits(window=4, ack_seconds=0.05, first_seconds=0.05, idle_seconds=0.1)
Scene = tuple[str, CapabilityBus, CountingCapability]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[SwappableBus]:
    found = SwappableBus()
    async with served(found, limits=ServerLimits(kept_seconds=0, grace=0.2)) as found.url:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def scene(stage: SwappableBus) -> AsyncIterator[Scene]:
    stage.bus, counting = counting_bus()
    async with stage.bus:
        yield stage.url, stage.bus, counting


# ── how a call goes ──────────────────────────────────────────────────────────────────


@pytest.mark.requirement("hearthnet.websocket")
@pytest.mark.requirement("hearthnet.frames")
async def test_a_call_gives_numbered_frames_and_one_done_and_then_the_socket_closes(scene: Scene) -> None:
    async with socket_to(scene[0]) as client:
        await send_message(client, call(to=2))
        heard = await receive_until_closed(client)
    assert [(each["event"], each["seq"]) for each in heard] == [("token", 1), ("token", 2), ("done", 3)]
    assert heard[0]["data"] == {"text": "1"}
    assert heard[-1]["data"]["stop_reason"] == "end"
    assert client.close_code == 1000
    assert client.subprotocol == "hearthnet-bus.v2"


@pytest.mark.requirement("hearthnet.websocket")
@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ({"body": {"sum": 3}}, {"body": {"sum": 3}, "is_error": False}),
        ({"body": {"error": "no"}}, {"body": {"error": "no"}, "is_error": True}),
        ({"body": {"error": "no"}, "is_error": False}, {"body": {"error": "no"}, "is_error": False}),
        ({"body": "ü", "is_error": True}, {"body": "ü", "is_error": True}),
    ],
)
async def test_a_tool_result_goes_to_the_call_that_asked_and_the_same_stream_goes_on(
    scene: Scene, answer: dict[str, Any], read: dict[str, Any]
) -> None:
    async with socket_to(scene[0]) as client:
        await send_message(client, call(to=1, asks=True))
        assert [(await receive_message(client))["event"] for _ in range(2)] == ["token", "tool_call"]
        await send_message(client, {"type": "tool_result", "tool_call_id": "tc_1", **answer})
        heard = await receive_until_closed(client)
    assert [each["event"] for each in heard] == ["token", "done"]
    assert json.loads(heard[0]["data"]["text"]) == read


async def test_an_answer_that_nobody_asked_for_is_refused_and_the_stream_goes_on(scene: Scene) -> None:
    async with socket_to(scene[0]) as client:
        await send_message(client, call(to=1, asks=True))
        assert [(await receive_message(client))["event"] for _ in range(2)] == ["token", "tool_call"]
        await send_message(client, {"type": "tool_result", "tool_call_id": "tc_9", "body": {}})
        refused = await receive_message(client)
        await send_message(client, {"type": "tool_result", "tool_call_id": "tc_1", "body": {}})
        heard = await receive_until_closed(client)
    assert (refused["type"], refused["tool_call_id"], refused["error"]) == ("refused", "tc_9", "bad_request")
    assert "event" not in refused
    assert heard[-1]["event"] == "done"


@pytest.mark.requirement("hearthnet.websocket")
async def test_cancel_ends_the_call_at_once_with_one_error(scene: Scene) -> None:
    url, _bus, counting = scene
    async with socket_to(url) as client:
        await send_message(client, call(to=2, wait=2))
        await receive_message(client)
        before = asyncio.get_running_loop().time()
        await send_message(client, {"type": "cancel"})
        heard = await receive_until_closed(client)
        took = asyncio.get_running_loop().time() - before
    assert [(each["event"], each["data"]["error"]) for each in heard] == [("error", "cancelled")]
    assert counting.cancelled.is_set()
    assert took < 2  # 0.2 on a machine that does nothing else


async def test_cancel_is_not_held_up_by_a_full_window() -> None:
    bus, counting = counting_bus()
    limits = ServerLimits(sockets=SocketLimits(window=4, ack_seconds=600), grace=0.2)
    async with bus, served(bus, limits=limits) as url, socket_to(url) as client:
        await send_message(client, call(to=10_000))
        assert [(await receive_message(client))["seq"] for _ in range(4)] == [1, 2, 3, 4]
        await send_message(client, {"type": "cancel"})
        heard = await receive_until_closed(client, ack=False)
    assert heard[-1]["data"]["error"] == "cancelled"
    assert [each["seq"] for each in heard] == list(range(5, 5 + len(heard)))
    assert counting.cancelled.is_set()


async def test_a_capability_that_does_not_stream_is_not_called_on_a_socket(scene: Scene) -> None:
    url, bus, _counting = scene

    async def never(request: RouteRequest) -> dict[str, Any]:
        raise NotImplementedError

    bus.register(CapabilityDescriptor(name="plain.say"), never)
    async with socket_to(url) as client:
        message = call()
        message["envelope"]["capability"] = "plain.say"
        await send_message(client, message)
        [only] = await receive_until_closed(client)
    assert (only["event"], only["data"]["error"], only["data"]["transport"]) == ("error", "not_implemented", "sse")


@pytest.mark.parametrize("name", ["no.such", "NO such", "x" * 300])
async def test_what_there_is_not_ends_in_one_error(scene: Scene, name: str) -> None:
    async with socket_to(scene[0]) as client:
        message = call()
        message["envelope"]["capability"] = name
        await send_message(client, message)
        [only] = await receive_until_closed(client)
    assert only["event"] == "error"
    assert only["data"]["error"] in ("not_found", "bad_request")


# ── the window ───────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("hearthnet.websocket")
async def test_no_more_than_a_window_of_frames_is_sent_until_some_are_acknowledged(scene: Scene) -> None:
    async with socket_to(scene[0]) as client:
        await send_message(client, call(to=40))
        seen = [(await receive_message(client))["seq"] for _ in range(16)]
        await send_message(client, {"type": "tool_result", "tool_call_id": "none", "body": {}})
        assert (await receive_message(client))["type"] == "refused"  # and no 17th frame was sent before it
        await send_message(client, {"type": "ack", "upto": 10})
        seen += [(await receive_message(client))["seq"] for _ in range(10)]
        await send_message(client, {"type": "tool_result", "tool_call_id": "none", "body": {}})
        assert (await receive_message(client))["type"] == "refused"
        await send_message(client, {"type": "ack", "upto": 26})
        seen += [each["seq"] for each in await receive_until_closed(client)]
    assert seen == list(range(1, 42))


async def test_who_acknowledges_nothing_is_cut_off_and_the_call_ends() -> None:
    bus, counting = counting_bus()
    async with bus, served(bus, limits=ServerLimits(sockets=BRIEF, grace=0.2)) as url, socket_to(url) as client:
        await send_message(client, call(to=1_000))
        heard = await receive_until_closed(client, ack=False)
        await asyncio.wait_for(counting.cancelled.wait(), 20)
    assert [each["seq"] for each in heard] == [1, 2, 3, 4, 5]
    assert (heard[-1]["data"]["error"], heard[-1]["data"]["local"]) == ("timeout", "ack_timeout")
    assert client.close_code == 1008


@pytest.mark.parametrize("ack", [-1, 3, 2**60, 1.5, "2", None], ids=str)
async def test_an_ack_of_what_was_not_sent_is_no_frame(scene: Scene, ack: Any) -> None:
    async with socket_to(scene[0]) as client:
        await send_message(client, call(to=5, wait=3))
        assert [(await receive_message(client))["seq"] for _ in range(2)] == [1, 2]
        await send_message(client, {"type": "ack", "upto": ack})
        heard = await receive_until_closed(client)
    assert (heard[-1]["event"], heard[-1]["data"]["local"]) == ("error", "bad_frame")
    assert client.close_code == 1002


async def test_an_ack_never_goes_back(scene: Scene) -> None:
    async with socket_to(scene[0]) as client:
        await send_message(client, call(to=5, wait=3))
        assert [(await receive_message(client))["seq"] for _ in range(2)] == [1, 2]
        for upto in (2, 2, 1):
            await send_message(client, {"type": "ack", "upto": upto})
        heard = await receive_until_closed(client)
    assert heard[-1]["data"]["local"] == "bad_frame"


# ── what is no message ───────────────────────────────────────────────────────────────

GARBAGE = {
    "no JSON": "{",
    "a number": "1",
    "a list": "[]",
    "no type": "{}",
    "another type": '{"type":"dance"}',
    "a second call": json.dumps(call()),
    "a field too many": '{"type":"cancel","why":"so"}',
    "binary": b"\x00\x01",
    "deep": '{"type":"tool_result","tool_call_id":"x","body":' + "[" * 5_000 + "]" * 5_000 + "}",
    "twice the same key": '{"type":"ack","upto":1,"upto":1}',
    "half a character": '{"type":"tool_result","tool_call_id":"x","body":"\\ud800"}',
}


@pytest.mark.parametrize("message", GARBAGE.values(), ids=list(GARBAGE))
async def test_garbage_in_mid_stream_ends_the_call_with_an_error(scene: Scene, message: str | bytes) -> None:
    url, _bus, counting = scene
    async with socket_to(url) as client:
        await send_message(client, call(to=5, wait=2))
        await receive_message(client)
        await send_message(client, message)
        heard = await receive_until_closed(client)
        await asyncio.wait_for(counting.cancelled.wait(), 20)
    assert [(each["event"], each["data"]["error"], each["data"]["local"]) for each in heard] == [
        ("error", "bad_request", "bad_frame")
    ]
    assert client.close_code == 1002


FIRST = {
    **{name: said for name, said in GARBAGE.items() if name != "a second call"},
    "an ack": '{"type":"ack","upto":0}',
    "an envelope that is none": '{"type":"call","envelope":{}}',
    "a field that no envelope has": '{"type":"call","envelope":{"capability":"count.up","colour":"red"}}',
    "a version that is none": '{"type":"call","envelope":{"capability":"count.up","version":"x"}}',
}


@pytest.mark.parametrize("message", FIRST.values(), ids=list(FIRST))
async def test_a_first_message_that_is_no_call_is_answered_with_one_error(scene: Scene, message: str | bytes) -> None:
    url, bus, counting = scene
    async with socket_to(url) as client:
        await send_message(client, message)
        [only] = await receive_until_closed(client)
    assert (only["event"], only["data"]["error"], only["seq"]) == ("error", "bad_request", 1)
    assert client.close_code in (1002, 1008)
    assert (counting.runs, bus.under_way) == (0, 0)


async def test_a_message_that_is_too_large_closes_the_socket_and_ends_the_call() -> None:
    bus, counting = counting_bus()
    async with bus, served(bus, limits=ServerLimits(body=10_000, linger=0, grace=0.2)) as url, socket_to(url) as client:
        await send_message(client, call(to=5, wait=2))
        await receive_message(client)
        await send_message(client, {"type": "tool_result", "tool_call_id": "x", "body": "y" * 20_000})
        await receive_until_closed(client)
        await asyncio.wait_for(counting.cancelled.wait(), 20)
    assert client.close_code == 1009


# ── time ─────────────────────────────────────────────────────────────────────────────


async def test_a_socket_that_never_says_what_it_wants_is_closed() -> None:
    bus, _counting = counting_bus()
    async with bus, served(bus, limits=ServerLimits(sockets=BRIEF, grace=0.2)) as url, socket_to(url) as client:
        [only] = await receive_until_closed(client)
    assert (only["data"]["error"], only["data"]["local"]) == ("timeout", "idle_timeout")


async def test_a_socket_on_which_nothing_happens_is_closed_as_normal_and_the_call_can_be_taken_up() -> None:
    bus, counting = counting_bus()
    async with bus, served(bus, limits=ServerLimits(sockets=BRIEF, linger=60, grace=0.2)) as url:
        async with socket_to(url) as client:
            await send_message(client, call(to=2, wait=2))
            assert [each["seq"] for each in await receive_until_closed(client)] == [1]
        assert (client.close_code, client.close_reason) == (1000, "idle_timeout")
        counting.go.set()
        async with socket_to(url) as client:
            await send_message(client, {"type": "resume", "request_id": "r-1", "after": 1})
            assert [(each["event"], each["seq"]) for each in await receive_until_closed(client)] == [
                ("token", 2),
                ("done", 3),
            ]
    assert counting.runs == 1


# ── who comes back ───────────────────────────────────────────────────────────────────


@pytest.mark.requirement("hearthnet.websocket")
async def test_who_was_cut_off_takes_the_stream_up_after_the_last_frame_it_has() -> None:
    bus, counting = counting_bus()
    async with bus, served(bus, limits=ServerLimits(linger=60, grace=0.2)) as url:
        async with socket_to(url) as client:
            await send_message(client, call(to=6, wait=4))
            assert [(await receive_message(client))["seq"] for _ in range(3)] == [1, 2, 3]
            reset_connection(client)
        counting.go.set()
        async with socket_to(url) as client:
            await send_message(client, {"type": "resume", "request_id": "r-1", "after": 2})
            heard = await receive_until_closed(client)
    assert [each["seq"] for each in heard] == [3, 4, 5, 6, 7]
    assert [each["data"].get("text") for each in heard] == ["3", "4", "5", "6", None]
    assert counting.runs == 1


async def test_a_call_with_the_id_of_one_that_runs_is_the_same_call(scene: Scene) -> None:
    url, _bus, counting = scene
    async with socket_to(url) as one, socket_to(url) as two:
        await send_message(one, call(to=3, wait=2))
        await receive_message(one)
        await send_message(two, call(to=3, wait=2))
        assert (await receive_message(two))["seq"] == 1
        counting.go.set()
        assert (
            [each["seq"] for each in await receive_until_closed(one)]
            == [each["seq"] for each in await receive_until_closed(two)]
            == [2, 3, 4]
        )
    assert counting.runs == 1


async def test_a_socket_that_its_client_left_without_a_word_does_not_end_the_call_that_it_took_up_again() -> None:
    """Its network changed: the old connection stays open, and nothing on it is acknowledged any more."""
    bus, counting = counting_bus()
    limits = ServerLimits(sockets=SocketLimits(window=4, ack_seconds=0.1), linger=0, grace=0.2)
    async with bus, served(bus, limits=limits) as url, socket_to(url) as old, socket_to(url) as new:
        await send_message(old, call(to=30, wait=10))
        assert [(await receive_message(old))["seq"] for _ in range(4)] == [1, 2, 3, 4]
        await send_message(new, {"type": "resume", "request_id": "r-1", "after": 4})
        seen = [await receive_message(new) for _ in range(4)]
        await send_message(new, {"type": "ack", "upto": 8})
        assert (await receive_until_closed(old, ack=False))[-1]["data"]["local"] == "ack_timeout"
        counting.go.set()
        seen += await receive_until_closed(new)
    assert [each["seq"] for each in seen] == list(range(5, 32))
    assert (seen[-1]["event"], counting.runs, counting.cancelled.is_set()) == ("done", 1, False)


@pytest.mark.parametrize("after", [1, 5])
async def test_a_stream_that_nobody_knows_is_not_begun_again_in_its_middle(scene: Scene, after: int) -> None:
    url, _bus, counting = scene
    async with socket_to(url) as client:
        message = call("r-9")
        await send_message(
            client, {"type": "resume", "request_id": "r-9", "after": after, "envelope": message["envelope"]}
        )
        [only] = await receive_until_closed(client)
    assert (only["event"], only["data"]["error"], only["seq"]) == ("error", "partition", after + 1)
    assert only["data"]["outcome"] == "failed"  # counting can be done again
    assert counting.runs == 0


@pytest.mark.parametrize("side_effects", [True, False])
async def test_a_call_that_was_put_to_another_process_is_begun_only_if_that_does_no_harm(side_effects: bool) -> None:
    bus, counting = CapabilityBus(), CountingCapability()
    told = CapabilityDescriptor(name="count.up", stream_schema={"token": {"type": "object"}}, side_effects=side_effects)
    bus.register(told, counting)
    async with bus, served(bus) as url, socket_to(url) as client:
        await send_message(
            client, {"type": "resume", "request_id": "r-1", "after": 0, "envelope": call(to=1)["envelope"]}
        )
        last = (await receive_until_closed(client))[-1]
    if side_effects:
        assert (last["data"]["error"], last["data"]["outcome"], counting.runs) == ("partition", "in_doubt", 0)
    else:
        assert (last["event"], counting.runs) == ("done", 1)
