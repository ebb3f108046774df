"""The bus of one process under fire, by the numbers of the fault list.

29 late work and overload · 31 clocks that jump · 32 versions that do not fit · 33 the confused deputy ·
40 ids that others guess. Wires and workers have theirs in other files.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail import CapabilityBus
from handrail.core.errors import BusError
from handrail.node.bus.request import RouteRequest
from handrail.testing.journal import MemoryJournal
from tests.contracts.bus_contract import PATIENCE, HeldHandler, echo, failure, never, offer
from tests.node.example_buses import caller

# ── 29: late work and overload ───────────────────────────────────────────────────────────


async def test_case_29_work_whose_caller_no_longer_waits_is_dropped_without_running() -> None:
    async with CapabilityBus() as bus:
        offer(bus, "slow.work", never)
        late = await failure(bus, "slow.work", deadline=asyncio.get_running_loop().time() - 0.001)
        none = await failure(bus, "slow.work", timeout_seconds=0)

    assert (late.code, none.code) == ("timeout", "timeout")


async def test_case_29_a_slow_capability_holds_nobody_else_up_and_says_when_to_come_back() -> None:
    held = HeldHandler()
    async with asyncio.timeout(PATIENCE), CapabilityBus() as bus:
        offer(bus, "slow.work", held, max_concurrent=2, timeout_seconds=PATIENCE)
        offer(bus, "text.echo", echo)
        busy = [asyncio.create_task(bus.call("slow.work", (1, 0), {})) for _ in range(2)]
        await held.reach(2)
        refused = await asyncio.gather(*(failure(bus, "slow.work") for _ in range(50)))
        quick = await bus.call("text.echo", (1, 0), {"input": {"a": 1}})
        held.release.set()
        await asyncio.gather(*busy)

    assert {error.code for error in refused} == {"capacity_exceeded"}
    assert all(error.retry_after_ms for error in refused)
    assert quick["output"] == {"a": 1}
    assert held.runs == 2


async def test_case_29_a_nested_call_gets_only_the_time_that_is_left() -> None:
    inner = HeldHandler()

    async def outer(request: RouteRequest) -> dict[str, Any]:
        return await request.call("slow.inner", (1, 0), {})

    async with CapabilityBus() as bus:
        offer(bus, "slow.inner", inner, timeout_seconds=PATIENCE)
        offer(bus, "slow.outer", outer, timeout_seconds=PATIENCE)
        error = await failure(bus, "slow.outer", timeout_seconds=0.2)

    assert error.code == "timeout"
    assert inner.ended.is_set()


# ── 31: clocks that jump ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("jump", [3600.0, -3600.0], ids=["forward", "back"])
async def test_case_31_a_jump_of_the_wall_clock_neither_ends_nor_prolongs_a_call(
    jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def jumps(request: RouteRequest) -> None:
        now, now_ns = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: now() + jump)
        monkeypatch.setattr(time, "time_ns", lambda: now_ns() + int(jump * 1e9))

    async def works(request: RouteRequest) -> dict[str, Any]:
        before = request.remaining
        jumps(request)
        after = request.remaining
        assert before is not None and after is not None
        return {"output": {"lost": before - after}}

    async def hangs(request: RouteRequest) -> dict[str, Any]:
        jumps(request)
        await asyncio.Event().wait()
        raise NotImplementedError

    async with asyncio.timeout(PATIENCE), CapabilityBus() as bus:
        offer(bus, "slow.work", works, timeout_seconds=PATIENCE)
        offer(bus, "slow.hang", hangs, timeout_seconds=0.2)
        response = await bus.call("slow.work", (1, 0), {}, call_id="c-1")
        again = await bus.call("slow.work", (1, 0), {}, call_id="c-1")
        error = await failure(bus, "slow.hang")

    assert response["output"]["lost"] < 10
    assert again["output"] == response["output"]
    assert 0 <= response["meta"]["ms"] < PATIENCE * 1000
    assert error.code == "timeout"


# ── 32: versions that do not fit ─────────────────────────────────────────────────────────


@given(
    offered=st.sets(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=5),
    wanted=st.tuples(st.integers(0, 4), st.integers(0, 4)),
)
async def test_case_32_a_version_that_is_not_there_is_refused_with_those_that_are(
    offered: set[tuple[int, int]], wanted: tuple[int, int]
) -> None:
    async def version(request: RouteRequest) -> dict[str, Any]:
        return {"output": {"version": list(request.version)}}

    async with CapabilityBus() as bus:
        for each in offered:
            offer(bus, "text.version", version, version=each)
        fitting = {each for each in offered if each[0] == wanted[0] and each[1] >= wanted[1]}
        if fitting:
            found = (await bus.call("text.version", wanted, {}))["output"]["version"]
            assert tuple(found) in fitting
        else:
            error = await failure(bus, "text.version", version=wanted)
            assert error.code == "schema_mismatch"
            assert error.details["available"] == [f"{major}.{minor}" for major, minor in sorted(offered)]


@pytest.mark.parametrize("version", ["", "1", "1.x", "-1.0", "1.0.0", "⁴.0", "9" * 50 + ".0", ">=", "1.0 or 2.0"])
async def test_case_32_what_is_no_version_is_a_bad_request(version: str) -> None:
    async with CapabilityBus() as bus:
        offer(bus, "text.echo", never)

        assert (await failure(bus, "text.echo", version=version)).code == "bad_request"


# ── 33: the confused deputy ──────────────────────────────────────────────────────────────


@pytest.mark.requirement("hearthnet.authority")
async def test_case_33_a_caller_cannot_have_done_for_it_what_it_may_not_do() -> None:
    """The deputy may write, because it has no limits of its own; it acts for somebody who may not."""
    deeds: list[str] = []

    async def write(request: RouteRequest) -> dict[str, Any]:
        deeds.append(request.caller.id)
        return {"output": {}}

    async def deputy(request: RouteRequest) -> dict[str, Any]:
        return await request.call("file.write", (1, 0), {})

    async with CapabilityBus() as bus:
        offer(bus, "file.write", write, side_effects=True, trust_required="trusted")
        offer(bus, "file.tidy", deputy, side_effects=True)
        for who in (
            caller("eve", "file.tidy@1.0", trust="trusted"),  # no scope for writing
            caller("eve", trust="member"),  # not trusted enough for it
        ):
            error = await failure(bus, "file.tidy", caller=who)
            assert error.code in ("token_scope_insufficient", "unauthorized")
        assert deeds == []
        await bus.call("file.tidy", (1, 0), {}, caller=caller("ann", "file.*", trust="trusted"))

    assert deeds == ["ann"]


@given(
    scopes=st.lists(st.lists(st.sampled_from(["a.x", "b.x", "c.x", "d.x"]), max_size=4), min_size=4, max_size=4),
    order=st.permutations(["a.x", "b.x", "c.x", "d.x"]),
)
async def test_case_33_the_right_of_a_chain_of_calls_is_the_intersection_of_all_above(
    scopes: list[list[str]], order: list[str]
) -> None:
    """Each capability calls the next in order, and may call only what it needs."""
    reached: list[str] = []
    needs = {name: tuple(f"{each}@1.0" for each in allowed) for name, allowed in zip(order, scopes, strict=True)}

    async def step(request: RouteRequest) -> dict[str, Any]:
        reached.append(request.capability)
        following = order.index(request.capability) + 1
        if following < len(order):
            try:
                await request.call(order[following], (1, 0), {})
            except BusError as error:
                assert error.code == "token_scope_insufficient"
        return {"output": {}}

    async with CapabilityBus() as bus:
        for name in order:
            offer(bus, name, step, needs=needs[name], timeout_seconds=PATIENCE)
        await bus.call(order[0], (1, 0), {})

    allowed = [order[0]]
    for at, name in enumerate(order[1:], 1):
        if not all(f"{name}@1.0" in needs[above] for above in order[:at]):
            break
        allowed.append(name)
    assert reached == allowed


async def test_case_33_a_handler_that_calls_the_bus_by_itself_does_so_as_the_node_and_can_be_seen_to() -> None:
    """What a handler does in its own name is the node's: `request.call` is the way to act for the caller."""
    seen: list[str] = []

    async def look(request: RouteRequest) -> dict[str, Any]:
        seen.append(request.caller.id)
        return {"output": {}}

    async with CapabilityBus() as bus:

        async def own(request: RouteRequest) -> dict[str, Any]:
            await request.call("who.look", (1, 0), {})
            return await bus.call("who.look", (1, 0), {})

        offer(bus, "who.look", look)
        offer(bus, "who.own", own)
        await bus.call("who.own", (1, 0), {}, caller=caller("ann"))

    assert seen == ["ann", "self"]


