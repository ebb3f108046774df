"""A call that a server takes as a task: asked for until it has ended, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, strategies as st

from conformance.run import fixture_server
from handrail import Executor, Policy, ToolCall, ToolResult
from handrail.core.confirmation import Allow, Confirmation, Decision, Deny, Edit
from handrail.core.events import CallProgress, Event
from handrail.mcp import mcp_ensemble
from handrail.mcp.client.server_questions import ApproverQuestionHandler
from handrail.mcp.client.tasks import IDENTIFIER, TaskPollingPace
from handrail.mcp.values import HttpEndpoint, McpBounds
from tests.mcp.servers.raw_http_server import JSON, MODERN, ConnectionAborted, RawHttpServer, error, send

pytestmark = pytest.mark.requirement("converser.mcp-more")

TOOLS = [
    {"name": "work", "inputSchema": {"type": "object"}},
    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
]
FORM = {"type": "object", "properties": {"sure": {"type": "boolean", "default": True}}}
QUESTION = {"method": "elicitation/create", "params": {"mode": "form", "message": "Sure?", "requestedSchema": FORM}}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "hm?"}}], "maxTokens": 5},
}
WORKING = {"status": "working"}
DONE = {"status": "completed", "result": {"content": [{"type": "text", "text": "all done"}]}}
GONE = {"error": -32602}
ABORT = {"abort": True}


@dataclass
class Tasked(RawHttpServer):
    """It takes every call as a task, which then goes through what the test wrote down; the last state stays."""

    modern: bool = True
    states: list[dict[str, Any]] = field(default_factory=list)
    interval: int | None = 1
    first: str = "working"
    sent: list[dict[str, Any]] = field(default_factory=list)
    """The parameters of what was heard, in its order."""
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def hear(self, method: str, id: Any, params: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        self.sent.append(params | {"method": method, "named": self.headers[-1].get("mcp-name")})
        abilities: dict[str, Any] = {"tools": {}, "extensions": {IDENTIFIER: {}}}
        listing = {"ttlMs": 0, "cacheScope": "private"}
        match method:
            case "server/discover":
                found: dict[str, Any] = {"supportedVersions": [MODERN], "capabilities": abilities, **listing}
            case "tools/list":
                found = {"tools": TOOLS, **listing}
            case "tools/call":
                self.calls.append(params["name"])
                found = {"resultType": "task", "status": self.first, **self.described()}
            case "tasks/get":
                state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
                self.looked.set()
                if state is ABORT:
                    raise ConnectionAborted
                if "error" in state and "status" not in state:
                    return await send(writer, 400, JSON, error(id, state["error"], "no such task"))
                found = self.described() | state
            case "tasks/cancel":
                found = {}
                self.ended.set()
            case "tasks/update":
                found = {}
            case _:
                return await send(writer, 404, JSON, error(id, -32601, f"no {method}"))
        await send(writer, 200, JSON, self.result(id, found))

    def described(self) -> dict[str, Any]:
        at = "2026-11-15T10:00:00Z"
        pace = {} if self.interval is None else {"pollIntervalMs": self.interval}
        return {"taskId": "task-1", "createdAt": at, "lastUpdatedAt": at, "ttlMs": 60_000, **pace}

    def asked(self, method: str) -> list[dict[str, Any]]:
        return [each for each in self.sent if each["method"] == method]


class Answering:
    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self.questions: list[Confirmation] = []

    async def decide(self, question: Confirmation) -> Decision:
        self.questions.append(question)
        return self.decision


@asynccontextmanager
async def working(server: Tasked, approver: Answering | None = None, **options: Any) -> AsyncIterator[Executor]:
    await server.start()
    asking = None if approver is None else ApproverQuestionHandler(approver)
    ensemble = mcp_ensemble("far", HttpEndpoint(url=server.url), required=True, asking=asking, **options)
    try:
        async with ensemble, Executor([ensemble], policy=Policy(confirm_side_effects=False)) as executor:
            yield executor
    finally:
        await server.kill()


async def invoke(executor: Executor, name: str = "work", seen: list[Event] | None = None) -> ToolResult:
    async def emit(event: Event) -> None:
        if seen is not None:
            seen.append(event)

    async with asyncio.timeout(20):
        return await executor.invoke(ToolCall("", f"far:{name}", {}), emit=emit)


async def test_a_task_is_asked_for_until_it_has_a_result() -> None:
    server = Tasked(states=[WORKING, WORKING, DONE])
    async with working(server) as executor:
        result = await invoke(executor)
    assert (result.outcome, result.text) == ("ok", "all done")
    assert server.calls == ["work"]
    assert [each["named"] for each in server.asked("tasks/get")] == 3 * ["task-1"]
    declared = server.asked("tools/call")[0]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert IDENTIFIER in declared["extensions"]


async def test_what_a_task_says_about_itself_is_progress() -> None:
    halfway = {"status": "working", "statusMessage": "halfway there"}
    server = Tasked(states=[halfway, halfway, DONE])
    seen: list[Event] = []
    async with working(server) as executor:
        await invoke(executor, seen=seen)
    said = [event.stage for event in seen if isinstance(event, CallProgress)]
    assert said.count("halfway there") == 1


async def test_a_question_of_a_task_is_answered_like_any_other_and_once() -> None:
    """The server may list a question for a moment after it was answered."""
    asks = {"status": "input_required", "inputRequests": {"q1": QUESTION}}
    more = {"status": "input_required", "inputRequests": {"q1": QUESTION, "q2": QUESTION}}
    server = Tasked(states=[asks, asks, more, DONE])
    person = Answering(Allow(by="ada"))
    async with working(server, person) as executor:
        result = await invoke(executor)
    assert result.outcome == "ok"
    answer = {"action": "accept", "content": {"sure": True}}
    assert [each["inputResponses"] for each in server.asked("tasks/update")] == [{"q1": answer}, {"q2": answer}]
    assert [each["named"] for each in server.asked("tasks/update")] == ["task-1", "task-1"]
    assert [question.description for question in person.questions] == ["Sure?", "Sure?"]


async def test_a_person_who_says_no_tells_the_task_so() -> None:
    asks = {"status": "input_required", "inputRequests": {"q1": QUESTION}}
    server = Tasked(states=[asks, DONE])
    async with working(server, Answering(Deny(by="ada"))) as executor:
        await invoke(executor)
    assert server.asked("tasks/update")[0]["inputResponses"] == {"q1": {"action": "decline"}}


async def test_a_task_that_asks_what_nobody_here_can_answer_is_cancelled() -> None:
    server = Tasked(states=[{"status": "input_required", "inputRequests": {"q1": SAMPLE}}])
    async with working(server) as executor:
        result = await invoke(executor)
    assert result.outcome == "failed"
    assert len(server.asked("tasks/cancel")) == 1


async def test_a_task_that_never_stops_asking_is_cancelled() -> None:
    asks = [{"status": "input_required", "inputRequests": {f"q{number}": QUESTION}} for number in range(9)]
    server = Tasked(states=asks)
    async with working(server, Answering(Allow(by="ada")), bounds=McpBounds(rounds=3)) as executor:
        result = await invoke(executor)
    assert result.outcome == "failed"
    assert "more than 3 times" in result.text
    assert len(server.asked("tasks/update")) == 3
    assert len(server.asked("tasks/cancel")) == 1


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"status": "failed", "error": {"code": -32603, "message": "the disk is full"}}, "the disk is full"),
        ({"status": "failed", "statusMessage": "it broke"}, "it broke"),
        ({"status": "cancelled", "statusMessage": "somebody else"}, "cancelled the task: somebody else"),
        ({"status": "completed", "result": {"content": [{"type": "text", "text": "no!"}], "isError": True}}, "no!"),
    ],
)
async def test_a_task_that_ends_badly_is_a_call_that_failed(state: dict[str, Any], words: str) -> None:
    server = Tasked(states=[WORKING, state])
    async with working(server) as executor:
        result = await invoke(executor)
    assert result.outcome == "failed"
    assert words in result.text
    assert server.asked("tasks/cancel") == []


async def test_whoever_gives_up_tells_the_server() -> None:
    server = Tasked(states=[WORKING])
    async with working(server) as executor:
        calling = asyncio.create_task(invoke(executor))
        async with asyncio.timeout(20):
            await server.looked.wait()
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            await server.ended.wait()
    assert [each["named"] for each in server.asked("tasks/cancel")] == ["task-1"]


async def test_a_side_effect_under_way_as_a_task_survives_its_connection_and_is_sent_once() -> None:
    server = Tasked(states=[WORKING, ABORT, WORKING, DONE])
    async with working(server) as executor:
        result = await invoke(executor)
    assert (result.outcome, result.text) == ("ok", "all done")
    assert server.calls == ["work"]
    assert server.asked("tasks/cancel") == []


@pytest.mark.parametrize(("name", "outcome"), [("work", "in_doubt"), ("look", "failed")])
async def test_a_task_that_its_server_forgot_leaves_a_side_effect_in_doubt(name: str, outcome: str) -> None:
    server = Tasked(states=[WORKING, GONE])
    async with working(server) as executor:
        result = await invoke(executor, name)
    assert result.outcome == outcome
    assert "task-1" in result.text
    assert server.calls == [name]


@pytest.mark.parametrize(("name", "outcome"), [("work", "in_doubt"), ("look", "failed")])
async def test_a_task_of_which_its_server_tells_nothing_more_is_not_one_that_failed(name: str, outcome: str) -> None:
    async with working(Tasked(states=[WORKING, {"error": -32603}])) as executor:
        assert (await invoke(executor, name)).outcome == outcome


async def test_a_task_that_cannot_be_understood_is_cancelled() -> None:
    server = Tasked(states=[{"status": "dreaming"}])
    async with working(server) as executor:
        result = await invoke(executor, "look")
    assert result.outcome == "failed"
    assert len(server.asked("tasks/cancel")) == 1


async def test_our_client_and_our_server_understand_each_other_about_tasks() -> None:
    """The server is the one that the conformance suite tests."""
    person = Answering(Edit("ada", {"confirm": True}))
    with fixture_server() as url:
        ensemble = mcp_ensemble("far", HttpEndpoint(url=url), required=True, asking=ApproverQuestionHandler(person))
        async with ensemble, Executor([ensemble], policy=Policy(confirm_side_effects=False)) as executor:
            assert "tasks" in ensemble.connection.facts.capabilities
            calls = (
                ToolCall("", "far:slow_compute", {"seconds": 1, "label": "here"}),
                ToolCall("", "far:confirm_delete", {"filename": "old.txt"}),
                ToolCall("", "far:failing_job", {}),
            )
            results = await executor.invoke_all(calls)
    assert [result.outcome for result in results] == ["ok", "ok", "failed"]
    assert len(person.questions) == 1


@given(st.none() | st.integers(min_value=-(10**12), max_value=10**12))
def test_no_server_decides_alone_how_often_it_is_asked(proposed: int | None) -> None:
    pace = TaskPollingPace(usual=1, shortest=0.05, longest=30)
    wait = pace.wait(proposed)
    assert pace.shortest <= wait <= pace.longest
    if proposed is None:
        assert wait == pace.usual
    elif 50 <= proposed <= 30_000:
        assert wait == proposed / 1000
