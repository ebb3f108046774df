"""What crosses to a worker and back, in a plain process and behind a jail: one suite for both."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from handrail.core.calls import Attachment, Output, ToolCall
from handrail.core.context import Context, Principal
from handrail.core.errors import Forbidden, InvalidArguments, TimedOut, ToolError
from handrail.core.invocation import Invocation
from handrail.execute.isolation.process_pool import ProcessPool
from handrail.execute.isolation.sandbox_pool import SandboxPool
from handrail.execute.isolation.worker_limits import SandboxLimits
from handrail.sandbox.jail import unavailable
from handrail.tools.tool import Tool
from tests.execute.isolation import process_tools as tools
from tests.execute.isolation.test_process_pool import call

Pool = ProcessPool | SandboxPool

pytestmark = pytest.mark.asyncio(loop_scope="module")


needs_jail = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


@pytest_asyncio.fixture(
    params=["process", pytest.param("sandbox", marks=needs_jail)], scope="module", loop_scope="module"
)
async def pool(request: pytest.FixtureRequest) -> AsyncIterator[Pool]:
    """One for all of them: a worker that has survived one test is good enough for the next."""
    pool = ProcessPool() if request.param == "process" else SandboxPool(SandboxLimits(calls=10_000))
    async with pool:
        yield pool


async def test_a_plain_tool_runs_in_another_process(pool: Pool) -> None:
    assert await call(pool, tools.add, {"a": 1, "b": 2}) == 3
    assert (await call(pool, tools.whereabouts))["imported_in"] != os.getpid()


async def test_an_async_tool_runs_in_a_loop_of_its_own(pool: Pool) -> None:
    assert await call(pool, tools.add_later, {"a": 1, "b": 2}) == 3


async def test_arguments_become_the_types_of_the_signature(pool: Pool) -> None:
    assert await call(pool, tools.norm, {"point": {"x": 3, "y": 4}}) == 25


async def test_arguments_that_a_type_refuses_are_invalid_arguments(pool: Pool) -> None:
    with pytest.raises(InvalidArguments) as caught:
        await call(pool, tools.norm, {"point": {"x": "three"}})
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith("point: ")


@pytest.mark.parametrize(
    ("handler", "expected"),
    [(tools.with_context, ["call-1", {"a": 1}]), (tools.by_name, ["by_name", {"a": 1}])],
)
async def test_every_style_of_handler_works(pool: Pool, handler: Callable[..., Any], expected: Any) -> None:
    untyped = Tool.from_function(handler, schema={"type": "object"})
    assert await call(pool, untyped, {"a": 1}) == expected


async def test_the_invocation_arrives_but_for_the_token(pool: Pool) -> None:
    untyped = Tool.from_function(tools.describe_call, schema={"type": "object"}, name="describe")
    context = Context(
        run="run-1",
        principal=Principal("ann", ("describe",)),
        token="a secret",
        depth=2,
        auxdata={"a": [1]},
        namespace={"b": None},
    )
    assert await call(pool, untyped, {"x": 1}, context=context) == {
        "id": "call-1",
        "name": "describe",
        "input": {"x": 1},
        "run": "run-1",
        "principal": "ann",
        "may": False,
        "token": None,
        "depth": 2,
        "key": "key-1",
        "auxdata": {"a": [1]},
        "namespace": {"b": None},
    }


async def test_what_is_not_json_does_not_cross_and_is_named(pool: Pool) -> None:
    with pytest.raises(ToolError, match=r"auxdata\.db is a object") as caught:
        await call(pool, tools.add, {"a": 1}, context=Context(auxdata={"db": object()}))
    assert caught.value.code == "cannot_cross"


async def test_warnings_attachments_and_large_numbers_come_back(pool: Pool) -> None:
    invocation = Invocation(ToolCall("c", "with_attachment"), {}, Context())
    assert await pool.run(tools.with_attachment, invocation, {}) == Output(
        {"n": 10**30}, ("careful",), (Attachment("a.bin", "application/octet-stream", b"\x00\xff"),)
    )


async def test_progress_arrives_in_order_and_before_the_answer(pool: Pool) -> None:
    seen: list[tuple[float | None, float | None, str]] = []
    answer = await call(pool, tools.count_to, {"n": 200}, report=lambda *step: seen.append(step))
    assert answer == "counted"
    assert seen == [(number, 200, f"step {number}") for number in range(200)]


async def test_an_error_of_the_progress_callback_reaches_the_caller_and_stops_the_work(pool: Pool) -> None:
    def refuse(current: float | None, total: float | None, stage: str) -> None:
        raise LookupError(stage)

    with pytest.raises(LookupError, match="step 0"):
        await call(pool, tools.count_to, {"n": 3}, report=refuse)
    assert await call(pool, tools.add, {"a": 1}) == 2


async def test_another_tool_cannot_be_called_from_a_worker(pool: Pool) -> None:
    with pytest.raises(ToolError, match="use isolation='thread'"):
        await call(pool, tools.call_another)


@pytest.mark.parametrize("sort", [tools.raise_that, tools.raise_that_later])
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("RuntimeError", "RuntimeError: kaput"),
        ("SystemExit", "SystemExit: 3"),
        ("KeyboardInterrupt", "KeyboardInterrupt"),
        ("CancelledError", "CancelledError"),
        ("GeneratorExit", "GeneratorExit"),
    ],
)
async def test_whatever_a_tool_raises_is_an_answer_and_the_worker_goes_on(
    pool: Pool, sort: Tool, kind: str, text: str
) -> None:
    before = await call(pool, tools.whereabouts)
    with pytest.raises(ToolError) as caught:
        await call(pool, sort, {"kind": kind})
    assert (caught.value.code, caught.value.message) == ("failed", text)
    assert await call(pool, tools.whereabouts) == {**before, "calls": before["calls"] + 1}


async def test_a_crash_carries_the_trace_of_the_worker_as_a_note(pool: Pool) -> None:
    with pytest.raises(ToolError) as caught:
        await call(pool, tools.raise_that, {"kind": "RuntimeError"})
    assert "in raise_that" in caught.value.__notes__[0]


async def test_a_tool_error_keeps_its_code_and_its_outcome(pool: Pool) -> None:
    with pytest.raises(ToolError, match="no such city") as caught:
        await call(pool, tools.raise_that, {"kind": "ToolError"})
    assert caught.value.code == "NOT_FOUND"
    with pytest.raises(Forbidden, match="not for you"):
        await call(pool, tools.raise_that, {"kind": "Forbidden"})


async def test_endless_recursion_is_an_answer(pool: Pool) -> None:
    with pytest.raises(ToolError, match="RecursionError"):
        await call(pool, tools.recurse)


async def test_megabytes_cross_both_ways(pool: Pool) -> None:
    text = "é" * 2**21
    assert await call(pool, tools.echo, {"text": text}) == text


async def test_a_lost_worker_is_an_answer_with_the_reason_and_the_next_call_gets_another(pool: Pool) -> None:
    with pytest.raises(ToolError, match="exit code 3") as caught:
        await call(pool, tools.leave, {"code": 3})
    assert caught.value.code == "worker_lost"
    assert await call(pool, tools.add, {"a": 1}) == 2


async def test_a_worker_that_segfaults_is_told_by_the_name_of_the_signal(pool: Pool) -> None:
    with pytest.raises(ToolError, match="SIGSEGV") as caught:
        await call(pool, tools.segfault)
    assert caught.value.code == "worker_lost"


async def test_what_takes_too_long_is_answered_as_a_timeout(pool: Pool) -> None:
    assert await call(pool, tools.add, {"a": 1}) == 2  # a worker is ready: the time is that of the work alone
    with pytest.raises(TimedOut, match=r"longer than 0.3 s and was stopped"):
        await call(pool, tools.wait_for_ever, timeout=0.3)
    assert await call(pool, tools.add, {"a": 1}) == 2