# ── 40: ids that others guess ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize("session", [None, "s-1"])
@pytest.mark.parametrize("side_effects", [False, True])
async def test_case_40_the_id_of_somebody_elses_call_is_another_call(
    journal: bool, session: str | None, side_effects: bool
) -> None:
    async def secret(request: RouteRequest) -> dict[str, Any]:
        return {"output": {"for": request.caller.id, "session": request.session_id}}

    async with CapabilityBus(journal=MemoryJournal() if journal else None) as bus:
        offer(bus, "mail.read", secret, side_effects=side_effects)
        how: Any = {"call_id": "c-1", "session_id": session}
        found = [
            (await bus.call("mail.read", (1, 0), {}, caller=caller(who), **how))["output"]
            for who in ("ann", "eve", "ann")
        ]

    assert [each["for"] for each in found] == ["ann", "eve", "ann"]


async def test_case_40_who_guesses_the_id_of_a_call_under_way_neither_joins_nor_ends_it() -> None:
    held = HeldHandler()
    async with asyncio.timeout(PATIENCE), CapabilityBus() as bus:
        offer(bus, "mail.read", held, timeout_seconds=PATIENCE)
        ann = asyncio.create_task(bus.call("mail.read", (1, 0), {}, caller=caller("ann"), call_id="c-1"))
        await held.begun.wait()
        eve = asyncio.create_task(bus.call("mail.read", (1, 0), {}, caller=caller("eve"), call_id="c-1"))
        await held.reach(2)
        eve.cancel()
        await asyncio.wait({eve})
        held.release.set()

        assert (await ann)["output"] == {"runs": 2}
