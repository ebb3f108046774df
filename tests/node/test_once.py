"""One id is one call, wherever it goes and however it ends: who asks again is told what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from handrail import CapabilityBus, Invocation, Policy, tool
from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import Caller, CallTerms, RouteRequest
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.capability_tools import bus_policy
from handrail.testing.clock import FixedClock
from tests.contracts.bus_contract import (
    PATIENCE,
    TOKENS,
    HeldHandler,
    body_schema,
    echo,
    failure,
    frames_of,
    never,
    offer,
    within_patience,
)
from tests.node.example_buses import Node, asked, caller

EFFECT = {"side_effects": True, "timeout_seconds": PATIENCE}


class Refusing:
    """An admission that refuses so often, before anything runs."""

    def __init__(self, error: BusError, times: int = 1) -> None:
        self.error = error
        self.left = times

    async def admit(
        self, caller: Caller, token: Secret | None, descriptor: CapabilityDescriptor, body: Mapping[str, Any]
    ) -> Caller:
        if self.left:
            self.left -= 1
            raise self.error
        return caller


@asynccontextmanager
async def connected(*nodes: CapabilityBus, **options: Any) -> AsyncIterator[CapabilityBus]:
    async with CapabilityBus(node_id="here", **options) as here:
        for node in nodes:
            await here.connect(node)
        yield here
    for node in nodes:
        await node.aclose()


# ── one node ─────────────────────────────────────────────────────────────────────────────


async def test_a_call_that_is_under_way_here_is_not_sent_elsewhere_when_it_is_asked_for_again() -> None:
    held, far = HeldHandler(), Node("far", "bank.pay", facts=EFFECT)
    async with within_patience(), connected(far) as here:
        offer(here, "bank.pay", held, max_concurrent=1, **EFFECT)
        first = asyncio.create_task(here.call("bank.pay", (1, 0), {}, call_id="p-1"))
        await held.begun.wait()
        second = asyncio.create_task(here.call("bank.pay", (1, 0), {}, call_id="p-1"))
        other = await asked(here, "bank.pay", call_id="p-2")  # this node is full: another call does go there
        held.release.set()

        assert [(await each)["output"] for each in (first, second)] == [{"runs": 1}] * 2
    assert (other, held.runs, far.runs) == ("far", 1, 1)


async def test_a_call_that_went_elsewhere_is_asked_for_there_again() -> None:
    one, two = Node("one", "bank.pay", facts=EFFECT), Node("two", "bank.pay", facts=EFFECT)
    async with connected(one, two) as here:
        went = await asked(here, "bank.pay", call_id="p-1")
        offer(here, "bank.pay", never, **EFFECT)  # which is near, and would be asked first

        assert await asked(here, "bank.pay", call_id="p-1") == went
    assert one.runs + two.runs == 1


async def test_of_two_at_once_the_second_goes_where_the_first_was_taken() -> None:
    """The first finds no room on one node and goes to another; meanwhile there is room again."""
    full = BusError("capacity_exceeded", "full", outcome="limit")
    one, two = Node("one", "bank.pay", facts=EFFECT, admission=Refusing(full)), Node("two", "bank.pay", facts=EFFECT)
    async with within_patience(), connected(one, two) as here:
        found = await asyncio.gather(*(asked(here, "bank.pay", call_id="p-1") for _ in range(4)))

    assert found == ["two"] * 4
    assert (one.runs, two.runs) == (0, 1)


async def test_if_the_node_that_had_it_is_gone_nobody_knows() -> None:
    one, two = Node("one", "bank.pay", facts=EFFECT), Node("two", "bank.pay", facts=EFFECT)
    async with connected(one, two) as here:
        went = await asked(here, "bank.pay", call_id="p-1")
        await here.disconnect(one if went == "one" else two)
        error = await failure(here, "bank.pay", call_id="p-1")

        assert (error.code, error.outcome) == ("partition", "in_doubt")
        assert await asked(here, "bank.pay", call_id="p-2") != went


async def test_what_was_surely_not_begun_may_go_anywhere_when_it_comes_again() -> None:
    full = BusError("capacity_exceeded", "full", outcome="limit")
    nodes = [Node(name, "bank.pay", facts=EFFECT, admission=Refusing(full)) for name in ("one", "two")]
    async with connected(*nodes) as here:
        assert (await failure(here, "bank.pay", call_id="p-1")).code == "capacity_exceeded"
        assert await asked(here, "bank.pay", call_id="p-1") in ("one", "two")
    assert sum(node.runs for node in nodes) == 1


async def test_a_side_effect_that_comes_back_by_another_node_is_refused_at_once() -> None:
    async with within_patience(), CapabilityBus(node_id="a") as a, CapabilityBus(node_id="b") as b:
        async with Node("c", "bank.pay", facts=EFFECT) as c:
            for bus, others in ((a, (c,)), (b, (c, a)), (a, (b,))):
                for other in others:
                    await bus.connect(other)
            await a.disconnect(c)
            await b.disconnect(c)  # now each knows it only from the other, and nobody has it

            assert (await failure(a, "bank.pay", call_id="p-1")).code == "partition"
        assert c.runs == 0


async def test_nodes_that_are_all_full_say_so_though_they_send_a_call_round() -> None:
    held, nodes = HeldHandler(), [CapabilityBus(node_id=name) for name in "abc"]
    async with within_patience(), AsyncExitStack() as stack:
        for node in nodes:
            await stack.enter_async_context(node)
            offer(node, "bank.pay", held, max_concurrent=1, **EFFECT)
        busy = [asyncio.create_task(node.call("bank.pay", (1, 0), {})) for node in nodes]
        await held.reach(3)
        for node, other in zip(nodes, nodes[1:] + nodes[:1], strict=True):
            await node.connect(other)

        error = await failure(nodes[0], "bank.pay", call_id="p-1")
        held.release.set()
        await asyncio.wait(busy)

        assert (error.code, held.runs) == ("capacity_exceeded", 3)
        assert (await nodes[0].call("bank.pay", (1, 0), {}, call_id="p-1"))["output"] == {"runs": 4}


async def test_which_node_had_a_call_is_known_for_ten_minutes() -> None:
    clock = FixedClock()
    far = Node("far", "bank.pay", facts=EFFECT, clock=clock)
    async with connected(far, clock=clock) as here:
        assert await asked(here, "bank.pay", call_id="p-1") == "far"
        offer(here, "bank.pay", echo, **EFFECT)
        clock.advance(601)

        assert (await here.call("bank.pay", (1, 0), {"input": {"a": 1}}, call_id="p-1"))["output"] == {"a": 1}


# ── how it ended ─────────────────────────────────────────────────────────────────────────


async def test_an_effect_that_was_done_though_its_caller_had_gone_is_told_as_done() -> None:
    begun = asyncio.Event()

    async def stubborn(request: RouteRequest) -> dict[str, Any]:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return {"output": {"paid": True}}
        raise AssertionError

    async with within_patience(), CapabilityBus() as bus:
        offer(bus, "bank.pay", stubborn, **EFFECT)
        first = asyncio.create_task(bus.call("bank.pay", (1, 0), {}, call_id="p-1"))
        await begun.wait()
        first.cancel()
        await asyncio.wait({first})

        assert first.cancelled()
        assert (await bus.call("bank.pay", (1, 0), {}, call_id="p-1"))["output"] == {"paid": True}


@pytest.mark.parametrize("code", ["rate_limited", "capacity_exceeded"])
async def test_a_read_that_is_told_to_come_later_runs_when_it_does(code: str) -> None:
    runs: list[int] = []

    async def busy(request: RouteRequest) -> dict[str, Any]:
        runs.append(1)
        if len(runs) < 3:
            raise BusError(code, "later", retry_after_ms=7)
        return {"output": {"runs": len(runs)}}

    async with CapabilityBus() as bus:
        offer(bus, "text.busy", busy)
        errors = [await failure(bus, "text.busy", call_id="c-1") for _ in range(2)]
        found = [(await bus.call("text.busy", (1, 0), {}, call_id="c-1"))["output"] for _ in range(2)]

    assert [(error.code, error.retry_after_ms) for error in errors] == [(code, 7)] * 2
    assert found == [{"runs": 3}] * 2


async def test_a_tool_that_knows_its_calls_by_their_key_is_not_run_again_with_another() -> None:
    keys: list[str] = []
    begun = asyncio.Event()

    @tool(side_effects=True, idempotent=True)
    async def pay(invocation: Invocation) -> str:
        """Pay."""
        keys.append(invocation.idempotency_key)
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with within_patience(), CapabilityBus() as bus:
        bus.register_tool(pay, name="bank.pay")
        first = asyncio.create_task(bus.call("bank.pay", (1, 0), {"input": {}}, call_id="p-1"))
        await begun.wait()
        first.cancel()
        await asyncio.wait({first})
        error = await failure(bus, "bank.pay", {"input": {}}, call_id="p-1")

    assert (error.code, len(keys)) == ("cancelled", 1)
    assert "may have taken effect" in error.message


async def test_who_asks_for_a_call_under_way_waits_no_longer_than_they_said() -> None:
    held = HeldHandler()
    async with within_patience(), CapabilityBus() as bus:
        offer(bus, "slow.wait", held, timeout_seconds=PATIENCE)
        first = asyncio.create_task(bus.call("slow.wait", (1, 0), {}, call_id="c-1"))
        await held.begun.wait()
        error = await failure(bus, "slow.wait", call_id="c-1", timeout_seconds=0.01)
        held.release.set()

        assert (error.code, (await first)["output"]) == ("timeout", {"runs": 1})


@pytest.mark.parametrize("far", [False, True], ids=["here", "on another node"])
async def test_a_stream_that_is_asked_for_again_gives_what_it_gave(far: bool) -> None:
    async def told(request: RouteRequest) -> dict[str, Any]:
        await request.send("token", {"text": "once"})
        return {"output": {"text": "once"}}

    node = CapabilityBus(node_id="far")
    async with connected(node) as here:
        offer(node if far else here, "text.tell", told, stream_schema=TOKENS, **EFFECT)
        await here.connect(node)
        first, second = [await frames_of(here.stream("text.tell", (1, 0), {}, call_id="t-1")) for _ in range(2)]
        third = await here.call("text.tell", (1, 0), {}, call_id="t-1")

    assert [frame.event for frame in first] == ["token", "done"]
    assert [(frame.event, frame.data.get("text")) for frame in second] == [("result", "once"), ("done", None)]
    assert third["output"] == {"text": "once"}


# ── on whose behalf ──────────────────────────────────────────────────────────────────────


async def test_a_program_is_itself_on_its_own_bus_and_a_member_on_another_of_the_same_process() -> None:
    async def who(request: RouteRequest) -> dict[str, Any]:
        return {"output": {"id": request.caller.id, "trust": request.caller.trust}}

    there = CapabilityBus(node_id="there")
    for name, trust in (("who.am_i", "member"), ("who.owns", "self")):
        there.register(CapabilityDescriptor(name=name, trust_required=trust), who)  # type: ignore[arg-type]
    async with connected(there) as here:
        found = (await here.call("who.am_i", (1, 0), {}))["output"]
        refused = await failure(here, "who.owns")
        ann = (await here.call("who.am_i", (1, 0), {}, caller=caller("ann")))["output"]

    assert found == {"id": "here", "trust": "member"}
    assert refused.code == "unauthorized"
    assert ann["id"] == "ann"


class Constrained:
    """An admission that looks at what a schema says of the body, and counts."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def admit(
        self, caller: Caller, token: Secret | None, descriptor: CapabilityDescriptor, body: Mapping[str, Any]
    ) -> Caller:
        self.seen.append(descriptor.full_name)
        if "folder" in descriptor.request_schema["properties"]["input"]["properties"]:
            raise BusError("token_scope_insufficient", "not this folder", outcome="forbidden")
        return caller


