"""nrv's client: the order of its stream, its codes, and one result for each call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from handrail import Attachment, Invocation, Limits, Output, Policy, RegisteredTools, ToolError, ToolRegistry, tool
from handrail.compat.nrv import (
    Completed,
    Error,
    Metrics,
    Started,
    StreamEvent,
    Token,
    ToolCallStreamEvent,
    ToolResultStreamEvent,
    client,
    payload,
)
from handrail.core.calls import ToolResult as Answer
from handrail.core.context import Context
from handrail.core.errors import (
    OUTCOMES,
    HandrailError,
    LeaseHeld,
    ModelError,
    ModelUnavailable,
    Outcome,
    ProtocolError,
    RateLimited,
    RequestRefused,
)
from handrail.core.events import ModelEvent, ReplyFinished, RunFinished, TextDelta
from handrail.core.model_request import ModelRequest
from handrail.testing.clock import FixedClock
from handrail.testing.ids import CountedIds
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text


async def read_file(invocation: Invocation) -> Any:
    """Read a file."""
    if invocation.input["path"] == "missing":
        return ToolError("NOT_FOUND", "no such file")
    if invocation.input["path"] == "slow":
        await asyncio.Event().wait()
    return Output("hello", ("cut",), (Attachment("a", "text/plain", b"x"),))


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def tools() -> RegisteredTools:
    registry = ToolRegistry(names="kebab")
    registry.register({"name": "read-file", "description": "Read a file.", "input_schema": SCHEMA}, read_file)
    return registry.freeze()


async def told(model: Any, **options: Any) -> list[StreamEvent]:
    async with client(tools=tools(), model=model, clock=FixedClock(), new_id=CountedIds(), **options) as nrv_client:
        return [event async for event in nrv_client.stream("go")]


def payloads(events: list[StreamEvent]) -> list[Any]:
    return [json.loads(event.payload_json) for event in events if isinstance(event, ToolResultStreamEvent)]


@pytest.mark.requirement("nrv.lifecycle")
async def test_each_tool_call_of_the_stream_is_answered_on_the_stream() -> None:
    model = ScriptedModel([text("Reading."), call("read-file", "c1", path="a")], [text("It says "), text("hello.")])

    assert await told(model) == [
        Started("run_2", 1_700_000_000_000),
        Token("Reading.", 0),
        ToolCallStreamEvent("read-file", "c1", '{"path":"a"}'),
        ToolResultStreamEvent(
            "c1",
            '{"output":"hello","warnings":["cut"],"attachments":[{"name":"a","media_type":"text/plain","data":"eA=="}]}',
        ),
        Token("It says ", 1),
        Token("hello.", 2),
        Metrics(latency_ms=0),
        Completed("stop"),
    ]


@pytest.mark.requirement("nrv.lifecycle")
async def test_a_call_that_does_not_fit_its_schema_or_names_no_tool_is_answered_with_a_code_and_does_not_run() -> None:
    events = await told(ScriptedModel([call("read-file", path=1), call("wipe-disk")], [text("sorry")]))

    assert sorted(payload["error"]["code"] for payload in payloads(events)) == ["INVALID_INPUT", "UNKNOWN_TOOL"]
    assert events[-1] == Completed("stop")


@pytest.mark.requirement("nrv.lifecycle")
@pytest.mark.requirement("nrv.timeout-code")
async def test_a_tool_runs_under_its_timeout_and_its_own_code_is_kept() -> None:
    model = ScriptedModel([call("read-file", path="slow"), call("read-file", path="missing")], [text("sorry")])

    events = await told(model, policy=Policy(timeout=0.5))

    found = {payload["error"]["code"] for payload in payloads(events)}
    assert found == {"TIMEOUT", "NOT_FOUND"}


async def test_with_a_proof_sink_every_invocation_is_recorded() -> None:
    sink = MemoryJournal()

    await told(ScriptedModel([call("read-file", "c1", path="a")], [text("ok")]), proof_sink=sink)

    recorded = [type(event).__name__ for event in sink.events]
    assert recorded.index("CallIntended") < recorded.index("CallSettled")


async def test_a_stream_lets_go_of_its_run_when_it_ends_unless_the_run_was_named() -> None:
    sink, model = MemoryJournal(), ScriptedModel([text("one")], [text("two")])
    async with client(tools=tools(), model=model, proof_sink=sink, new_id=CountedIds()) as nrv_client:
        for context in (Context(), Context(run="theirs"), Context()):
            async for _ in nrv_client.stream("go", context):
                pass

        ends = [(event.run, event.reason) for event in sink.events if isinstance(event, RunFinished)]
        assert ends == [("run_2", "done"), ("run_3", "failed")]
        (await sink.lease("run_2")).release()
        with pytest.raises(LeaseHeld):
            await sink.lease("theirs")


@pytest.mark.parametrize(
    ("error", "code", "retriable", "after"),
    [
        (RateLimited("slow down", retry_after=1.5), "RATE_LIMIT", True, 1500),
        (ModelUnavailable("down"), "MODEL_UNAVAILABLE", True, None),
        (RequestRefused("who are you", status=401), "AUTH_REQUIRED", False, None),
        (RequestRefused("bad", status=400), "HTTP_ERROR", False, None),
        (ProtocolError("cut"), "STREAM_ABORTED", True, None),
        (ModelError("odd"), "STREAM_ERROR", False, None),
    ],
)
async def test_a_failure_of_the_model_ends_the_stream_with_its_code(
    error: HandrailError, code: str, retriable: bool, after: int | None
) -> None:
    class Failing:
        name = "failing"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            yield TextDelta(text="so far")
            raise error

    assert (await told(Failing()))[1:] == [Token("so far", 0), Error(code, str(error), retriable, after)]


async def test_a_limit_that_is_an_error_ends_the_stream_after_the_results() -> None:
    model = ScriptedModel([call("read-file", path="a")])

    events = await told(model, limits=Limits(iterations=1, on_limit="error"))

    assert [type(event) for event in events] == [Started, ToolCallStreamEvent, ToolResultStreamEvent, Error]
    last = events[-1]
    assert isinstance(last, Error)
    assert last.code == "LIMIT"


@pytest.mark.parametrize(("stop", "reason"), [("max_tokens", "length"), ("end", "stop"), ("refusal", "content_filter")])
async def test_why_the_reply_ended_is_said(stop: Any, reason: str) -> None:
    assert (await told(ScriptedModel([ReplyFinished(stop=stop)])))[-1] == Completed(reason)


async def test_a_side_effect_that_waits_for_a_person_is_answered_on_the_stream_too() -> None:
    @tool(side_effects=True)
    def send() -> None:
        raise NotImplementedError

    registered = ToolRegistry().register(send).freeze()
    async with client(tools=registered, model=ScriptedModel([call("send")], [text("waiting")])) as nrv_client:
        events = [event async for event in nrv_client.stream("go")]

    assert [payload["error"]["code"] for payload in payloads(events)] == ["CONFIRMATION_REQUIRED"]
    assert [type(event).__name__ for event in events][1:4] == ["ToolCall", "ToolResult", "Token"]


async def test_closing_the_stream_cancels_the_task_and_leaves_no_tool_running() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    registered = ToolRegistry().register(wait).freeze()
    async with client(tools=registered, model=ScriptedModel([call("wait")])) as nrv_client:
        events = nrv_client.stream("go")
        async for event in events:
            if isinstance(event, ToolCallStreamEvent):
                break
        async with asyncio.timeout(30):
            await started.wait()
        await events.aclose()

    assert ended.is_set()


@pytest.mark.parametrize("outcome", [outcome for outcome in OUTCOMES if outcome != "ok"])
def test_every_outcome_has_a_code(outcome: Outcome) -> None:
    assert payload(Answer("1", "t", "words", outcome=outcome))["error"]["code"].isupper()
