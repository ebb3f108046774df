"""AG-UI over the gateway: every event is read by the official package, and held to the order of the protocol."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from ag_ui.core import Event, EventType, RunAgentInput, Tool, ToolMessage, UserMessage
from hypothesis import given, strategies as st
from pydantic import TypeAdapter

from handrail import Executor, tool
from handrail.core.errors import BusError, ModelUnavailable
from handrail.core.events import ModelEvent, ReasoningDelta
from handrail.core.model_request import ModelRequest
from handrail.journal.journal import SqliteJournal
from handrail.node.gateways.agui.read import read_agui_request
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import ServedGateway, finished, gateway_of, scene, served

READ: TypeAdapter[Any] = TypeAdapter(Event)


def asked(*messages: Any, **more: Any) -> dict[str, Any]:
    """The input of a run, as the official package writes it."""
    said = messages or (UserMessage(id="u1", content="Add 1 and 2"),)
    given = {"thread_id": "t1", "run_id": "r1", "state": {}, "tools": [], "context": [], "forwarded_props": {}}
    input = RunAgentInput(**{**given, "messages": list(said), **more})
    written: dict[str, Any] = json.loads(input.model_dump_json(by_alias=True))
    return written


async def run(there: ServedGateway, input: dict[str, Any]) -> list[Any]:
    """The events of a run, in an order that the protocol allows."""
    async with there.http() as client:
        answer = await client.post("/agui", json=input)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    lines = [line for line in answer.text.splitlines() if line.startswith("data: ")]
    events = [READ.validate_json(line.removeprefix("data: ")) for line in lines]
    check_order(events)
    return events


def check_order(events: list[Any]) -> None:
    """One run from its start to its end; messages and calls are opened once, and closed before the next one."""
    assert events[0].type is EventType.RUN_STARTED
    assert [each.type for each in events].count(EventType.RUN_STARTED) == 1
    assert events[-1].type in (EventType.RUN_FINISHED, EventType.RUN_ERROR)
    open_now: list[str] = []
    for event in events:
        kind = event.type.value
        if kind.endswith("_START"):
            open_now.append(kind.removesuffix("_START"))
        elif kind.endswith("_END"):
            assert open_now.pop() == kind.removesuffix("_END")
        elif kind.endswith(("_CONTENT", "_ARGS")):
            assert open_now[-1] == kind.rpartition("_")[0]
    assert open_now == []


def kinds(events: list[Any]) -> list[str]:
    return [each.type.value for each in events]


async def test_text_reasoning_and_calls_of_the_node_are_events_of_one_run() -> None:
    model = ScriptedModel(
        [ReasoningDelta(text="Hm."), text("Let me "), text("see."), call("add", a=1, b=2), finished("tool_calls")],
        [text("It is 3."), finished()],
    )
    async with scene(model) as there:
        events = await run(there, asked())

    assert kinds(events) == [
        "RUN_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "RUN_FINISHED",
    ]
    by_kind = {each.type.value: each for each in events}
    assert (events[0].thread_id, events[0].run_id) == ("t1", "r1")
    assert by_kind["TOOL_CALL_START"].tool_call_name == "add"
    assert json.loads(by_kind["TOOL_CALL_ARGS"].delta) == {"a": 1, "b": 2}
    assert by_kind["TOOL_CALL_RESULT"].content == "3"
    assert by_kind["RUN_FINISHED"].outcome.type == "success"
    assert by_kind["RUN_FINISHED"].usage[0].output_tokens == 6


async def test_a_tool_of_the_frontend_is_handed_over_and_its_result_goes_on() -> None:
    paint = Tool(name="paint", description="Paint the page", parameters={"type": "object"})
    model = ScriptedModel(
        [call("paint", color="red"), finished("tool_calls")],
        [text("It is red."), finished()],
    )
    async with scene(model) as there:
        first = await run(there, asked(tools=[paint]))
        started = next(each for each in first if each.type is EventType.TOOL_CALL_START)
        assert first[-1].outcome.pending_tool_call_ids == [started.tool_call_id]

        function = {"name": "paint", "arguments": '{"color":"red"}'}
        called = {"id": "a1", "role": "assistant", "toolCalls": [{"id": started.tool_call_id, "function": function}]}
        done = ToolMessage(id="m1", role="tool", tool_call_id=started.tool_call_id, content="painted")
        said = UserMessage(id="u1", content="Paint it red")
        second = await run(there, asked(said, called, done, tools=[paint], run_id="r2"))

    assert "".join(each.delta for each in second if each.type is EventType.TEXT_MESSAGE_CONTENT) == "It is red."
    assert "painted" in str(model.requests[1].messages[-1])


def poster() -> tuple[Any, list[str]]:
    wall: list[str] = []

    @tool(side_effects=True)
    async def post(words: str) -> str:
        """Put something on the wall."""
        wall.append(words)
        return "done"

    return post, wall


@pytest.mark.parametrize(
    ("may_answer", "payload", "posted"),
    [(True, {"approved": True}, ["hi"]), (True, {"approved": False}, []), (False, {"approved": True}, [])],
    ids=["allowed", "denied", "somebody else"],
)
async def test_a_side_effect_is_an_interrupt_that_the_person_of_the_node_answers(
    tmp_path: Path, may_answer: bool, payload: Any, posted: list[str]
) -> None:
    post, wall = poster()
    model = ScriptedModel([call("post", words="hi"), finished("tool_calls")], [text("Done."), finished()])
    said = UserMessage(id="u1", content="Post hi")
    async with (
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        Executor([post], journal=journal) as executor,
        served(gateway_of(model, executor, may_answer=lambda caller: may_answer)) as there,
    ):
        first = await run(there, asked(said))
        (interrupt,) = first[-1].outcome.interrupts
        called = next(each for each in first if each.type is EventType.TOOL_CALL_START)
        assert (wall, interrupt.reason, interrupt.tool_call_id) == ([], "tool_call", called.tool_call_id)
        assert "handrail confirm allow" in (interrupt.message or "")

        entry = {"interruptId": interrupt.id, "status": "resolved", "payload": payload}
        function = {"name": "post", "arguments": '{"words":"hi"}'}
        before = {"id": "a1", "role": "assistant", "toolCalls": [{"id": called.tool_call_id, "function": function}]}
        resumed = {**asked(said), "messages": [*asked(said)["messages"], before], "resume": [entry]}
        again = await run(there, {**resumed, "runId": "r2"})

        assert wall == posted
        if may_answer:
            result = next(each for each in again if each.type is EventType.TOOL_CALL_RESULT)
            assert result.tool_call_id == called.tool_call_id
            assert again[-1].outcome.type == "success"
        else:
            assert again[-1].outcome.type == "interrupt"
            assert any(each.type is EventType.CUSTOM and "whoever does not run" in each.value for each in again)

        if posted:  # a frontend that was cut off repeats the request: nothing is posted a second time
            await run(there, {**resumed, "runId": "r3"})
            assert wall == posted


async def test_what_the_frontend_did_meanwhile_is_known_to_the_run_that_goes_on(tmp_path: Path) -> None:
    post, wall = poster()
    paint = Tool(name="paint", description="Paint the page", parameters={"type": "object"})
    model = ScriptedModel(
        [call("paint", color="red"), call("post", words="hi"), finished("tool_calls")], [text("Done."), finished()]
    )
    async with (
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        Executor([post], journal=journal) as executor,
        served(gateway_of(model, executor, may_answer=lambda caller: True)) as there,
    ):
        first = await run(there, asked(tools=[paint]))
        (interrupt,) = first[-1].outcome.interrupts
        ids = {each.tool_call_name: each.tool_call_id for each in first if each.type is EventType.TOOL_CALL_START}
        calls = [{"id": id, "function": {"name": name, "arguments": "{}"}} for name, id in ids.items()]
        results = [
            {"id": name, "role": "tool", "toolCallId": id, "content": f"the frontend says {name}"}
            for name, id in ids.items()  # of the node's own call it can say nothing
        ]
        again = asked(tools=[paint], run_id="r2")
        again["messages"] += [{"id": "a1", "role": "assistant", "toolCalls": calls}, *results]
        again["resume"] = [{"interruptId": interrupt.id, "status": "resolved", "payload": {"approved": True}}]
        second = await run(there, again)

    assert (wall, second[-1].outcome.type, second[-1].outcome.pending_tool_call_ids) == (["hi"], "success", None)
    assert "".join(each.delta for each in second if each.type is EventType.TEXT_MESSAGE_CONTENT) == "Done."
    heard = str(model.requests[-1].messages)
    assert ("the frontend says paint" in heard, "the frontend says post" in heard) == (True, False)


async def test_a_person_who_goes_on_talking_leaves_the_call_undone(tmp_path: Path) -> None:
    post, wall = poster()
    model = ScriptedModel([call("post", words="hi"), finished("tool_calls")], [text("All right."), finished()])
    said = UserMessage(id="u1", content="Post hi")
    async with (
        await SqliteJournal.open(tmp_path / "journal.db") as journal,
        Executor([post], journal=journal) as executor,
        served(gateway_of(model, executor)) as there,
    ):
        first = await run(there, asked(said))
        called = next(each for each in first if each.type is EventType.TOOL_CALL_START)
        function = {"name": "post", "arguments": '{"words":"hi"}'}
        before = {"id": "a1", "role": "assistant", "toolCalls": [{"id": called.tool_call_id, "function": function}]}
        messages = [*asked(said)["messages"], before, {"id": "u2", "role": "user", "content": "Never mind."}]
        second = await run(there, {**asked(said, run_id="r2"), "messages": messages})

    assert (wall, second[-1].outcome.type) == ([], "success")
    assert "not carried out" in str(model.requests[1].messages)


class _LostModel:
    """One whose service is gone in the middle of a reply."""

    name = "m"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield text("So")
        raise ModelUnavailable("the service is gone")


async def test_what_goes_wrong_is_an_error_of_the_request_or_the_last_event() -> None:
    async with scene(_LostModel()) as there:
        events = await run(there, asked())
        assert (events[-1].type, events[-1].code != "") == (EventType.RUN_ERROR, True)

        async with there.http() as client:
            for body, words in (
                ({}, "threadId"),
                ({**asked(), "messages": [{"role": "nobody", "content": ""}]}, "messages[0]"),
                ({**asked(), "resume": [{"interruptId": "x", "status": "cancelled"}]}, "interruptId"),
                ({**asked(), "forwardedProps": {"model": 3}}, "forwardedProps.model"),
                ({**asked(), "forwardedProps": {"model": "none"}}, "none"),
            ):
                answer = await client.post("/agui", json=body)
                assert (answer.status_code in (400, 404), words in answer.json()["error"]["message"]) == (True, True), (
                    body
                )
        async with there.http("wrong") as client:
            assert (await client.post("/agui", json=asked())).status_code == 401


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ROLES = st.sampled_from(["user", "assistant", "tool", "system", "developer", "reasoning", "activity", "other"])


@given(
    messages=st.lists(st.fixed_dictionaries({"role": ROLES}, optional={"content": JSON, "toolCalls": JSON})), more=JSON
)
def test_any_input_is_read_or_refused_with_its_place(messages: list[Any], more: Any) -> None:
    body = {"threadId": "t", "runId": "r", "messages": messages, "resume": [], "context": more, "tools": more}
    try:
        read_agui_request(json.dumps(body).encode(), {}, 1_000_000)
    except BusError as refused:
        assert refused.code == "bad_request"
