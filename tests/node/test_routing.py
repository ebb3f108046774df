"""Which node answers: near before far, the same for a session, nobody who fails, and another one where that is safe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Unpack

import pytest

from handrail import CapabilityBus
from handrail.core.canonical import canonical_json
from handrail.core.errors import BusError, UsageError
from handrail.node.bus.interfaces import CallOptions, CapabilityOffer
from handrail.node.bus.provider_health import LEAST
from handrail.node.bus.request import RouteRequest
from handrail.node.bus.stream_frame import StreamFrame
from handrail.testing.clock import FixedClock
from tests.contracts.bus_contract import PATIENCE, TOKENS, HeldHandler, echo, failure, frames_of, never, offer
from tests.node.example_buses import Node, asked, caller


class Scene:
    """This node, and others that it knows, under one clock."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.here = CapabilityBus(node_id="here", clock=self.clock)
        self.nodes: list[CapabilityBus] = [self.here]

    async def add(self, node_id: str, **options: Any) -> Node:
        node = Node(node_id, clock=self.clock, **options)
        self.nodes.append(node)
        await self.here.connect(node)
        return node


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    yield scene
    for node in scene.nodes:
        await node.aclose()


async def test_this_node_is_asked_before_others_unless_it_is_busy(scene: Scene) -> None:
    held = HeldHandler()
    far = await scene.add("far")
    offer(scene.here, "work.do", held, max_concurrent=5, timeout_seconds=PATIENCE)
    tasks = []
    for _ in range(4):  # then its load is 0.8
        held.begun.clear()
        tasks.append(asyncio.create_task(scene.here.call("work.do", (1, 0), {})))
        await held.begun.wait()

    assert await asked(scene.here) == "far"
    held.release.set()
    await asyncio.gather(*tasks)
    assert (held.runs, far.runs) == (4, 1)


@pytest.mark.parametrize("side_effects", [False, True], ids=["a read", "a side effect"])
async def test_a_full_node_sends_its_callers_elsewhere(scene: Scene, side_effects: bool) -> None:
    held = HeldHandler()
    one = await scene.add("one", facts={"max_concurrent": 1, "side_effects": side_effects})
    two = await scene.add("two", facts={"side_effects": side_effects})
    one.unregister("work.do", (1, 0))
    offer(one, "work.do", held, max_concurrent=1, timeout_seconds=PATIENCE, side_effects=side_effects)
    busy = asyncio.create_task(one.call("work.do", (1, 0), {}))  # of which this node does not know
    await held.begun.wait()

    assert {await asked(scene.here) for _ in range(4)} == {"two"}
    held.release.set()
    await busy
    assert two.runs == 4


async def test_a_node_that_is_closing_sends_even_a_side_effect_elsewhere(scene: Scene) -> None:
    one, two = [await scene.add(name, facts={"side_effects": True}) for name in ("one", "two")]
    await one.aclose()

    assert {await asked(scene.here) for _ in range(4)} == {"two"}
    assert (one.runs, two.runs) == (0, 4)


async def test_a_session_stays_where_it_was_until_it_was_idle_for_ten_minutes(scene: Scene) -> None:
    one, _ = await scene.add("one"), await scene.add("two")
    one.takes = 5.0
    ann: dict[str, Any] = {"session_id": "s", "caller": caller("ann")}
    assert await asked(scene.here, **ann) == "one"

    assert await asked(scene.here) == "two"  # by now the faster one
    assert await asked(scene.here, **ann) == "one"
    assert await asked(scene.here, session_id="s", caller=caller("bob")) == "two"
    scene.clock.advance(601)
    assert await asked(scene.here, **ann) == "two"