async def test_another_provider_that_reads_the_body_otherwise_is_not_asked_without_the_right() -> None:
    full, admission = BusError("capacity_exceeded", "full", outcome="limit"), Constrained()
    plain, wider = body_schema(name={"type": "string"}), body_schema(folder={"type": "string"})
    one = Node("one", facts={"request_schema": plain}, admission=Refusing(full))
    two = Node("two", facts={"request_schema": wider})
    async with connected(one, two, admission=admission) as here:
        error = await failure(here, "work.do", {"input": {"name": "a"}}, caller=caller("ann"))

    assert error.code == "capacity_exceeded"  # of the one that it may ask, which has room later
    assert (one.runs, two.runs) == (0, 0)
    assert len(admission.seen) == 2


async def test_another_provider_that_is_something_else_does_not_hide_that_the_right_one_is_full() -> None:
    full = BusError("capacity_exceeded", "full", outcome="limit")
    one = Node("one", facts={"request_schema": body_schema()}, admission=Refusing(full))
    two = Node("two", facts={"request_schema": {"type": "object"}})
    meant = one.registry.of("work.do")[0].descriptor.schema_hash
    async with connected(one, two) as here:
        error = await failure(here, "work.do", {"input": {}}, schema_hash=meant)

        assert (error.code, two.runs) == ("capacity_exceeded", 0)
        assert await asked(here, body={"input": {}}, schema_hash=meant) == "one"


