"""A model behind a socket: in a runner it gives the tool loop, and what is a call is never guessed from a text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from handrail import Conversation, Executor, Runner, tool
from handrail.core.errors import BrokenChoice, ModelError, ModelUnavailable, ProtocolError, RateLimited
from handrail.core.events import AttemptFailed, CallRequested, ModelEvent, Notice, ReplyFinished, TextDelta
from handrail.core.framing import FrameSplitter
from handrail.core.messages import InvocationMessage, SupervisorMessage, Text, Usage, UserMessage
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.rlm.query.queries import Queries
from handrail.rlm.socket.connection import framed_response
from handrail.rlm.socket.handler import LMHandler
from handrail.rlm.socket.socket_model import SocketModel
from handrail.rlm.socket.wire import request_of
from handrail.rlm.values import LMRequest, LMResponse, RLMChatCompletion
from handrail.testing.model import ScriptedModel, call, text

LEGACY = json.dumps({"tool_calls": [{"id": "c1", "name": "add", "arguments": {"a": 1, "b": 2}}], "content": None})
ADD = ToolOffer("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})
ASKED = ModelRequest(messages=(UserMessage((Text("1 + 2?"),)),))


@tool(name="math.add")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def said(model: SocketModel, request: ModelRequest = ASKED) -> list[ModelEvent]:
    return [event async for event in model.stream(request)]


@asynccontextmanager
async def old_handler(*responses: dict[str, Any]) -> AsyncIterator[tuple[tuple[str, int], list[LMRequest]]]:
    """One that knows no tag, as those before it: it answers with these, one connection after the other."""
    left, asked = list(responses), list[LMRequest]()

    async def arrived(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameSplitter()
        while not (bodies := list(frames.feed(await reader.read(65_536)))):
            pass
        asked.append(request_of(bodies[0]))
        writer.write(framed_response(LMResponse.from_dict(left.pop(0)), 10**6))
        writer.close()

    async with await asyncio.start_server(arrived, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname(), asked


def completion(response: str, **more: Any) -> dict[str, Any]:
    return LMResponse(chat_completion=RLMChatCompletion("m", "?", response, **more)).to_dict()


@pytest.mark.requirement("rlm.socket")
async def test_a_runner_over_the_socket_runs_the_whole_tool_loop_here() -> None:
    behind = ScriptedModel([text("Adding."), call("math_add", "c1", a=1, b=2)], [text("It is 3.")])
    async with LMHandler(Queries({}, behind)) as handler, Executor([add]) as executor:
        done = await Runner(SocketModel(handler.address), executor).run(Conversation().say("1 + 2?"))

    assert done.text == "It is 3."
    assert [type(each).__name__.removesuffix("Message") for each in done.messages] == [
        "User",
        "Assistant",
        "Invocation",
        "Result",
        "Assistant",
    ]
    assert [each.call.name for each in done.messages if isinstance(each, InvocationMessage)] == ["math.add"]
    assert [offer.name for offer in behind.requests[0].tools] == ["math_add"]
    assert [type(each).__name__.removesuffix("Message") for each in behind.requests[1].messages] == [
        "User",
        "Assistant",
        "Invocation",
        "Result",
    ]


@pytest.mark.requirement("rlm.socket")
async def test_an_answer_that_looks_like_calls_is_an_answer() -> None:
    async with LMHandler(Queries({}, ScriptedModel([text(LEGACY)]))) as handler:
        events = await said(SocketModel(handler.address), ModelRequest(messages=ASKED.messages, tools=(ADD,)))

    assert events[0] == TextDelta(text=LEGACY)
    assert isinstance(events[-1], ReplyFinished) and events[-1].stop == "end"


async def test_what_an_old_handler_says_in_its_text_are_calls_only_if_they_are_nothing_else() -> None:
    texts = {
        LEGACY: True,
        '{"tool_calls": [{"function": {"name": "add", "arguments": "{}"}, "id": "x", "type": "function"}]}': True,
        '{"tool_calls": []}': False,
        '{"tool_calls": 3}': False,
        '{"tool_calls": [{"name": "other", "arguments": {}}]}': False,
        '{"tool_calls": [{"name": "add"}]}': False,
        '{"tool_calls": [{"name": "add", "arguments": {}}], "summary": "what I would call"}': False,
        'The field "tool_calls" is a list: {"tool_calls": []}': False,
        '{"tool_calls": [{"name": "add", "arguments": {}}]': False,
    }
    async with old_handler(*map(completion, texts), *map(completion, texts)) as (address, asked):
        model = SocketModel(address)
        with_tools = [await said(model, ModelRequest(messages=ASKED.messages, tools=(ADD,))) for _ in texts]
        without = [await said(model) for _ in texts]

    called = [any(isinstance(event, CallRequested) for event in events) for events in with_tools]
    assert dict(zip(texts, called, strict=True)) == texts
    assert [events[0] for events in without] == [TextDelta(text=each) for each in texts]
    assert [bool(each.tools) for each in asked] == [True] * len(texts) + [False] * len(texts)


async def test_words_beside_calls_are_kept_whether_the_text_repeats_the_calls_or_not() -> None:
    calls = [{"id": "1", "name": "add", "arguments": {"a": 1}}]
    answers = [completion("Let me add.", tool_calls=calls), completion("It is 3.", tool_calls=[])]
    async with old_handler(*answers) as (address, _):
        events = [
            await said(SocketModel(address), ModelRequest(messages=ASKED.messages, tools=(ADD,))) for _ in answers
        ]
    assert [each[0] for each in events] == [TextDelta(text="Let me add."), TextDelta(text="It is 3.")]


async def test_a_single_question_goes_as_text_and_a_conversation_as_messages() -> None:
    longer = (SupervisorMessage("Be brief."), *ASKED.messages)
    async with old_handler(completion("a"), completion("b")) as (address, asked):
        await said(SocketModel(address, "named", depth=1))
        await said(SocketModel(address), ModelRequest(messages=longer, response_schema={"type": "object"}))

    assert (asked[0].prompt, asked[0].model, asked[0].depth) == ("1 + 2?", "named", 1)
    assert asked[1].prompt == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 2?"}]
    assert (asked[1].response_format or {})["type"] == "json_schema"


async def test_usage_and_the_name_of_the_model_come_with_the_reply() -> None:
    used = {"model_usage_summaries": {"big": {"total_calls": 1, "total_input_tokens": 7, "total_output_tokens": 2}}}
    answer = completion("hi")
    answer["chat_completion"] |= {"root_model": "big", "usage_summary": used}
    async with old_handler(answer) as (address, _):
        events = await said(SocketModel(address))
    assert events[-1] == ReplyFinished(stop="end", model="big", usage=Usage(input_tokens=7, output_tokens=2))


async def test_what_the_protocol_has_no_place_for_is_said() -> None:
    async with old_handler(completion("hi")) as (address, _):
        events = await said(SocketModel(address), ModelRequest(messages=ASKED.messages, temperature=0.5, seed=3))
    assert events[0] == Notice(text="the socket protocol has no place for: seed, temperature")


async def test_a_failure_behind_the_socket_keeps_its_kind() -> None:
    class Limited:
        name = "limited"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            yield AttemptFailed(model="limited", error="rate_limited", text="slow down")
            raise RateLimited("slow down", status=429)

    async with LMHandler(Queries({}, Limited())) as handler:
        with pytest.raises(RateLimited, match="slow down") as caught:
            await said(SocketModel(handler.address))
    assert caught.value.status == 429


WRONG: dict[str, tuple[dict[str, Any], type[ModelError]]] = {
    "an error of an old handler": ({"error": "boom"}, ModelError),
    "several answers to one prompt": (
        LMResponse(chat_completions=[RLMChatCompletion("m", "?", "x")]).to_dict(),
        ProtocolError,
    ),
    "a tagged call without a name": (completion("", tool_calls=[{"id": "1"}]), ProtocolError),
}


@pytest.mark.parametrize(("response", "kind"), WRONG.values(), ids=WRONG)
async def test_a_wrong_answer_is_an_error_of_the_model(response: dict[str, Any], kind: type[ModelError]) -> None:
    async with old_handler(response) as (address, _):
        with pytest.raises(ModelError) as caught:
            await said(SocketModel(address))
    assert type(caught.value) is kind


async def test_a_call_against_the_choice_is_not_given_out() -> None:
    calls = completion(LEGACY, tool_calls=json.loads(LEGACY)["tool_calls"])
    async with old_handler(calls) as (address, _):
        with pytest.raises(BrokenChoice):
            await said(SocketModel(address), ModelRequest(messages=ASKED.messages, tools=(ADD,), tool_choice="none"))


async def test_nobody_there_is_a_model_that_is_unavailable() -> None:
    async with old_handler() as (address, _):
        pass
    with pytest.raises(ModelUnavailable):
        await said(SocketModel(address))
