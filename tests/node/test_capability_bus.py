"""The bus of one process: registering, the order of its checks, one record for each call, and what it tells of them."""

from __future__ import annotations

import asyncio
import logging
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from handrail import CapabilityBus, Context, Ensemble, Invocation, Policy, tool
from handrail.core.errors import BusError, InvalidDefinition, InvalidSchema, JournalError, UsageError
from handrail.core.events import CallIntended, CallSettled, RunFinished, RunStarted
from handrail.core.redact import Secret
from handrail.node.bus.call_trace import CallTraceEvent
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import NOBODY, OWN, Caller, RouteRequest
from handrail.testing.clock import FixedClock
from handrail.testing.journal import MemoryJournal
from tests.contracts.bus_contract import PATIENCE, TRACE, HeldHandler, body_schema, echo, failure, never, offer
from tests.node.example_buses import caller


async def code_of(bus: CapabilityBus, name: str, body: Any = None, **how: Any) -> str:
    return (await failure(bus, name, body, **how)).code


# ── registering ──────────────────────────────────────────────────────────────────────────


async def test_a_capability_is_registered_once_and_may_come_again_after_it_was_taken_away() -> None:
    async def other(request: RouteRequest) -> dict[str, Any]:
        return {"output": {"other": True}}

    async with CapabilityBus() as bus:
        offer(bus, "text.echo", echo)
        assert (await bus.call("text.echo", (1, 0), {"input": {"a": 1}}))["output"] == {"a": 1}
        with pytest.raises(UsageError, match=r"text\.echo@1\.0 is registered already"):
            offer(bus, "text.echo", other)
        bus.unregister("text.echo", (1, 0))
        assert await code_of(bus, "text.echo") == "not_found"
        offer(bus, "text.echo", other)
        assert (await bus.call("text.echo", (1, 0), {}))["output"] == {"other": True}
        with pytest.raises(UsageError, match="not registered"):
            bus.unregister("text.other", (1, 0))


async def test_a_service_is_registered_whole_or_not_at_all() -> None:
    class Service:
        def capabilities(self) -> list[Any]:
            good = CapabilityDescriptor(name="text.echo")
            return [(good, echo), (CapabilityDescriptor(name="text.other"), echo, lambda params: False), (good, never)]

    async with CapabilityBus() as bus:
        with pytest.raises(UsageError):
            bus.register_service(Service())
        assert await bus.discover() == []


async def test_what_cannot_work_is_refused_when_it_is_registered() -> None:
    async with CapabilityBus() as bus:
        with pytest.raises(InvalidSchema):
            offer(bus, "text.echo", echo, request_schema={"type": "object", "properties": {"a": {"type": "nothing"}}})
        with pytest.raises(InvalidSchema):
            offer(bus, "text.echo", echo, stream_schema={"token": {"$ref": "http://example.org/schema"}})
        with pytest.raises(InvalidDefinition):
            offer(bus, "text.echo", echo, request_schema={"type": "array"})
        assert list(bus.registry) == []


@tool
def twice(text: str) -> str:
    """Say it twice."""
    return text * 2


async def test_a_tool_keeps_its_name_so_that_the_tools_of_its_group_can_call_it() -> None:
    @tool
    async def shout(text: str, invocation: Invocation) -> str:
        """Say it loud."""
        return str((await invocation.invoke("twice", {"text": text})).content).upper()

    async with CapabilityBus() as bus:
        for each in Ensemble("voice", tools=[twice, shout]).tools:
            bus.register_tool(each)
        names = sorted(offered.descriptor.full_name for offered in await bus.discover())
        response = await bus.call("voice.shout", (1, 0), {"input": {"text": "a"}})
        with pytest.raises(UsageError, match="called 'twice' already"):
            bus.register_tool(twice, name="other.twice")

    assert names == ["voice.shout@1.0", "voice.twice@1.0"]
    assert response["output"] == {"content": "AA"}


