"""Hostile replies through the whole loop: no half call runs, every call has one result, the next request is sound."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from ollama._types import ChatRequest

from handrail import Conversation, Executor, Policy, Runner, Tool, tool
from handrail.core.errors import ModelError
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import InvocationMessage, ResultMessage
from tests.hostile.conftest import Line
from tests.hostile.reply_corpus import CorpusStream, ExpectedCall, WireName, kind_of, streams
from tests.hostile.reply_outcomes import numbered
from tests.models.anthropic import sdk_checks as anthropic_judge
from tests.models.bedrock import botocore_checks as bedrock_judge
from tests.models.gemini import sdk_checks as gemini_judge
from tests.models.openai_chat.sdk_checks import check_chat, check_responses
from tests.models.raw_reply_server import ReceivedRequest, streamed
from tests.wires.scripted_service import frame
from tests.wires.wire_dialogue import ScriptedReply, UnderstoodRequest, WireCase, WireHttpRequest as Request
from tests.wires.wire_table import WIRES

pytestmark = pytest.mark.asyncio(loop_scope="module")

SPOKEN: Mapping[WireName, WireCase] = {
    "openai_chat": WIRES["openai"],
    "openai_responses": WIRES["openai-responses"],
    "anthropic": WIRES["anthropic"],
    "gemini": WIRES["gemini"],
    "ollama": WIRES["ollama"],
    "bedrock": WIRES["bedrock"],
}
JUDGES: Mapping[WireName, Callable[[dict[str, Any]], object]] = {
    "openai_chat": check_chat,
    "openai_responses": check_responses,
    "anthropic": anthropic_judge.accepts,
    "gemini": gemini_judge.accepts,
    "ollama": ChatRequest.model_validate,
    "bedrock": bedrock_judge.accepts,
}
AGAIN = [
    "openai_chat/finish-with-the-call",
    "openai_chat/missing-ids",
    "openai_responses/done-without-deltas",
    "anthropic/whole-input-at-the-start",
    "gemini/duplicate-ids",
    "ollama/duplicate-ids",
    "bedrock/metadata-missing",
]


class Hands:
    """The tools, and what they were made to do."""

    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, Any]]] = []

    @property
    def tools(self) -> list[Tool]:
        @tool
        async def weather(city: str) -> str:
            """What it is like in a city."""
            self.done.append(("weather", {"city": city}))
            return f"Sunny in {city!r}."

        @tool
        async def clock(zone: str = "UTC") -> str:
            """The time."""
            self.done.append(("clock", {"zone": zone}))
            return "12:00"

        @tool(side_effects=True)
        async def send(to: str, text: str) -> str:
            """Send a letter."""
            self.done.append(("send", {"to": to, "text": text}))
            return "Sent."

        return [weather, clock, send]


def may_run(call: ExpectedCall) -> bool:
    """Whether a call names a tool that exists and has arguments that it takes."""
    if call.name not in ("weather", "clock", "send"):
        return False
    try:
        arguments = call.arguments if isinstance(call.arguments, dict) else parse_object(call.arguments)
    except JSONTextError:
        return False
    needed = {"weather": {"city"}, "clock": set[str](), "send": {"to", "text"}}[call.name]
    return needed <= arguments.keys() and all(isinstance(value, str) for value in arguments.values())


def last_word(wire: WireName) -> bytes:
    spoken = SPOKEN[wire]
    return b"".join(frame(spoken.framing, event) for event in spoken.write(ScriptedReply("Done."), True))


async def run(line: Line, stream: CorpusStream, hands: Hands, times: int = 1) -> Conversation:
    """The stream, as often as that, and then a last word."""
    final = streamed(last_word(stream.wire), kind=kind_of(stream.wire))
    line.server.replies[:] = [streamed(stream.data, kind=stream.kind)] * times + [final]
    line.server.asked.clear()
    async with Executor(hands.tools, policy=Policy(confirm_side_effects=False)) as executor:
        return await Runner(line.model(stream), executor, new_id=numbered("again")).run(
            Conversation().say("How is it there?")
        )


def heard(stream: CorpusStream, asked: ReceivedRequest) -> UnderstoodRequest:
    """A request as its service understands it; it must be one that the service takes."""
    body = msgspec.json.decode(asked.body)
    JUDGES[stream.wire](body)
    return SPOKEN[stream.wire].hear(Request(asked.path, asked.headers, body))


def check_results(conversation: Conversation) -> None:
    """Every call has one result, and ids are unique."""
    calls = [message.call.id for message in conversation.messages if isinstance(message, InvocationMessage)]
    results = [message.result.tool_call_id for message in conversation.messages if isinstance(message, ResultMessage)]
    assert len(set(calls)) == len(calls)
    assert sorted(results) == sorted(calls)


@pytest.mark.requirement("abstractllm.unparsable-arguments")
@pytest.mark.parametrize(
    "stream", [each for each in streams() if each.written.answer and not each.written.tools], ids=lambda each: each.id
)
async def test_after_a_hostile_stream_every_call_has_one_result_and_the_next_request_is_sound(
    line: Line, stream: CorpusStream
) -> None:
    assert stream.written.answer is not None
    hands, calls = Hands(), stream.written.answer.calls
    conversation = await run(line, stream, hands)
    check_results(conversation)
    ran = {name for name, _ in hands.done}
    assert ran == {call.name for call in calls if may_run(call)}
    assert len(hands.done) == len({(call.name, str(call.arguments)) for call in calls if may_run(call)})
    for message in conversation.messages:
        if isinstance(message, ResultMessage) and message.result.is_error:
            assert message.result.outcome in ("invalid_arguments", "unknown_tool")
    _, *later = line.server.asked
    assert len(later) == bool(calls)
    for asked in later:
        told = heard(stream, asked)
        legal = re.compile(SPOKEN[stream.wire].name_rule)
        for said, call in zip(told.calls, calls, strict=True):
            assert legal.fullmatch(said.name)
            assert said.name == call.name or not legal.fullmatch(call.name)
        assert [result.id for result in told.results] == [call.id for call in told.calls]


@pytest.mark.parametrize("stream", [each for each in streams() if each.written.error], ids=lambda each: each.id)
async def test_a_reply_that_fails_runs_nothing_that_has_an_effect_and_leaves_a_sound_history(
    line: Line, stream: CorpusStream
) -> None:
    hands = Hands()
    with pytest.raises(ModelError) as caught:
        await run(line, stream, hands)
    assert "send" not in [name for name, _ in hands.done]
    check_results(caught.value.conversation)


@pytest.mark.parametrize("stream", [each for each in streams() if each.id in AGAIN], ids=lambda each: each.id)
async def test_ids_that_are_used_again_in_the_next_turn_are_calls_of_their_own(
    line: Line, stream: CorpusStream
) -> None:
    assert stream.written.answer is not None
    hands, calls = Hands(), stream.written.answer.calls
    conversation = await run(line, stream, hands, times=2)
    check_results(conversation)
    assert len([each for each in conversation.messages if isinstance(each, ResultMessage)]) == 2 * len(calls)
    assert len(hands.done) == 2 * len(calls)
    for asked in line.server.asked[1:]:
        heard(stream, asked)
