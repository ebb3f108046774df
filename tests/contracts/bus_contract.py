"""What every bus does, whatever is between the caller and the capability.

    class TestHttpBus(BusContract):
        @pytest.fixture
        async def bus_pair(self) -> AsyncIterator[BusPair]: ...

`node` is the bus where capabilities are registered and run; `caller` is the bus that is asked. The caller is
one whom the node trusts as a member at least, and who may call everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import pytest

from handrail.core.errors import BusError
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Bus, CallStream, Handler
from handrail.node.bus.request import RouteRequest
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.bus.wire_codes import WIRE
from handrail.node.capability_bus import CapabilityBus
from handrail.tools.tool import tool
from tests.polling import until_still

PATIENCE = 60.0
"""Seconds that anything may take on a busy machine: only what hangs takes longer."""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class BusPair(NamedTuple):
    node: CapabilityBus
    caller: Bus


def offer(node: CapabilityBus, name: str, handler: Handler, **facts: Any) -> CapabilityDescriptor:
    descriptor = CapabilityDescriptor(name=name, **facts)
    node.register(descriptor, handler)
    return descriptor


def body_schema(**fields: dict[str, Any]) -> dict[str, Any]:
    """Of a body whose input has these fields, all of them needed."""
    given = {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
    return {"type": "object", "properties": {"input": given, "params": {"type": "object"}}, "required": ["input"]}


async def echo(request: RouteRequest) -> dict[str, Any]:
    return {"output": request.input}


async def never(request: RouteRequest) -> dict[str, Any]:
    raise NotImplementedError("this must not run")


async def frames_of(stream: CallStream) -> list[StreamFrame]:
    async with asyncio.timeout(PATIENCE), stream:
        return [frame async for frame in stream]


async def failure(bus: Bus, name: str, body: dict[str, Any] | None = None, **how: Any) -> BusError:
    version = how.pop("version", (1, 0))
    with pytest.raises(BusError) as failed:
        async with asyncio.timeout(PATIENCE):
            await bus.call(name, version, body or {}, **how)
    assert failed.value.code in WIRE
    return failed.value


class HeldHandler:
    """A handler that stays where it is until it is let go, and says when it was ended instead."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.release = asyncio.Event()
        self.runs = 0
        self._more = asyncio.Condition()

    async def reach(self, runs: int) -> None:
        """Until it was begun so often."""
        async with asyncio.timeout(PATIENCE), self._more:
            await self._more.wait_for(lambda: self.runs >= runs)

    async def __call__(self, request: RouteRequest) -> dict[str, Any]:
        self.runs += 1
        self.begun.set()
        async with self._more:
            self._more.notify_all()
        try:
            await self.release.wait()
        finally:
            self.ended.set()
        return {"output": {"runs": self.runs}}


@asynccontextmanager
async def within_patience() -> AsyncIterator[None]:
    async with asyncio.timeout(PATIENCE):
        yield