async def test_a_node_that_keeps_failing_is_left_alone_for_a_minute(scene: Scene) -> None:
    node = Node("here", clock=scene.clock)
    scene.nodes.append(node)
    far = Node("far", clock=scene.clock)
    scene.nodes.append(far)
    node.fails = BusError("internal_error", "out of order")
    for _ in range(5):
        assert (await failure(node, "work.do")).code == "internal_error"

    alone = await failure(node, "work.do")
    await node.connect(far)
    assert await asked(node) == "far"
    node.fails = None
    scene.clock.advance(59)
    assert await asked(node) == "far"
    scene.clock.advance(1)
    assert await asked(node) == "here"

    assert (alone.code, alone.retry_after_ms) == ("partition", 60_000)
    assert (node.runs, far.runs) == (6, 2)


async def test_what_callers_do_wrong_is_no_failure_of_the_node(scene: Scene) -> None:
    node = Node("node", clock=scene.clock)
    scene.nodes.append(node)
    for code in ("bad_request", "not_found", "rate_limited", "requires_confirmation", "cancelled"):
        node.fails = BusError(code, "no")
        for _ in range(6):
            assert (await failure(node, "work.do")).code == code
    held = HeldHandler()
    offer(node, "slow.wait", held, timeout_seconds=PATIENCE)
    for _ in range(6):
        assert (await failure(node, "slow.wait", timeout_seconds=0.001)).code == "timeout"


