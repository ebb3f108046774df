"""Tools that raise or return what they should not: the call gets the right answer, and the next one works."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from typing import Any

import pytest

from handrail import Executor, ToolCall, tool
from handrail.core.errors import Outcome
from handrail.execute.spill import MemorySpill, read_output_tool


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


class Thing:
    pass


RAISES: list[BaseException] = [
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    GeneratorExit(),
    RecursionError("too deep"),
    MemoryError(),
    StopIteration(1),
    BaseExceptionGroup("several", [KeyboardInterrupt()]),
]

RETURNS: list[tuple[Callable[[], Any], Outcome, Any]] = [
    (lambda: "a\ud800b", "ok", "a\\ud800b"),
    (lambda: float("nan"), "ok", "nan"),
    (lambda: {"b", "a"}, "ok", ["a", "b"]),
    (lambda: datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "ok", "2026-01-02T00:00:00Z"),
    (lambda: b"text", "ok", "text"),
    (lambda: b"\xff\x00", "ok", "/wA="),
    (lambda: {1: "one"}, "ok", {"1": "one"}),
    (lambda: 10**400, "ok", 10**400),
    (Thing, "failed", None),
    (lambda: nested(100_000), "failed", None),
    (lambda: (n for n in range(3)), "failed", None),
]


@pytest.mark.parametrize("error", RAISES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["loop", "thread"])
async def test_whatever_a_tool_raises_is_its_failure_and_the_next_call_works(error: BaseException, where: str) -> None:
    @tool
    async def in_loop(fail: bool) -> str:
        if fail:
            raise error
        return "fine"

    @tool
    def in_thread(fail: bool) -> str:
        if fail:
            raise error
        return "fine"

    async with Executor([in_loop, in_thread]) as executor:
        failed = await executor.invoke(ToolCall("1", f"in_{where}", {"fail": True}))
        after = await executor.invoke(ToolCall("2", f"in_{where}", {"fail": False}))

    assert failed.outcome == "failed"
    assert type(error).__name__ in failed.text or "StopIteration" in failed.text
    assert (after.outcome, after.content) == ("ok", "fine")


@pytest.mark.parametrize(("make", "outcome", "content"), RETURNS)
async def test_whatever_a_tool_returns_gets_the_right_outcome_and_the_next_call_works(
    make: Callable[[], Any], outcome: Outcome, content: Any
) -> None:
    @tool
    async def odd(fine: bool) -> Any:
        return "fine" if fine else make()

    async with Executor([odd]) as executor:
        result = await executor.invoke(ToolCall("1", "odd", {"fine": False}))
        after = await executor.invoke(ToolCall("2", "odd", {"fine": True}))

    assert result.outcome == outcome
    if outcome == "ok":
        assert result.content == content
    assert (after.outcome, after.content) == ("ok", "fine")


@pytest.mark.requirement("abstractllm.output-limit")
async def test_fifty_megabytes_are_cut_for_the_model_and_kept_to_be_read_in_pieces() -> None:
    whole = "".join(f"line {n}\n" for n in range(5_000_000))[:50_000_000]

    @tool
    async def dump() -> str:
        return whole

    spill = MemorySpill()
    async with Executor([dump, read_output_tool(spill)], spill=spill) as executor:
        result = await executor.invoke(ToolCall("1", "dump"))
        assert result.spilled is not None
        piece = await executor.invoke(
            ToolCall("2", "read_output", {"id": result.spilled.id, "start": 40_000_000, "length": 50})
        )
        lost = await executor.invoke(ToolCall("3", "read_output", {"id": "out_nothing"}))

    assert len(result.content) <= 10_000
    assert "10,000" not in result.content.splitlines()[0]
    assert result.warnings[0].startswith("output cut")
    assert result.spilled.characters == 50_000_000
    assert whole[40_000_000:40_000_050] in piece.content
    assert (lost.outcome, lost.error and lost.error.code) == ("failed", "not_found")


async def test_an_output_within_the_limit_is_left_as_it_is() -> None:
    @tool
    async def fits() -> dict[str, str]:
        return {"text": "é" * 4_000}

    async with Executor([fits]) as executor:
        result = await executor.invoke(ToolCall("1", "fits"))

    assert (result.content, result.warnings, result.spilled) == ({"text": "é" * 4_000}, (), None)


async def test_an_error_of_megabytes_or_one_that_cannot_be_shown_is_answered_in_bounds() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    @tool
    async def fail(how: str) -> None:
        raise ValueError("x" * 5_000_000 + "\ud800") if how == "long" else Unspeakable

    async with Executor([fail]) as executor:
        long = await executor.invoke(ToolCall("1", "fail", {"how": "long"}))
        mute = await executor.invoke(ToolCall("2", "fail", {"how": "mute"}))
        unknown = await executor.invoke(ToolCall("3", "y" * 5_000_000, {}))

    assert long.error is not None
    assert max(len(long.text), len(long.error.message), len(unknown.text)) < 5_000
    assert (long.outcome, mute.outcome, unknown.outcome) == ("failed", "failed", "unknown_tool")
    assert "Unspeakable" in mute.text


async def test_an_integer_too_long_to_be_written_is_held_to_the_limits_of_its_schema() -> None:
    schema = {"type": "object", "properties": {"cents": {"type": "integer", "maximum": 100, "multipleOf": 5}}}
    paid: list[int] = []

    @tool(schema=schema)
    async def pay(cents: int) -> None:
        paid.append(cents)

    async with Executor([pay]) as executor:
        results = [
            await executor.invoke(ToolCall(f"{sign}{digits}", "pay", {"cents": sign * 10**digits}))
            for digits in (3, 401, 4299, 4300, 5000)
            for sign in (1, -1)
        ]

    # A thousand below zero is allowed; what is longer than JSON text may be is not, whatever its sign.
    assert [result.outcome for result in results] == ["invalid_arguments", "ok", *["invalid_arguments"] * 8]
    assert paid == [-1000]