class BusContract:
    """Forty-odd sentences. A bus of its own kind gives the fixture `bus_pair`."""

    async def heard(self, bus_pair: BusPair) -> None:
        """Until the caller's bus knows of what was registered just now; most ask the node each time."""

    # ── bodies and responses ─────────────────────────────────────────────────────────

    async def test_a_call_gives_the_output_and_how_long_it_took(self, bus_pair: BusPair) -> None:
        async def counted(request: RouteRequest) -> dict[str, Any]:
            return {"output": {"words": len(request.input["text"].split())}, "meta": {"model": request.params["model"]}}

        offer(bus_pair.node, "text.count", counted)

        response = await bus_pair.caller.call(
            "text.count", (1, 0), {"params": {"model": "m"}, "input": {"text": "a b"}}
        )

        assert response["output"] == {"words": 2}
        assert response["meta"]["model"] == "m"
        assert response["meta"]["ms"] >= 0

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "Regenwasser für Bäume",
            "日本語 🌧️ \u202e\u200b",
            "\x00\x1b[31m\r\n\u2028",
            'quotes " and \\ slashes',
            "x" * 300_000,
        ],
        ids=["empty", "umlauts", "far away", "control", "quotes", "large"],
    )
    async def test_text_arrives_as_it_was_sent_both_ways(self, bus_pair: BusPair, text: str) -> None:
        offer(bus_pair.node, "text.echo", echo, timeout_seconds=PATIENCE)

        response = await bus_pair.caller.call("text.echo", (1, 0), {"input": {"text": text}})

        assert response["output"] == {"text": text}

    async def test_a_body_of_two_megabytes_and_as_large_a_response_arrive_whole(self, bus_pair: BusPair) -> None:
        offer(bus_pair.node, "text.echo", echo, timeout_seconds=PATIENCE)
        rows = [{"n": n, "text": "ä" * 20} for n in range(30_000)]

        response = await bus_pair.caller.call("text.echo", (1, 0), {"input": {"rows": rows}})

        assert response["output"] == {"rows": rows}

    async def test_every_kind_of_json_value_arrives(self, bus_pair: BusPair) -> None:
        offer(bus_pair.node, "text.echo", echo)
        value = {"int": -(2**53), "float": 0.1, "yes": True, "none": None, "list": [1, [2, []], {}], "": "no name"}

        assert (await bus_pair.caller.call("text.echo", (1, 0), {"input": value}))["output"] == value

    async def test_a_body_that_does_not_fit_is_refused_with_every_problem_and_does_not_run(
        self, bus_pair: BusPair
    ) -> None:
        schema = body_schema(query={"type": "string"}, k={"type": "integer", "maximum": 20})
        offer(bus_pair.node, "rag.query", never, request_schema=schema)

        error = await failure(bus_pair.caller, "rag.query", {"input": {"query": 7, "k": 21}})

        assert (error.code, error.outcome) == ("bad_request", "invalid_arguments")
        assert "query" in error.message and "k:" in error.message

    async def test_a_response_that_breaks_its_own_schema_is_an_error_of_the_node(self, bus_pair: BusPair) -> None:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        offer(bus_pair.node, "text.echo", echo, response_schema=schema)

        assert (await failure(bus_pair.caller, "text.echo", {"input": {"text": 1}})).code == "internal_error"

    # ── names, versions, what there is ───────────────────────────────────────────────

    async def test_what_nobody_offers_is_not_found(self, bus_pair: BusPair) -> None:
        assert (await failure(bus_pair.caller, "no.such")).code == "not_found"

    async def test_two_majors_of_one_name_live_side_by_side(self, bus_pair: BusPair) -> None:
        async def second(request: RouteRequest) -> dict[str, Any]:
            return {"output": {"version": list(request.version)}}

        offer(bus_pair.node, "text.version", second)
        offer(bus_pair.node, "text.version", second, version=(2, 0))

        for version in ((1, 0), (2, 0)):
            response = await bus_pair.caller.call("text.version", version, {})
            assert response["output"] == {"version": list(version)}

    async def test_a_higher_minor_serves_who_asks_for_a_lower_one(self, bus_pair: BusPair) -> None:
        offer(bus_pair.node, "text.echo", echo, version=(1, 3))

        assert (await bus_pair.caller.call("text.echo", ">=1.1", {"input": {"a": 1}}))["output"] == {"a": 1}

    async def test_another_major_is_refused_with_those_that_there_are(self, bus_pair: BusPair) -> None:
        offer(bus_pair.node, "text.echo", never)
        offer(bus_pair.node, "text.echo", never, version=(3, 1))

        error = await failure(bus_pair.caller, "text.echo", version=(2, 0))

        assert error.code == "schema_mismatch"
        assert error.details["available"] == ["1.0", "3.1"]

    async def test_a_caller_that_takes_it_for_something_else_is_refused(self, bus_pair: BusPair) -> None:
        known = offer(bus_pair.node, "text.echo", echo)

        error = await failure(bus_pair.caller, "text.echo", schema_hash="blake3:" + "0" * 64)
        response = await bus_pair.caller.call("text.echo", (1, 0), {"input": {}}, schema_hash=known.schema_hash)

        assert error.code == "schema_mismatch"
        assert error.details["schema_hash_expected"] == known.schema_hash
        assert response["output"] == {}

    async def test_discovery_shows_descriptors_as_they_are_and_the_hashes_of_their_schemas(
        self, bus_pair: BusPair
    ) -> None:
        schema = body_schema(text={"type": "string"})
        known = offer(
            bus_pair.node,
            "text.echo",
            echo,
            version=(1, 2),
            description="Says it again.",
            request_schema=schema,
            stream_schema={"token": {"type": "object"}},
            params={"model": "m"},
            max_concurrent=3,
            trust_required="member",
            timeout_seconds=7.5,
            side_effects=True,
            idempotent=True,
        )
        offer(bus_pair.node, "text.other", echo)

        await self.heard(bus_pair)
        (found,) = await bus_pair.caller.discover("text.echo")

        assert found.descriptor == known
        assert found.schema_hash == known.schema_hash
        assert found.node_id == bus_pair.node.node_id
        assert {each.descriptor.name for each in await bus_pair.caller.discover()} >= {"text.echo", "text.other"}

    # ── errors ───────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("code", sorted(WIRE))
    async def test_a_handler_may_fail_with_every_code_and_all_that_it_says_arrives(
        self, bus_pair: BusPair, code: str
    ) -> None:
        async def fails(request: RouteRequest) -> dict[str, Any]:
            raise BusError(code, "for a reason", retry_after_ms=1_500, alt_nodes=["ed25519:other"])

        offer(bus_pair.node, "text.fails", fails)

        error = await failure(bus_pair.caller, "text.fails")

        assert (error.code, error.message, error.retry_after_ms) == (code, "for a reason", 1_500)
        assert error.details["alt_nodes"] == ["ed25519:other"]

    async def test_an_unforeseen_exception_is_an_internal_error_without_its_words(self, bus_pair: BusPair) -> None:
        async def breaks(request: RouteRequest) -> dict[str, Any]:
            raise ValueError("the password is swordfish")

        offer(bus_pair.node, "text.breaks", breaks)

        error = await failure(bus_pair.caller, "text.breaks")

        assert error.code == "internal_error"
        assert "swordfish" not in str(error.to_dict())

    async def test_a_handler_that_ends_in_doubt_says_so_to_its_caller(self, bus_pair: BusPair) -> None:
        async def loses(request: RouteRequest) -> dict[str, Any]:
            raise BusError("internal_error", "the bank did not answer", outcome="in_doubt")

        offer(bus_pair.node, "bank.pay", loses, side_effects=True)

        error = await failure(bus_pair.caller, "bank.pay")

        assert (error.code, error.outcome) == ("internal_error", "in_doubt")

    async def test_a_tool_is_a_capability_and_its_failure_is_one_of_the_bus(self, bus_pair: BusPair) -> None:
        @tool
        def divide(a: float, b: float) -> float:
            """Divide."""
            return a / b

        known = bus_pair.node.register_tool(divide, name="math.divide")

        response = await bus_pair.caller.call("math.divide", known.version, {"input": {"a": 3, "b": 2}})
        wrong = await failure(bus_pair.caller, "math.divide", {"input": {"a": "x"}})
        failed = await failure(bus_pair.caller, "math.divide", {"input": {"a": 1, "b": 0}})

        assert response["output"] == {"content": 1.5}
        assert (wrong.code, failed.code) == ("bad_request", "internal_error")

    # ── authority, depth, deadline ───────────────────────────────────────────────────

    @pytest.mark.requirement("hearthnet.authority")
    async def test_what_is_called_on_the_way_is_called_for_the_same_caller(self, bus_pair: BusPair) -> None:
        async def inner(request: RouteRequest) -> dict[str, Any]:
            return {"output": {"caller": request.caller.id, "depth": request.context.depth}}

        async def outer(request: RouteRequest) -> dict[str, Any]:
            below = await request.call("who.inner", (1, 0), {})
            return {"output": {"own": request.caller.id, "depth": request.context.depth, "below": below["output"]}}

        offer(bus_pair.node, "who.inner", inner)
        offer(bus_pair.node, "who.outer", outer)

        found = (await bus_pair.caller.call("who.outer", (1, 0), {}))["output"]

        assert found["below"] == {"caller": found["own"], "depth": found["depth"] + 1}

    async def test_a_capability_may_call_only_what_it_needs(self, bus_pair: BusPair) -> None:
        async def outer(request: RouteRequest) -> dict[str, Any]:
            read = await request.call("file.read", (1, 0), {"input": {"ok": True}})
            try:
                await request.call("file.write", (1, 0), {})
            except BusError as error:
                return {"output": {"read": read["output"], "write": error.code}}
            raise AssertionError("it wrote")

        offer(bus_pair.node, "file.read", echo)
        offer(bus_pair.node, "file.write", never)
        offer(bus_pair.node, "file.sort", outer, needs=("file.read@*",))

        found = (await bus_pair.caller.call("file.sort", (1, 0), {}))["output"]

        assert found == {"read": {"ok": True}, "write": "token_scope_insufficient"}

    async def test_the_scopes_of_the_calls_above_hold_for_this_one(self, bus_pair: BusPair) -> None:
        offer(bus_pair.node, "file.write", never)
        offer(bus_pair.node, "file.read", echo)
        within = (("file.*@1.0",), ("file.read@1.0", "rag.*"))

        error = await failure(bus_pair.caller, "file.write", within=within)
        response = await bus_pair.caller.call("file.read", (1, 0), {"input": {}}, within=within)

        assert error.code == "token_scope_insufficient"
        assert response["output"] == {}

    @pytest.mark.requirement("hearthnet.composition")
    async def test_capabilities_cannot_call_each_other_without_end(self, bus_pair: BusPair) -> None:
        depths: list[int] = []

        async def again(request: RouteRequest) -> dict[str, Any]:
            depths.append(request.context.depth)
            return await request.call("loop.again", (1, 0), {})

        offer(bus_pair.node, "loop.again", again, max_concurrent=100)

        error = await failure(bus_pair.caller, "loop.again", depth=1)

        assert error.code == "bad_request"
        assert "deep" in error.message
        assert depths[0] >= 1
        assert depths == list(range(depths[0], bus_pair.node.max_depth + 1))

    async def test_the_trace_of_the_caller_goes_along(self, bus_pair: BusPair) -> None:
        seen: list[tuple[str | None, str]] = []

        async def look(request: RouteRequest) -> dict[str, Any]:
            seen.append((request.context.trace, request.trace_id))
            return {"output": {}}

        offer(bus_pair.node, "trace.look", look)

        await bus_pair.caller.call("trace.look", (1, 0), {}, trace=TRACE)

        assert seen == [(TRACE, TRACE.split("-")[1])]

    async def test_the_session_of_the_caller_goes_along(self, bus_pair: BusPair) -> None:
        async def look(request: RouteRequest) -> dict[str, Any]:
            return {"output": {"session": request.session_id}}

        offer(bus_pair.node, "session.look", look)

        assert (await bus_pair.caller.call("session.look", (1, 0), {}, session_id="s-1"))["output"] == {
            "session": "s-1"
        }

    async def test_a_caller_that_waits_no_longer_is_told_so_and_the_handler_is_ended(self, bus_pair: BusPair) -> None:
        held = HeldHandler()
        offer(bus_pair.node, "slow.wait", held, timeout_seconds=PATIENCE)

        async with within_patience():
            while not held.begun.is_set():  # a busy machine may not come to it in time
                assert (await failure(bus_pair.caller, "slow.wait", timeout_seconds=0.3)).code == "timeout"
            await held.ended.wait()

    async def test_a_capability_that_takes_too_long_is_ended_by_its_own_timeout(self, bus_pair: BusPair) -> None:
        held = HeldHandler()
        offer(bus_pair.node, "slow.wait", held, timeout_seconds=0.2)

        assert (await failure(bus_pair.caller, "slow.wait", timeout_seconds=PATIENCE)).code == "timeout"
        assert held.ended.is_set()

    async def test_a_deadline_that_has_passed_runs_nothing(self, bus_pair: BusPair) -> None:
        offer(bus_pair.node, "slow.wait", never)

        error = await failure(bus_pair.caller, "slow.wait", deadline=asyncio.get_running_loop().time() - 1)

        assert error.code == "timeout"

    async def test_a_nested_call_has_the_deadline_of_its_caller(self, bus_pair: BusPair) -> None:
        async def inner(request: RouteRequest) -> dict[str, Any]:
            return {"output": {"left": request.remaining}}

        async def outer(request: RouteRequest) -> dict[str, Any]:
            return await request.call("time.inner", (1, 0), {}, timeout_seconds=500)

        offer(bus_pair.node, "time.inner", inner, timeout_seconds=500)
        offer(bus_pair.node, "time.outer", outer, timeout_seconds=40)

        assert 0 < (await bus_pair.caller.call("time.outer", (1, 0), {}))["output"]["left"] <= 40

    async def test_cancelling_a_call_ends_its_handler(self, bus_pair: BusPair) -> None:
        held = HeldHandler()
        offer(bus_pair.node, "slow.wait", held, timeout_seconds=PATIENCE)
        asking = asyncio.create_task(bus_pair.caller.call("slow.wait", (1, 0), {}))
        async with within_patience():
            await held.begun.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await held.ended.wait()

    # ── once ─────────────────────────────────────────────────────────────────────────

    async def test_asking_again_with_the_same_id_gives_the_same_answer_and_runs_nothing(
        self, bus_pair: BusPair
    ) -> None:
        runs: list[str] = []

        async def pay(request: RouteRequest) -> dict[str, Any]:
            runs.append(request.call_id)
            return {"output": {"receipt": len(runs)}}

        offer(bus_pair.node, "bank.pay", pay, side_effects=True)

        first = await bus_pair.caller.call("bank.pay", (1, 0), {"input": {"sum": 3}}, call_id="pay-1")
        again = await bus_pair.caller.call("bank.pay", (1, 0), {"input": {"sum": 3}}, call_id="pay-1")
        other = await bus_pair.caller.call("bank.pay", (1, 0), {"input": {"sum": 3}}, call_id="pay-2")

        assert (first["output"], again["output"], other["output"]) == ({"receipt": 1}, {"receipt": 1}, {"receipt": 2})
        assert runs == ["pay-1", "pay-2"]

    async def test_two_who_ask_at_once_with_one_id_share_the_answer(self, bus_pair: BusPair) -> None:
        held = HeldHandler()
        offer(bus_pair.node, "bank.pay", held, side_effects=True, timeout_seconds=PATIENCE)
        async with within_patience(), asyncio.TaskGroup() as group:
            asking = [
                group.create_task(bus_pair.caller.call("bank.pay", (1, 0), {}, call_id="pay-1")) for _ in range(2)
            ]
            await held.begun.wait()
            held.release.set()

        assert [task.result()["output"] for task in asking] == [{"runs": 1}, {"runs": 1}]

    async def test_an_id_cannot_come_to_mean_another_call(self, bus_pair: BusPair) -> None:
        offer(bus_pair.node, "text.echo", echo)
        await bus_pair.caller.call("text.echo", (1, 0), {"input": {"a": 1}}, call_id="c-1")

        assert (await failure(bus_pair.caller, "text.echo", {"input": {"a": 2}}, call_id="c-1")).code == "bad_request"

    # ── how many at once ─────────────────────────────────────────────────────────────

    async def test_one_more_than_there_is_room_for_is_sent_away_with_a_time_to_come_back(
        self, bus_pair: BusPair
    ) -> None:
        held = HeldHandler()
        offer(bus_pair.node, "slow.wait", held, max_concurrent=1, timeout_seconds=PATIENCE)
        async with within_patience(), asyncio.TaskGroup() as group:
            first = group.create_task(bus_pair.caller.call("slow.wait", (1, 0), {}))
            await held.begun.wait()
            error = await failure(bus_pair.caller, "slow.wait")
            held.release.set()

        assert error.code == "capacity_exceeded"
        assert error.retry_after_ms is not None and error.retry_after_ms > 0
        assert first.result()["output"] == {"runs": 1}

    async def test_calls_that_fit_run_at_the_same_time(self, bus_pair: BusPair) -> None:
        everybody = asyncio.Barrier(5)

        async def meet(request: RouteRequest) -> dict[str, Any]:
            await everybody.wait()
            return {"output": {"n": request.input["n"]}}

        offer(bus_pair.node, "all.meet", meet, max_concurrent=5, timeout_seconds=PATIENCE)
        async with within_patience():
            found = await asyncio.gather(
                *(bus_pair.caller.call("all.meet", (1, 0), {"input": {"n": n}}) for n in range(5))
            )

        assert [each["output"]["n"] for each in found] == list(range(5))

    # ── streams ──────────────────────────────────────────────────────────────────────

    async def test_a_stream_gives_numbered_frames_and_one_done_with_the_meta(self, bus_pair: BusPair) -> None:
        offer(bus_pair.node, "text.tokens", tokens, stream_schema=TOKENS)

        *sent, last = await frames_of(bus_pair.caller.stream("text.tokens", (1, 0), {"input": {"n": 3}}))

        assert sent == [StreamFrame("token", {"text": str(n)}, n + 1) for n in range(3)]
        assert (last.event, last.seq) == ("done", 4)
        assert last.data["tokens_out"] == 3
        assert last.data["ms"] >= 0

    async def test_a_stream_of_many_frames_loses_none(self, bus_pair: BusPair) -> None:
        offer(bus_pair.node, "text.tokens", tokens, stream_schema=TOKENS, timeout_seconds=PATIENCE)

        frames = await frames_of(bus_pair.caller.stream("text.tokens", (1, 0), {"input": {"n": 1_000}}))

        assert [frame.seq for frame in frames] == list(range(1, 1_002))
        assert [frame.data["text"] for frame in frames[:-1]] == [str(n) for n in range(1_000)]

    @pytest.mark.requirement("hearthnet.executor.binding")
    async def test_a_streaming_capability_that_is_called_is_drained_to_its_response(self, bus_pair: BusPair) -> None:
        offer(bus_pair.node, "text.tokens", tokens, stream_schema=TOKENS)

        response = await bus_pair.caller.call("text.tokens", (1, 0), {"input": {"n": 3}})

        assert response["output"] == {"text": "012"}
        assert response["meta"]["tokens_out"] == 3

    async def test_what_does_not_stream_is_a_stream_of_its_result(self, bus_pair: BusPair) -> None:
        offer(bus_pair.node, "text.echo", echo)

        frames = await frames_of(bus_pair.caller.stream("text.echo", (1, 0), {"input": {"a": 1}}))

        assert [(frame.event, frame.seq) for frame in frames] == [("result", 1), ("done", 2)]
        assert frames[0].data == {"a": 1}

    async def test_errors_of_a_stream_are_its_last_frame(self, bus_pair: BusPair) -> None:
        async def breaks(request: RouteRequest) -> dict[str, Any]:
            await request.send("token", {"text": "so far"})
            raise BusError("rate_limited", "slower", retry_after_ms=70)

        offer(bus_pair.node, "text.breaks", breaks, stream_schema=TOKENS)

        sent, last = await frames_of(bus_pair.caller.stream("text.breaks", (1, 0), {}))
        (missing,) = await frames_of(bus_pair.caller.stream("no.such", (1, 0), {}))

        assert sent.data == {"text": "so far"}
        assert (last.event, last.data["error"], last.data["retry_after_ms"]) == ("error", "rate_limited", 70)
        assert (missing.event, missing.data["error"]) == ("error", "not_found")

    async def test_a_frame_that_was_not_promised_ends_the_stream_as_an_error_of_the_node(
        self, bus_pair: BusPair
    ) -> None:
        async def breaks(request: RouteRequest) -> dict[str, Any]:
            with suppress(BusError):  # whatever the handler makes of it
                await request.send("token", {"text": 7})
            return {"output": {}}

        offer(bus_pair.node, "text.breaks", breaks, stream_schema=TOKENS)

        (last,) = await frames_of(bus_pair.caller.stream("text.breaks", (1, 0), {}))

        assert (last.event, last.data["error"]) == ("error", "internal_error")

    async def test_leaving_a_stream_ends_its_handler(self, bus_pair: BusPair) -> None:
        endless = EndlessHandler()
        offer(bus_pair.node, "text.endless", endless, stream_schema=TOKENS, timeout_seconds=PATIENCE)
        async with within_patience():
            async with bus_pair.caller.stream("text.endless", (1, 0), {}) as stream:
                async for frame in stream:
                    assert frame.event == "token"
                    break
            await endless.ended.wait()

    async def test_cancelling_a_stream_ends_its_handler_and_one_error_frame_follows(self, bus_pair: BusPair) -> None:
        endless = EndlessHandler()
        offer(bus_pair.node, "text.endless", endless, stream_schema=TOKENS, timeout_seconds=PATIENCE)
        async with within_patience(), bus_pair.caller.stream("text.endless", (1, 0), {}) as stream:
            await anext(stream)
            await stream.cancel()
            left = [frame async for frame in stream]
            await endless.ended.wait()

        assert [frame.event for frame in left if frame.event != "token"] == ["error"]
        assert left[-1].data["error"] == "cancelled"

    @pytest.mark.requirement("hearthnet.progress")
    async def test_the_progress_of_a_tool_reaches_the_caller_as_frames(self, bus_pair: BusPair) -> None:
        @tool(schema={"type": "object"}, style="invocation", name="count")
        async def count(invocation: Any) -> str:
            for n in (1, 2):
                invocation.progress(n, 2, "counting")
                await asyncio.sleep(0)
            return "done"

        bus_pair.node.register_tool(count, name="tool.count")

        frames = await frames_of(bus_pair.caller.stream("tool.count", (1, 0), {}))

        assert [frame.event for frame in frames] == ["progress", "progress", "result", "done"]
        assert frames[1].data == {"current": 2, "total": 2, "stage": "counting"}

    @pytest.mark.requirement("hearthnet.websocket")
    async def test_what_the_caller_answers_in_mid_stream_reaches_the_handler(self, bus_pair: BusPair) -> None:
        async def chat(request: RouteRequest) -> dict[str, Any]:
            if not request.interactive:
                return {"output": {"answer": None}}
            await request.send("tool_call", {"id": "tc_1", "name": "add", "arguments": {"a": 1}})
            await request.send("tool_call", {"id": "tc_2", "name": "add", "arguments": {"a": 2}})
            answers = [await request.answer("tc_1"), await request.answer("tc_2")]
            await request.send("token", {"text": str([answer["body"]["sum"] for answer in answers])})
            return {"output": {}, "meta": {"errors": [answer["is_error"] for answer in answers]}}

        schema = {**TOKENS, "tool_call": {"type": "object", "required": ["id", "name"]}}
        offer(bus_pair.node, "llm.ask", chat, stream_schema=schema, timeout_seconds=PATIENCE)
        async with within_patience(), bus_pair.caller.stream("llm.ask", (1, 0), {}, interactive=True) as stream:
            first, second = await anext(stream), await anext(stream)
            assert (first.data["id"], second.data["arguments"]) == ("tc_1", {"a": 2})
            await stream.tool_result("tc_2", {"sum": 20})  # before the handler waits for it
            await stream.tool_result("tc_1", {"sum": 10}, is_error=True)
            token, done = [frame async for frame in stream]

        assert (token.data, done.data["errors"]) == ({"text": "[10, 20]"}, [True, False])

    async def test_an_answer_to_a_call_that_nobody_made_is_refused(self, bus_pair: BusPair) -> None:
        endless = EndlessHandler()
        offer(bus_pair.node, "text.endless", endless, stream_schema=TOKENS, timeout_seconds=PATIENCE)
        async with (
            within_patience(),
            bus_pair.caller.stream("text.endless", (1, 0), {}, interactive=True) as stream,
        ):
            await anext(stream)
            with pytest.raises(BusError) as refused:
                await stream.tool_result("tc_9", {})

        assert refused.value.code == "bad_request"

    async def test_a_reader_that_is_behind_holds_the_handler_up(self, bus_pair: BusPair) -> None:
        endless = EndlessHandler()
        offer(bus_pair.node, "text.endless", endless, stream_schema=TOKENS, timeout_seconds=PATIENCE)
        async with within_patience(), bus_pair.caller.stream("text.endless", (1, 0), {}) as stream:
            await anext(stream)
            await until_still(lambda: endless.sent)

        assert endless.sent < 20_000


TOKENS = {"token": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}


async def tokens(request: RouteRequest) -> dict[str, Any]:
    said = [str(n) for n in range(request.input["n"])]
    for text in said:
        await request.send("token", {"text": text})
    return {"output": {"text": "".join(said)}, "meta": {"tokens_out": len(said)}}


class EndlessHandler:
    """Says something again and again until it is ended; each a kilobyte, so that buffers fill."""

    def __init__(self) -> None:
        self.sent = 0
        self.ended = asyncio.Event()

    async def __call__(self, request: RouteRequest) -> dict[str, Any]:
        try:
            while True:
                await request.send("token", {"text": "x" * 1_000})
                self.sent += 1
                await asyncio.sleep(0)
        finally:
            self.ended.set()
