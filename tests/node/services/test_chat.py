"""Messages between people on one node, between nodes, and while the other is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import BusError
from handrail.node.bus.interfaces import CallStream, CapabilityOffer
from handrail.node.bus.request import Caller
from handrail.node.capability_bus import CapabilityBus
from handrail.node.services.chat import ChatService
from handrail.node.services.event_log import EventDraft, EventLog
from handrail.testing.clock import FixedClock
from tests.node.services.service_calls import ANNA, BEN, ask, refusal, somebody

HELLO = {"recipient": BEN.id, "body": "Hi, hast du heute Strom?"}


class Node:
    def __init__(self, node_id: str, path: Path | None = None) -> None:
        self.id = node_id
        self.bus = CapabilityBus(node_id=node_id)
        self.log = EventLog(path)
        self.chat = ChatService(self.log, node_id=node_id, bus=self.bus)
        self.bus.register_service(self.chat)
        self.heard: list[dict[str, Any]] = []

    async def hear(self, message: dict[str, Any]) -> None:
        self.heard.append(message)

    async def history(self, who: Caller | None = None, **asked: Any) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = (await ask(self.bus, "chat.history", asked, who=who))["messages"]
        return messages


class Wire:
    """What a door makes of a call from another node: its caller is the node that signed it, whatever was passed."""

    def __init__(self, to: Node, signer: str) -> None:
        self.to, self.node_id, self.up = to, to.id, True
        self._signer = somebody(signer)

    async def call(self, capability: str, version_req: Any, body: Mapping[str, Any], **how: Any) -> dict[str, Any]:
        if not self.up:
            raise BusError("partition", "the wire is cut")
        return await self.to.bus.call(capability, version_req, body, **{**how, "caller": self._signer})

    def stream(self, *args: Any, **how: Any) -> CallStream:
        raise NotImplementedError

    async def discover(self, name: str | None = None) -> Sequence[CapabilityOffer]:
        return await self.to.bus.discover(name)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    made = Node("ed25519:one")
    async with made.bus:
        yield made
    made.log.close()


@pytest.fixture
async def other() -> AsyncIterator[Node]:
    made = Node("ed25519:two")
    async with made.bus:
        yield made
    made.log.close()


async def test_a_message_to_somebody_who_listens_here_is_direct(node: Node) -> None:
    await node.chat.listen(BEN.id, node.hear)
    sent = await ask(node.bus, "chat.send", HELLO)

    assert sent["delivered"] == "direct"
    (heard,) = node.heard
    assert (heard["from"], heard["to"], heard["body"]) == (ANNA.id, BEN.id, HELLO["body"])
    assert heard["event_id"] == sent["event_id"]


async def test_a_message_waits_until_its_recipient_listens_and_is_then_heard_once(node: Node) -> None:
    assert (await ask(node.bus, "chat.send", HELLO))["delivered"] == "queued"

    stop = await node.chat.listen(BEN.id, node.hear)
    stop()
    await node.chat.listen(BEN.id, node.hear)
    assert [each["body"] for each in node.heard] == [HELLO["body"]]


async def test_the_same_client_id_sends_once_and_another_text_under_it_is_refused(node: Node) -> None:
    await node.chat.listen(BEN.id, node.hear)
    first = await ask(node.bus, "chat.send", {**HELLO, "client_id": "c"})
    again = await ask(node.bus, "chat.send", {**HELLO, "client_id": "c"})
    refused = await refusal(node.bus, "chat.send", {**HELLO, "client_id": "c", "recipient": "ed25519:eve"})

    assert first == again
    assert len(node.heard) == 1
    assert refused.code == "bad_request"


async def test_the_same_message_sent_twice_at_once_is_heard_once(node: Node) -> None:
    await node.chat.listen(BEN.id, node.hear)
    sent = await asyncio.gather(*(ask(node.bus, "chat.send", {**HELLO, "client_id": "c"}) for _ in range(5)))

    assert len({each["event_id"] for each in sent}) == len(node.heard) == 1


async def test_a_listener_that_fails_leaves_the_message_in_the_queue(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(message: dict[str, Any]) -> None:
        raise RuntimeError("its screen is gone")

    stop = await node.chat.listen(BEN.id, broken)
    assert (await ask(node.bus, "chat.send", HELLO))["delivered"] == "queued"
    assert "a listener failed" in caplog.text
    stop()
    await node.chat.listen(BEN.id, node.hear)
    assert len(node.heard) == 1


async def test_a_message_to_another_node_is_forwarded_and_is_from_the_node_that_signed(node: Node, other: Node) -> None:
    await node.bus.connect(Wire(other, signer=node.id))
    await other.chat.listen(other.id, other.hear)
    of_the_node = await ask(node.bus, "chat.send", {"recipient": other.id, "body": "from the node"}, who=None)
    of_anna = await ask(node.bus, "chat.send", {"recipient": other.id, "body": "from Anna"})

    assert of_the_node["delivered"] == of_anna["delivered"] == "forwarded"
    assert [(each["from"], each.get("on_behalf_of"), each["body"]) for each in other.heard] == [
        (node.id, None, "from the node"),
        (node.id, ANNA.id, "from Anna"),
    ]
    assert other.heard[0]["lamport"] > of_the_node["lamport"]  # the clock has heard of the other one


async def test_what_could_not_be_forwarded_goes_when_the_wire_is_back_and_arrives_once(node: Node, other: Node) -> None:
    wire = Wire(other, signer=node.id)
    await node.bus.connect(wire)
    wire.up = False
    letter = {"recipient": other.id, "body": "a letter", "client_id": "c"}
    assert (await ask(node.bus, "chat.send", letter))["delivered"] == "queued"
    assert await node.chat.flush() == 0

    wire.up = True
    assert await node.chat.flush() == 1
    assert await node.chat.flush() == 0
    assert (await ask(node.bus, "chat.send", letter))["delivered"] == "forwarded"
    assert [each["body"] for each in await other.history()] == ["a letter"]


async def test_messages_that_cannot_go_do_not_hold_up_those_that_can(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.node.services.chat._AT_A_TIME", 2)
    for n in range(5):
        await ask(node.bus, "chat.send", {"recipient": "ed25519:nobody", "body": str(n)})
    await ask(node.bus, "chat.send", HELLO)
    node.chat._listeners[BEN.id] = [node.hear]

    assert await node.chat.flush() == 1
    assert [message["body"] for message in node.heard] == [HELLO["body"]]


async def test_a_delivery_that_comes_twice_is_one_message(node: Node) -> None:
    letter = {"event_id": "event_1", "lamport": 41, "body": "once"}
    for _ in range(2):
        receipt = await ask(node.bus, "chat.deliver", letter, {"recipient": node.id}, who=BEN)

    assert receipt["lamport"] == 42
    assert [(each["from"], each["body"]) for each in await node.history()] == [(BEN.id, "once")]


@pytest.mark.parametrize("lamport", [2**63 - 2, 2**53 - 1])
async def test_no_message_brings_the_clock_of_the_node_to_its_end(node: Node, lamport: int) -> None:
    far = {"event_id": "e", "lamport": lamport, "body": "x"}
    refused = await refusal(node.bus, "chat.deliver", far, {"recipient": node.id})

    assert refused.code == "bad_request"
    assert (await ask(node.bus, "chat.send", HELLO))["lamport"] == 1


async def test_a_long_talk_goes_on_and_forgets_its_oldest_messages_that_arrived_long_ago() -> None:
    clock = FixedClock(1_790_000_000_000)
    log = EventLog(most_per_author=2, clock=clock)
    old = [await log.add(EventDraft("k", "anna", id, {}, state="queued")) for id in "ab"]
    await log.settle(old[0][0].id, "direct")

    with pytest.raises(BusError) as refused:  # it may still be sent again
        await log.add(EventDraft("k", "anna", "c", {}))
    assert refused.value.code == "capacity_exceeded"
    clock.advance(8 * 86_400)
    await log.add(EventDraft("k", "anna", "c", {}))
    with pytest.raises(BusError):  # what never arrived is kept
        await log.add(EventDraft("k", "anna", "d", {}))
    log.close()


async def test_a_message_that_was_heard_is_not_heard_again_after_its_sender_went_away(node: Node) -> None:
    told = asyncio.Event()

    async def hear(message: dict[str, Any]) -> None:
        await node.hear(message)
        told.set()

    await node.chat.listen(BEN.id, hear)
    sending = asyncio.ensure_future(ask(node.bus, "chat.send", HELLO))
    await told.wait()
    sending.cancel()
    await asyncio.wait({sending})
    await node.chat.flush()

    assert len(node.heard) == 1


async def test_what_is_for_somebody_else_is_not_taken(node: Node) -> None:
    letter = {"event_id": "event_1", "lamport": 1, "body": "lost"}
    refused = await refusal(node.bus, "chat.deliver", letter, {"recipient": "ed25519:far"}, who=BEN)

    assert refused.code == "not_found"


async def test_history_is_for_the_node_itself_and_only_of_its_own_messages(node: Node) -> None:
    await ask(node.bus, "chat.send", HELLO)  # from Anna to Ben
    await ask(node.bus, "chat.send", {"recipient": BEN.id, "body": "mine"}, who=None)
    await ask(node.bus, "chat.send", {"recipient": node.id, "body": "to me"}, who=BEN)

    assert (await refusal(node.bus, "chat.history", who=somebody("ed25519:anna", "anchor"))).code == "unauthorized"
    assert [each["body"] for each in await node.history()] == ["mine", "to me"]
    assert [each["body"] for each in await node.history(limit=1)] == ["to me"]
    assert [each["body"] for each in await node.history(since_lamport=0, limit=1)] == ["mine"]
    assert await node.history(peer=ANNA.id) == []
    assert "delivered_at" in (await node.history())[1]


async def test_messages_are_there_after_a_restart(tmp_path: Path) -> None:
    first = Node("ed25519:one", tmp_path / "chat.sqlite")
    await ask(first.bus, "chat.send", HELLO)
    first.log.close()
    second = Node("ed25519:one", tmp_path / "chat.sqlite")
    await second.chat.listen(BEN.id, second.hear)

    assert [each["body"] for each in second.heard] == [HELLO["body"]]
    second.log.close()