async def test_a_tool_in_a_process_runs_there_also_on_the_bus() -> None:
    async with CapabilityBus() as bus:
        bus.register_tool(twice.changed(isolation="process"), name="text.twice")
        response = await bus.call("text.twice", (1, 0), {"input": {"text": "ab"}}, timeout_seconds=PATIENCE)

    assert response["output"] == {"content": "abab"}


async def test_references_in_the_schema_of_a_tool_mean_the_same_in_that_of_its_capability() -> None:
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree"}, "default": {"$ref": "#/$defs/Tree"}},
        "required": ["tree"],
        "$defs": {
            "Tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
        },
    }

    @tool(schema=schema, style="context", output_schema={"$ref": "#/$defs/N", "$defs": {"N": {"type": "integer"}}})
    async def count(context: Any, arguments: dict[str, Any]) -> int:
        return len(arguments["tree"]["kids"])

    async with CapabilityBus() as bus:
        known = bus.register_tool(count)
        good: dict[str, Any] = {"input": {"tree": {"kids": [{"kids": []}]}}}
        bus.schema.validate_request(known, good)
        with pytest.raises(BusError) as wrong:
            bus.schema.validate_request(known, {"input": {"tree": {"kids": [{"kids": 7}]}, "default": 3}})
        response = await bus.call("tool.count", (1, 0), good)
        bus.schema.validate_response(known, response)
        with pytest.raises(BusError) as broken:
            bus.schema.validate_response(known, {"output": {"content": "x"}})

    assert (wrong.value.code, len(wrong.value.details["problems"])) == ("bad_request", 2)
    assert broken.value.code == "internal_error"


async def test_the_registry_finds_what_a_call_would_get() -> None:
    async with CapabilityBus() as bus:
        found = {version: offer(bus, "text.echo", echo, version=version) for version in ((1, 0), (1, 2), (2, 0))}

        assert bus.registry.find("text.echo", (1, 0)) is found[1, 0]
        assert bus.registry.find("text.echo", "1.1") is found[1, 2]
        assert bus.registry.find("text.echo", (3, 0)) is None


# ── the order of checks ──────────────────────────────────────────────────────────────────