class EncodingNode(Node):
    """A node that is reached by a wire, which carries JSON."""

    async def call(
        self, capability: str, version_req: Any, body: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> dict[str, Any]:
        canonical_json(body)
        return await super().call(capability, version_req, body, **options)


async def test_what_cannot_be_sent_is_no_failure_of_the_node_it_was_for(scene: Scene) -> None:
    far = EncodingNode("far", clock=scene.clock)
    scene.nodes.append(far)
    await scene.here.connect(far)

    for _ in range(2 * LEAST):
        with pytest.raises(TypeError, match="not a JSON value"):
            await asked(scene.here, body={"input": {"when": object()}})

    assert await asked(scene.here) == "far"
    assert far.runs == 1


async def test_what_a_node_said_is_not_believed_for_longer_than_a_minute(scene: Scene) -> None:
    far = await scene.add("far")

    class Gone:
        """What is left of the other node: nothing that answers."""

        node_id = "far"

        async def discover(self, name: str | None = None) -> list[CapabilityOffer]:
            raise BusError("partition", "no route")

        call = far.call
        stream = far.stream

    await scene.here.disconnect(far)
    gone = Gone()
    discover, gone.discover = gone.discover, far.discover  # type: ignore[method-assign]
    await scene.here.connect(gone)
    gone.discover = discover  # type: ignore[method-assign]
    scene.clock.advance(60)
    assert await asked(scene.here) == "far"
    scene.clock.advance(1)

    assert (await failure(scene.here, "work.do")).code == "not_found"
    assert await scene.here.discover("work.do") == []


async def test_news_of_another_node_are_fetched_when_they_are_old(scene: Scene) -> None:
    far = await scene.add("far")
    offer(far, "late.come", echo)
    assert (await failure(scene.here, "late.come")).code == "not_found"
    scene.clock.advance(31)

    assert (await scene.here.call("late.come", (1, 0), {"input": {"a": 1}}))["output"] == {"a": 1}


async def test_providers_are_chosen_by_what_they_say_of_their_params(scene: Scene) -> None:
    await scene.add("small", facts={"params": {"model": "small", "modalities": ["text"]}})
    await scene.add("large", facts={"params": {"model": "large", "modalities": ["text", "vision"]}})

    async def own(request: RouteRequest) -> dict[str, Any]:
        return {"output": {"node": "here"}}

    scene.here.register(
        (await scene.here.discover("work.do"))[0].descriptor, own, lambda params: params["model"] == "own"
    )
    found = [await asked(scene.here, body={"params": {"model": name}}) for name in ("small", "large", "own")]

    assert found == ["small", "large", "here"]
    assert await asked(scene.here, body={"params": {"modalities": "vision"}}) == "large"
    assert (await failure(scene.here, "work.do", {"params": {"model": "none"}})).code == "not_found"


@pytest.mark.parametrize(
    ("error", "side_effects", "idempotent", "goes_on"),
    [
        (
            BusError("capacity_exceeded", "full", outcome="limit"),
            True,
            False,
            False,
        ),  # the handler said so: it had begun
        (BusError("capacity_exceeded", "full", outcome="limit"), True, True, True),
        (BusError("partition", "no route"), True, False, False),
        (BusError("partition", "no route"), False, False, True),
        (BusError("internal_error", "lost", outcome="in_doubt"), False, False, True),
        (BusError("internal_error", "lost", outcome="in_doubt"), True, True, True),
        (BusError("internal_error", "lost", outcome="in_doubt"), True, False, False),
        (BusError("partition", "lost", outcome="in_doubt"), True, False, False),
        (BusError("internal_error", "it broke"), False, False, False),
        (BusError("timeout", "slow", outcome="timeout"), False, False, False),
        (BusError("bad_request", "wrong", outcome="invalid_arguments"), False, False, False),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
async def test_another_node_is_asked_only_where_nothing_ran_or_it_may_run_again(
    scene: Scene, error: BusError, side_effects: bool, idempotent: bool, goes_on: bool, streaming: bool
) -> None:
    facts = {"side_effects": side_effects, "idempotent": idempotent}
    nodes = [await scene.add(name, facts=facts) for name in ("one", "two")]
    nodes[0].fails = error
    if streaming:
        frames = await frames_of(scene.here.stream("work.do", (1, 0), {}, call_id="c-1"))
        found = frames[0].data["node"] if frames[0].event == "result" else frames[-1].data["error"]
    else:
        try:
            found = await asked(scene.here, call_id="c-1")
        except BusError as raised:
            found = raised.code

    assert found == ("two" if goes_on else error.code)
    assert [node.runs for node in nodes] == [1, int(goes_on)]


@pytest.mark.parametrize("code", ["capacity_exceeded", "partition", "rate_limited"])
@pytest.mark.parametrize("far", [False, True], ids=["here", "on another node"])
async def test_a_side_effect_whose_handler_was_begun_is_made_nowhere_else_and_not_again(
    scene: Scene, code: str, far: bool
) -> None:
    """What was called on the way had no room: that says nothing about the effect that came before it."""
    paid: list[str] = []

    async def pay(request: RouteRequest) -> dict[str, Any]:
        paid.append(request.call_id)
        return await request.call("receipt.print", (1, 0), {})

    async def full(request: RouteRequest) -> dict[str, Any]:
        raise BusError(code, "no paper", outcome="limit", retry_after_ms=5)

    for node in ([] if far else [scene.here]) + [await scene.add(name) for name in ("one", "two")]:
        offer(node, "bank.pay", pay, side_effects=True)
        offer(node, "receipt.print", full)
        if node is not scene.here:
            await scene.here.connect(node)

    errors = [await failure(scene.here, "bank.pay", call_id="p-1") for _ in range(1 if far else 2)]

    assert [error.code for error in errors] == [code] * len(errors)
    assert paid == ["p-1"]


async def test_a_capability_that_lets_the_failures_of_others_through_is_not_left_alone_for_them(scene: Scene) -> None:
    async def breaks(request: RouteRequest) -> dict[str, Any]:
        raise ValueError

    async def through(request: RouteRequest) -> dict[str, Any]:
        return await request.call(request.input["to"], (1, 0), {})

    offer(scene.here, "work.through", through)
    offer(scene.here, "work.breaks", breaks)
    offer(scene.here, "work.well", echo)
    errors = [await failure(scene.here, "work.through", {"input": {"to": "work.breaks"}}) for _ in range(9)]

    assert [each.code for each in errors] == ["internal_error"] * 5 + ["partition"] * 4  # work.breaks is left alone
    assert all(BusError.from_dict(each.to_dict()).is_nested for each in errors)  # also on another node
    assert (await scene.here.call("work.through", (1, 0), {"input": {"to": "work.well"}}))["output"] == {}


async def test_a_stream_that_was_partly_read_is_not_started_again_elsewhere(scene: Scene) -> None:
    async def breaks(request: RouteRequest) -> dict[str, Any]:
        await request.send("token", {"text": "half"})
        raise BusError("partition", "gone")

    for name in ("one", "two"):
        node = await scene.add(name)
        offer(node, "text.breaks", breaks, stream_schema=TOKENS)
        await scene.here.connect(node)

    frames = await frames_of(scene.here.stream("text.breaks", (1, 0), {}))

    assert frames[0] == StreamFrame("token", {"text": "half"}, 1)
    assert [frame.event for frame in frames] == ["token", "error"]


async def test_what_another_node_does_is_told_as_its_own(scene: Scene) -> None:
    await scene.add("far")
    await asked(scene.here, caller=caller("ann"))

    (event,) = scene.here.recent_traces()

    assert (event.to_node, event.is_local, event.from_node) == ("far", False, "ann")
    assert scene.here.stats()["work.do@1.0"]["ok"] == 1
    assert [each["capability"] for each in scene.here.topology_snapshot()["nodes"]["far"]] == ["work.do@1.0"]


async def test_a_caller_has_no_more_rights_on_another_node_than_here(scene: Scene) -> None:
    far = await scene.add("far", facts={"trust_required": "trusted"})

    low = await failure(scene.here, "work.do", caller=caller("ann"))
    narrow = await failure(scene.here, "work.do", caller=caller("bob", "rag.*", trust="trusted"))
    within = await failure(scene.here, "work.do", caller=caller("bob", trust="trusted"), within=(("rag.*",),))

    assert [low.code, narrow.code, within.code] == [
        "unauthorized",
        "token_scope_insufficient",
        "token_scope_insufficient",
    ]
    assert far.runs == 0


async def test_nodes_that_know_each_other_do_not_send_a_call_round_for_ever() -> None:
    async with CapabilityBus(node_id="a") as a, CapabilityBus(node_id="b") as b, Node("c") as c:
        await a.connect(c)
        await b.connect(c)
        await a.connect(b)
        await b.connect(a)
        await a.disconnect(c)
        await b.disconnect(c)  # now each knows it only from the other, and nobody has it

        error = await failure(a, "work.do")

    assert error.code == "bad_request"
    assert c.runs == 0


async def test_two_nodes_of_one_name_cannot_be_connected() -> None:
    async with CapabilityBus() as here, Node("self") as there:
        with pytest.raises(UsageError, match="an id of its own"):
            await here.connect(there)


async def test_a_node_that_is_not_there_yet_joins_when_it_comes() -> None:
    class Late(Node):
        is_there = False

        async def discover(self, name: str | None = None) -> list[CapabilityOffer]:
            if not self.is_there:
                raise BusError("partition")
            return await super().discover(name)

    async with CapabilityBus() as here, Late("late") as late, Late("other") as other:
        for node, keep in ((late, True), (other, False)):
            with pytest.raises(BusError, match="partition"):
                await here.connect(node, keep=keep)
        late.is_there = other.is_there = True

        assert await asked(here) == "late"
        assert {offer.node_id for offer in await here.discover()} == {"late"}


async def test_a_network_in_which_only_we_are_can_be_kept() -> None:
    async with CapabilityBus() as here, Node("self") as there:
        await here.connect(there, keep=True)

        assert (await failure(here, "work.do")).code == "not_found"


async def test_a_node_that_was_disconnected_is_not_asked_any_more(scene: Scene) -> None:
    far = await scene.add("far")
    await scene.here.disconnect(far)

    assert (await failure(scene.here, "work.do")).code == "not_found"


async def test_of_several_minors_the_one_that_was_asked_for_is_taken_or_the_newest() -> None:
    async def version(request: RouteRequest) -> dict[str, Any]:
        return {"output": {"minor": request.version[1]}}

    async with CapabilityBus() as bus:
        for minor in (0, 1, 4):
            offer(bus, "text.minor", version, version=(1, minor))
        offer(bus, "text.minor", never, version=(2, 0))
        found = [(await bus.call("text.minor", (1, minor), {}))["output"]["minor"] for minor in range(5)]

    assert found == [0, 1, 4, 4, 4]
