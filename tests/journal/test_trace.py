"""A run as a waterfall: what its events say about where time and tokens went."""

from __future__ import annotations

from handrail.core.events import (
    CallIntended,
    CallSettled,
    ConfirmationAnswered,
    ConfirmationRequested,
    ReplyFailed,
    ReplyGiven,
    RunFinished,
    RunStarted,
    ToolsOffered,
)
from handrail.core.messages import AssistantMessage, Usage
from handrail.journal.trace import trace_of, usage_by_day

START = 1_700_000_000_000


def reply(at: int, *, taken: int, given: int, cached: int = 0, cost: float | None = None) -> ReplyGiven:
    usage = Usage(input_tokens=taken, output_tokens=given, cached_tokens=cached, cost=cost)
    said = AssistantMessage("…", START + at, "small", usage=usage)
    return ReplyGiven(
        run="run_1",
        at=START + at,
        model="small",
        stop="tool_calls",
        input_tokens=taken,
        output_tokens=given,
        messages=(said,),
    )


def intended(at: int, call: str, depth: int = 0) -> CallIntended:
    return CallIntended(
        run="run_1",
        at=START + at,
        call_id=call,
        tool=f"tool_{call}",
        side_effects=False,
        idempotent=True,
        key="key",
        depth=depth,
    )


def settled(at: int, call: str, took: int) -> CallSettled:
    return CallSettled(
        run="run_1",
        at=START + at,
        call_id=call,
        tool=f"tool_{call}",
        outcome="ok",
        duration_us=took * 1000,
        ran=True,
    )


EVENTS = (
    RunStarted(run="run_1", at=START, tools="sha256:0"),
    ToolsOffered(run="run_1", at=START + 10, tools=("tool_a",)),
    ReplyFailed(run="run_1", at=START + 20, model="small", attempt=1, error="unavailable", delay_ms=30),
    reply(100, taken=500, given=20, cached=400, cost=0.25),
    ConfirmationRequested(run="run_1", at=START + 110, request="q", call_id="a", tool="tool_a", binds="sha256:0"),
    ConfirmationAnswered(
        run="run_1", at=START + 5_110, request="q", call_id="a", binds="sha256:0", decision="allow", by="ada"
    ),
    intended(5_120, "a"),
    intended(5_130, "b", depth=1),
    settled(5_140, "b", 10),
    settled(5_220, "a", 100),
    ToolsOffered(run="run_1", at=START + 5_230, tools=("tool_a",)),
    reply(5_300, taken=600, given=10),
    RunFinished(run="run_1", at=START + 5_301, reason="done"),
)


def test_turns_calls_nested_calls_waits_and_failed_attempts_stand_where_they_were_in_time() -> None:
    trace = trace_of("run_1", EVENTS)

    assert [(each.kind, each.name, each.start, each.ms, each.depth, each.state) for each in trace.spans] == [
        ("retry", "small", 10, 10, 0, "unavailable"),
        ("turn", "small", 50, 50, 0, "tool_calls"),
        ("wait", "tool_a", 110, 5_000, 1, "allow by ada"),
        ("call", "tool_a", 5_120, 100, 1, "ok"),
        ("call", "tool_b", 5_130, 10, 2, "ok"),
        ("turn", "small", 5_230, 70, 0, "tool_calls"),
    ]
    assert (trace.started, trace.ms, trace.state) == (START, 5_301, "done")


def test_the_totals_have_the_tokens_of_the_turns_and_the_cost_of_those_that_have_one() -> None:
    totals = trace_of("run_1", EVENTS).totals

    assert (totals.turns, totals.calls, totals.failed, totals.retries, totals.waited_ms) == (2, 2, 0, 1, 5_000)
    assert (totals.input_tokens, totals.cached_tokens, totals.output_tokens, totals.cost) == (1_100, 400, 30, 0.25)


def test_what_is_not_over_has_no_end_and_a_run_that_this_one_began_stands_inside_of_it() -> None:
    trace = trace_of("run_1", EVENTS[:7], {"run_1.sub": EVENTS[1:4]})

    assert ("call", "tool_a", "") in [(each.kind, each.name, each.state) for each in trace.spans]
    shown = [(each.kind, each.name, each.start, each.depth) for each in trace.spans]
    inside = [each for each in shown if each[0] == "run" or each[3] == 2]
    assert inside == [("run", "run_1.sub", 10, 1), ("retry", "small", 10, 2), ("turn", "small", 50, 2)]


def test_replies_are_summed_by_day_and_model() -> None:
    later = tuple(reply(at, taken=1, given=1) for at in (86_400_000, 86_400_001))

    assert [(each.day, each.totals.turns, each.totals.retries) for each in usage_by_day((*EVENTS, *later))] == [
        ("2023-11-15", 2, 0),
        ("2023-11-14", 2, 1),
    ]