class Door:
    """An admission that knows one token and counts who came."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def admit(
        self, caller: Caller, token: Secret | None, descriptor: CapabilityDescriptor, body: Mapping[str, Any]
    ) -> Caller:
        self.asked.append((caller.id, descriptor.full_name))
        if token != "good":
            raise BusError("token_invalid", "no such token")
        return Caller(principal=Context().principal, trust="member")


async def test_each_check_comes_before_the_next() -> None:
    """A call that is wrong in every way is refused for the first of them; put right, for the second, and so on."""
    held, door = HeldHandler(), Door()
    schema = body_schema(text={"type": "string"})
    async with CapabilityBus(admission=door, max_depth=3) as bus:
        known = offer(
            bus,
            "text.wait",
            held,
            request_schema=schema,
            trust_required="trusted",
            max_concurrent=1,
            timeout_seconds=PATIENCE,
        )
        good = {"input": {"text": "x"}}
        first = asyncio.create_task(bus.call("text.wait", (1, 0), good))
        await held.begun.wait()
        past = asyncio.get_running_loop().time() - 1
        how: dict[str, Any] = {
            "caller": NOBODY,
            "schema_hash": "other",
            "depth": 4,
            "deadline": past,
            "version": (2, 0),
        }
        wrong: dict[str, Any] = {"input": {"text": 7}}
        steps: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("text.none", wrong, {}),
            ("text.wait", wrong, {}),
            ("text.wait", wrong, {"version": (1, 0)}),
            ("text.wait", wrong, {"token": "good"}),
            ("text.wait", wrong, {"caller": OWN, "token": None}),
            ("text.wait", wrong, {"schema_hash": known.schema_hash}),
            ("text.wait", good, {}),
            ("text.wait", good, {"depth": 3}),
            ("text.wait", good, {"deadline": None}),
        ]
        seen = []
        for name, body, change in steps:
            how.update(change)
            error = await failure(bus, name, body, **how)
            seen.append((error.code, error.outcome))
        held.release.set()
        await first

    assert seen == [
        ("not_found", "unknown_tool"),
        ("schema_mismatch", "unknown_tool"),
        ("token_invalid", "failed"),
        ("unauthorized", "forbidden"),
        ("schema_mismatch", "failed"),
        ("bad_request", "invalid_arguments"),
        ("bad_request", "failed"),
        ("timeout", "timeout"),
        ("capacity_exceeded", "limit"),
    ]
    assert held.runs == 1


async def test_the_program_itself_needs_no_admission_and_its_token_goes_along_with_what_is_called_for_it() -> None:
    tokens: list[Secret | None] = []

    async def look(request: RouteRequest) -> dict[str, Any]:
        tokens.append(request.caller.token)
        if request.context.depth == 0:
            await request.call("token.look", (1, 0), {})
        return {"output": {}}

    door = Door()
    async with CapabilityBus(admission=door) as bus:
        offer(bus, "token.look", look)
        await bus.call("token.look", (1, 0), {})
        assert door.asked == []
        await bus.call("token.look", (1, 0), {}, caller=caller("ann"), token="good")

    assert tokens == [None, None, "good", "good"]
    assert [name for name, _ in door.asked] == ["ann", "local"]


@pytest.mark.parametrize("body", [[], "text", None, 7, {"input": []}, {"params": "x"}, {"input": "x"}])
@pytest.mark.parametrize("name", ["text.echo", "text.twice"])
async def test_a_body_that_is_not_an_object_of_objects_is_refused(name: str, body: Any) -> None:
    async with CapabilityBus() as bus:
        offer(bus, "text.echo", never)
        bus.register_tool(twice, name="text.twice")
        with pytest.raises(BusError) as refused:
            await bus.call(name, (1, 0), body)

    assert refused.value.code == "bad_request"


@pytest.mark.parametrize(
    "value",
    [float("nan"), {1, 2}, b"x", "\ud800", {3: 4}, 10**5000],
    ids=["NaN", "set", "bytes", "half a pair", "number as key", "digits"],
)
async def test_what_is_not_json_is_refused(value: Any) -> None:
    async with CapabilityBus() as bus:
        offer(bus, "text.echo", never)

        assert await code_of(bus, "text.echo", {"input": {"a": value}}, call_id="c-1") == "bad_request"


async def test_a_handler_may_change_the_body_that_it_gets() -> None:
    async def changes(request: RouteRequest) -> dict[str, Any]:
        request.input["a"] = 2
        return {"output": request.input}

    body = {"input": {"a": 1}}
    async with CapabilityBus() as bus:
        offer(bus, "text.change", changes)
        await bus.call("text.change", (1, 0), body)

    assert body == {"input": {"a": 1}}


@pytest.mark.parametrize(
    "response", [None, 3, {}, {"output": 3}, {"output": {}, "meta": []}, {"output": {"a": {1}}, "x": 1}]
)
async def test_a_handler_that_returns_no_response_is_an_error_of_the_node(response: Any) -> None:
    async def odd(request: RouteRequest) -> Any:
        return response

    async with CapabilityBus() as bus:
        offer(bus, "text.odd", odd)
        if response == {"output": {"a": {1}}, "x": 1}:  # a set is written as a list, as of any tool
            assert (await bus.call("text.odd", (1, 0), {}))["output"] == {"a": [1]}
        else:
            assert await code_of(bus, "text.odd") == "internal_error"


async def test_an_unforeseen_exception_is_logged_by_its_kind_and_place(caplog: pytest.LogCaptureFixture) -> None:
    async def breaks(request: RouteRequest) -> dict[str, Any]:
        raise KeyError(request.input["secret"])

    with caplog.at_level(logging.DEBUG):
        async with CapabilityBus() as bus:
            offer(bus, "text.breaks", breaks)
            await failure(bus, "text.breaks", {"input": {"secret": "swordfish"}})

    assert "text.breaks@1.0 failed with KeyError at test_capability_bus.py:" in caplog.text
    assert "swordfish" not in caplog.text


async def test_a_code_that_nobody_knows_becomes_an_internal_error() -> None:
    async def breaks(request: RouteRequest) -> dict[str, Any]:
        raise BusError("my_own", "words")

    async with CapabilityBus() as bus:
        offer(bus, "text.breaks", breaks)

        assert await code_of(bus, "text.breaks") == "internal_error"


async def test_a_side_effect_needs_no_confirmation_on_the_bus() -> None:
    ran: list[int] = []

    @tool(side_effects=True)
    async def post(n: int) -> str:
        """Post it."""
        ran.append(n)
        return "posted"

    async with CapabilityBus(policy=Policy(confirm_side_effects=True)) as bus:
        bus.register_tool(post, name="market.post")
        await bus.call("market.post", (1, 0), {"input": {"n": 1}})

    assert ran == [1]


async def test_nothing_on_the_bus_is_cut() -> None:
    @tool
    async def much() -> str:
        """Say much."""
        return "x" * 100_000

    async with CapabilityBus(policy=Policy(max_output=1_000)) as bus:
        bus.register_tool(much, name="text.much")

        assert len((await bus.call("text.much", (1, 0), {}))["output"]["content"]) == 100_000


async def test_a_call_put_together_by_somebody_else_is_made_for_whom_it_says() -> None:
    async def who(request: RouteRequest) -> dict[str, Any]:
        return {"output": {"caller": request.caller.id, "depth": request.context.depth, "id": request.call_id}}

    async with CapabilityBus() as bus:
        offer(bus, "who.am", who)
        context = Context(depth=2, deadline=asyncio.get_running_loop().time() + PATIENCE)
        request = RouteRequest(
            capability="who.am", version=(1, 0), body={}, caller=caller("ann"), context=context, call_id="c-1", bus=bus
        )

        assert (await bus.handle_call(request))["output"] == {"caller": "ann", "depth": 2, "id": "c-1"}


# ── one record, once ─────────────────────────────────────────────────────────────────────


async def pay(request: RouteRequest) -> dict[str, Any]:
    return {"output": {"paid": request.input["sum"]}}


async def test_a_call_on_the_bus_leaves_one_intent_and_one_outcome() -> None:
    journal = MemoryJournal()
    async with CapabilityBus(journal=journal) as bus:
        offer(bus, "bank.pay", pay, side_effects=True)
        await bus.call("bank.pay", (1, 0), {"input": {"sum": 3}}, caller=caller("ann", "bank.*"), session_id="s")

    begun, intended, settled, finished = journal.events
    assert isinstance(begun, RunStarted) and begun.principal == "ann"
    assert isinstance(intended, CallIntended) and intended.arguments == {"input": {"sum": 3}}
    assert isinstance(settled, CallSettled) and settled.outcome == "ok" and settled.tool == "bank.pay-1.0"
    assert isinstance(finished, RunFinished)


@pytest.mark.parametrize("session", [None, "s-1"])
async def test_a_side_effect_with_an_id_is_settled_once_also_over_a_restart(session: str | None) -> None:
    journal, runs = MemoryJournal(), []

    async def counted(request: RouteRequest) -> dict[str, Any]:
        runs.append(1)
        return {"output": {"runs": len(runs)}}

    found = []
    for _ in range(2):
        async with CapabilityBus(journal=journal) as bus:
            offer(bus, "bank.pay", counted, side_effects=True)
            how: Any = {"session_id": session, "call_id": "pay-1"}
            found.append((await bus.call("bank.pay", (1, 0), {}, **how))["output"])
            found.append((await bus.call("bank.pay", (1, 0), {}, **{**how, "caller": caller("ann")}))["output"])

    assert found == [{"runs": 1}, {"runs": 2}] * 2


async def test_a_failure_that_was_recorded_has_its_code_again_after_a_restart() -> None:
    journal, runs = MemoryJournal(), []

    async def refuses(request: RouteRequest) -> dict[str, Any]:
        runs.append(1)
        raise BusError("not_implemented", "no such account")

    for _ in range(2):
        async with CapabilityBus(journal=journal) as bus:
            offer(bus, "bank.pay", refuses, side_effects=True)
            assert await code_of(bus, "bank.pay", call_id="pay-1") == "not_implemented"

    assert runs == [1]


async def test_without_a_record_nothing_runs_and_the_caller_is_told_the_truth() -> None:
    class Broken(MemoryJournal):
        async def append(self, event: Any, *, durable: bool = False) -> None:
            raise JournalError("the disk of /secret/place is full")

    async with CapabilityBus(journal=Broken()) as bus:
        offer(bus, "bank.pay", never, side_effects=True)
        offer(bus, "bank.look", never)
        paid, looked = await failure(bus, "bank.pay"), await failure(bus, "bank.look")

    assert (paid.code, paid.outcome, looked.outcome) == ("internal_error", "failed", "failed")
    assert "secret" not in str(paid.to_dict())


async def test_a_call_that_another_replica_has_is_answered_by_its_id_once_that_one_has_ended_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("handrail.node.local_calls._LETS_GO", 0.0)  # less to wait for
    journal, held = MemoryJournal(), HeldHandler()
    async with CapabilityBus(journal=journal) as one, CapabilityBus(journal=journal) as other:
        for bus in (one, other):
            offer(bus, "slow.wait", held, side_effects=True, timeout_seconds=PATIENCE)
        first = asyncio.create_task(one.call("slow.wait", (1, 0), {}, call_id="c-1"))
        await held.begun.wait()
        told = [await failure(other, "slow.wait", call_id="c-1") for _ in range(2)]
        held.release.set()
        answers = [await first, await other.call("slow.wait", (1, 0), {}, call_id="c-1")]

    assert [(error.code, error.outcome, error.retry_after_ms) for error in told] == [
        ("partition", "in_doubt", 1000)
    ] * 2
    assert [answer["output"] for answer in answers] == [{"runs": 1}] * 2


async def test_a_call_that_was_not_run_as_there_was_no_record_may_be_asked_for_again_by_its_id() -> None:
    class Away(MemoryJournal):
        is_away = True

        async def append(self, event: Any, *, durable: bool = False) -> None:
            if self.is_away:
                raise JournalError("the server is away")
            await super().append(event, durable=durable)

    journal, held = Away(), HeldHandler()
    held.release.set()
    async with CapabilityBus(journal=journal) as bus:
        offer(bus, "bank.pay", held, side_effects=True)
        away = await failure(bus, "bank.pay", call_id="p-1")
        journal.is_away = False
        back = await bus.call("bank.pay", (1, 0), {}, call_id="p-1")

    assert (away.code, away.outcome) == ("internal_error", "failed")
    assert back["output"] == {"runs": 1}


async def test_a_read_that_was_cancelled_may_be_asked_for_again_by_its_id_and_an_effect_may_not() -> None:
    for side_effects, again in ((False, "ok"), (True, "cancelled")):
        held = HeldHandler()
        async with CapabilityBus() as bus:
            offer(bus, "slow.wait", held, side_effects=side_effects, timeout_seconds=PATIENCE)
            first = asyncio.create_task(bus.call("slow.wait", (1, 0), {}, call_id="c-1"))
            await held.begun.wait()
            first.cancel()
            await asyncio.wait({first})
            held.release.set()
            if again == "ok":
                assert (await bus.call("slow.wait", (1, 0), {}, call_id="c-1"))["output"] == {"runs": 2}
            else:
                assert await code_of(bus, "slow.wait", call_id="c-1") == again


async def test_a_call_that_found_no_room_may_come_again_with_its_id() -> None:
    held = HeldHandler()
    async with CapabilityBus() as bus:
        offer(bus, "slow.wait", held, max_concurrent=1, side_effects=True, timeout_seconds=PATIENCE)
        first = asyncio.create_task(bus.call("slow.wait", (1, 0), {}, call_id="c-1"))
        await held.begun.wait()
        assert await code_of(bus, "slow.wait", call_id="c-2") == "capacity_exceeded"
        held.release.set()
        await first

        assert (await bus.call("slow.wait", (1, 0), {}, call_id="c-2"))["output"] == {"runs": 2}


async def test_memory_stays_flat_over_many_calls() -> None:
    """Each response is 20 kB: kept for ever, 1,500 of them would be 30 MB."""
    body = {"input": {"text": "x" * 20_000}}
    async with CapabilityBus() as bus:
        offer(bus, "text.echo", echo)
        await bus.call("text.echo", (1, 0), body)
        tracemalloc.start()
        try:
            for n in range(1_500):
                await bus.call("text.echo", (1, 0), body, session_id=None if n % 2 else "s")
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert kept < 20e6


# ── what it tells ────────────────────────────────────────────────────────────────────────


async def test_every_call_that_ended_is_told_with_its_result() -> None:
    told: list[CallTraceEvent] = []

    async def chat(request: RouteRequest) -> dict[str, Any]:
        return {"output": {"text": "hi"}, "meta": {"tokens_in": 3, "tokens_out": 1}}

    async with CapabilityBus(node_id="node", ring=2, clock=FixedClock(now=5)) as bus:
        bus.listeners.append(told.append)
        bus.listeners.append(lambda event: 1 / 0)  # type: ignore[arg-type]  # it must not matter
        offer(bus, "llm.chat", chat)
        await bus.call("llm.chat", (1, 0), {"input": {}}, caller=caller("ann"), trace=TRACE)
        await failure(bus, "llm.chat", caller=NOBODY)
        await failure(bus, "no.such")
        recent = bus.recent_traces()
        stats = bus.stats()

    assert told[0] == CallTraceEvent(
        ts=5,
        trace_id=TRACE.split("-")[1],
        capability="llm.chat",
        version="1.0",
        from_node="ann",
        to_node="node",
        is_local=True,
        result="ok",
        ms=0.0,
        tokens_in=3,
        tokens_out=1,
        bytes_in=len('{"input":{}}'),
        bytes_out=len('{"text":"hi"}'),
    )
    assert [event.result for event in told] == ["ok", "unauthorized", "not_found"]
    assert [event.result for event in recent] == ["not_found", "unauthorized"]
    assert stats == {
        "llm.chat@1.0": {
            "calls": 2,
            "ok": 1,
            "errors": {"unauthorized": 1},
            "in_flight": 0,
            "p50_ms": 0.0,
            "p99_ms": 0.0,
        }
    }


async def test_the_topology_says_which_node_has_what() -> None:
    held = HeldHandler()
    async with CapabilityBus(node_id="node") as bus:
        offer(bus, "slow.wait", held, max_concurrent=2, timeout_seconds=PATIENCE)
        under_way = asyncio.create_task(bus.call("slow.wait", (1, 0), {}))
        await held.begun.wait()
        found = bus.topology_snapshot()
        held.release.set()
        await under_way

    assert found["nodes"]["node"] == [
        {
            "capability": "slow.wait@1.0",
            "is_local": True,
            "in_flight": 1,
            "max_concurrent": 2,
            "success": 1.0,
            "quarantined": False,
        }
    ]


async def test_a_bus_that_closes_takes_no_more_calls_and_can_be_waited_for() -> None:
    held = HeldHandler()
    bus = CapabilityBus()
    offer(bus, "slow.wait", held, timeout_seconds=PATIENCE)
    under_way = asyncio.create_task(bus.call("slow.wait", (1, 0), {}))
    await held.begun.wait()
    assert bus.under_way == 1
    held.release.set()
    async with asyncio.timeout(PATIENCE):
        await bus.drained()
    await bus.aclose()

    assert (await under_way)["output"] == {"runs": 1}
    assert await code_of(bus, "slow.wait") == "partition"