# ── deadlines and answers on the way ─────────────────────────────────────────────────────


class Slow(CapabilityBus):
    """A node that cannot be reached, which takes a while to find out."""

    deadlines: list[float | None]

    async def call(self, capability: str, version_req: Any, body: Mapping[str, Any], **how: Any) -> dict[str, Any]:
        self.deadlines.append(CallTerms.of(how).deadline)
        assert CallTerms.of(how).timeout_seconds is None
        raise BusError("partition", "no route")


async def test_all_who_are_asked_share_the_time_of_the_caller() -> None:
    nodes = [Slow(node_id=name) for name in ("one", "two")]
    for node in nodes:
        node.deadlines = []
        offer(node, "work.do", never)
    async with connected(*nodes) as here:
        assert (await failure(here, "work.do", timeout_seconds=5)).code == "partition"

    assert nodes[0].deadlines == nodes[1].deadlines != [None]


async def test_answers_go_to_the_provider_that_asks_also_if_another_failed_before() -> None:
    async def asks(request: RouteRequest) -> dict[str, Any]:
        await request.send("tool_call", {"id": "t-1", "name": "look", "arguments": {}})
        return {"output": {"said": (await request.answer("t-1"))["body"]}}

    facts: dict[str, Any] = {"stream_schema": {"tool_call": {"type": "object"}}}
    door = Refusing(BusError("partition", "no route"), times=0)
    far = CapabilityBus(node_id="far", admission=door)
    offer(far, "chat.ask", echo, **facts)
    async with within_patience(), connected(far) as here:
        await here.call("chat.ask", (1, 0), {}, session_id="s")
        offer(here, "chat.ask", asks, **facts)
        door.left = 1  # where the session was before, nobody can be reached now
        frames: list[StreamFrame] = []
        async with here.stream("chat.ask", (1, 0), {}, interactive=True, session_id="s") as stream:
            async for frame in stream:
                frames.append(frame)
                if frame.event == "tool_call":
                    await stream.tool_result("t-1", "yes")

    assert [frame.event for frame in frames] == ["tool_call", "done"]
    assert door.left == 0


async def test_who_is_left_alone_for_failing_still_tells_what_became_of_a_call() -> None:
    async def pay(request: RouteRequest) -> dict[str, Any]:
        if request.input:
            raise ValueError
        return {"output": {"paid": True}}

    async with CapabilityBus() as bus:
        offer(bus, "bank.pay", pay, **EFFECT)
        paid = await bus.call("bank.pay", (1, 0), {}, call_id="p-1")
        for n in range(9):
            await failure(bus, "bank.pay", {"input": {"n": n}}, call_id=f"p-2{n}")

        assert (await failure(bus, "bank.pay", call_id="p-3")).code == "partition"
        assert (await failure(bus, "bank.pay", call_id="p-1", caller=caller("ann"))).code == "partition"
        assert (await bus.call("bank.pay", (1, 0), {}, call_id="p-1"))["output"] == paid["output"]


def test_a_handler_that_ignores_its_end_keeps_nobody_for_long() -> None:
    assert bus_policy(Policy(), 6, asks=False).cancel_grace < 0.2
    assert bus_policy(Policy(cancel_grace=0.05), 6, asks=False).cancel_grace == 0.05
