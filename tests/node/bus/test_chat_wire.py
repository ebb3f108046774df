"""Conversations and replies on the wire of `llm.chat`: what is written can be read, and odd nodes are understood."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self

import pytest
from hypothesis import given, strategies as st

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import BusError, ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.core.events import CallDelta, CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import (
    Artefact,
    AssistantMessage,
    Conversation,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, NamedTool, ToolOffer
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.bus.wire_codes import WIRE
from handrail.node.chat.frames import ChatFrameReader, model_error
from handrail.node.chat.messages import read_messages, write_messages
from handrail.node.chat.model import BusModel
from handrail.node.chat.request import input_of, request_of
from handrail.node.chat.schema import V2, request_schema
from handrail.tools.schema.validator import Validator

_WORDS = st.text(min_size=1, max_size=8)
_CALLS = st.dictionaries(_WORDS, st.integers(-9, 9) | st.none() | _WORDS, max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """As a run makes them: each call has its result, in order."""
    messages: list[Message] = [SupervisorMessage(text) for text in draw(st.lists(_WORDS, max_size=1))]
    for turn in range(draw(st.integers(1, 3))):
        messages.append(UserMessage((Text(draw(_WORDS)),)))
        artefacts = (Artefact("gemini", {"s": draw(_WORDS)}),) if draw(st.booleans()) else ()
        messages.append(AssistantMessage(draw(st.text(max_size=8)), artefacts=artefacts))
        calls: list[dict[str, Any]] = draw(st.lists(_CALLS, max_size=3))
        messages += [
            InvocationMessage(ToolCall(f"c{turn}-{number}", "add", arguments)) for number, arguments in enumerate(calls)
        ]
        for number in range(len(calls)):
            outcome: Any = draw(st.sampled_from(["ok", "failed"]))
            messages.append(ResultMessage(ToolResult(f"c{turn}-{number}", "add", draw(st.text(max_size=8)), outcome)))
        if draw(st.booleans()) and calls:
            messages.append(SupervisorMessage(draw(_WORDS)))
    return tuple(messages)


_FITS = Validator(request_schema(V2), "llm.chat")


@pytest.mark.requirement("hearthnet.sse")
@given(conversations())
def test_a_conversation_that_was_written_is_read_as_the_same(messages: tuple[Message, ...]) -> None:
    wire = write_messages(messages)

    assert read_messages(wire, {}) == messages
    assert _FITS.problems({"input": {"messages": wire}}) == []


@given(
    st.builds(
        ModelRequest,
        messages=st.just((UserMessage((Text("?"),)),)),
        tools=st.just((ToolOffer("add", "Adds.", {"type": "object"}),)),
        tool_choice=st.sampled_from(["auto", "none", "required", NamedTool("add")]),
        max_tokens=st.integers(1, 9),
        temperature=st.floats(0, 2),
        top_p=st.floats(0, 1),
        stop=st.lists(_WORDS, max_size=2).map(tuple),
        seed=st.none() | st.integers(0, 9),
    )
)
def test_a_request_that_was_written_is_read_as_the_same(request: ModelRequest) -> None:
    wire = input_of(request)

    assert request_of(wire, {}) == request
    assert _FITS.problems({"input": wire}) == []


def test_a_picture_goes_by_its_cid_and_not_as_bytes() -> None:
    cid = "blake3:" + "a" * 64
    shown = UserMessage((Text("What?"), Media(media_type="image/*", url=cid)))

    wire = write_messages((shown,))

    assert wire[0]["content"] == [{"type": "text", "text": "What?"}, {"type": "image", "image_cid": cid}]
    assert read_messages(wire, {cid: Media(media_type="image/*", url=cid)}) == (shown,)
    with pytest.raises(BusError, match=r"blob\.put"):
        write_messages((UserMessage((Media(media_type="image/png", data=b"x"),)),))


def test_the_limit_is_told_in_a_tool_message_after_results_and_a_system_message_elsewhere() -> None:
    asked = Conversation().supervised("Be brief.").say("?")
    called = asked.add(AssistantMessage(""), InvocationMessage(ToolCall("tc_1", "add", {})))
    ended = called.add(ResultMessage(ToolResult("tc_1", "add", "3"))).supervised("The limit is reached.")

    wire = write_messages(ended.messages)

    assert [message["role"] for message in wire] == ["system", "user", "assistant", "tool", "tool"]
    assert wire[-1] == {"role": "tool", "tool_call_id": "tc_1", "content": "The limit is reached."}


class Played:
    """A `Bus` whose stream is these frames."""

    node_id = "played"

    def __init__(self, *frames: StreamFrame) -> None:
        self._frames = iter(frames)

    def stream(self, *args: Any, **how: Any) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    def __aiter__(self) -> AsyncIterator[StreamFrame]:
        return self

    async def __anext__(self) -> StreamFrame:
        for frame in self._frames:
            return frame
        raise StopAsyncIteration


async def heard(*frames: StreamFrame) -> list[ModelEvent]:
    bus: Any = Played(*frames)
    request = ModelRequest(messages=(UserMessage((Text("?"),)),))
    return [event async for event in BusModel(bus).stream(request)]


@pytest.mark.requirement("hearthnet.frames")
async def test_a_call_without_its_name_has_the_name_of_its_first_delta() -> None:
    events = await heard(
        StreamFrame("token", {"text": "I'll search "}),
        StreamFrame("tool_call_delta", {"id": "tc_1", "name": "rag.query", "arguments_delta": '{"q":'}),
        StreamFrame("tool_call_delta", {"id": "tc_1", "arguments_delta": "1}"}),
        StreamFrame("later.than.us", {"x": 1}),
        StreamFrame("tool_call", {"id": "tc_1", "arguments": {"q": 1}}),
        StreamFrame("done", {"tokens_out": 4, "stop_reason": "tool_calls", "ms": 1}),
    )

    assert events[:4] == [
        TextDelta(text="I'll search "),
        CallDelta(call_id="tc_1", name="rag.query", arguments='{"q":'),
        CallDelta(call_id="tc_1", name="rag.query", arguments="1}"),
        CallRequested(call=ToolCall("tc_1", "rag.query", {"q": 1})),
    ]
    end = events[4]
    assert isinstance(end, ReplyFinished) and (end.stop, end.usage.output_tokens) == ("tool_calls", 4)


@pytest.mark.parametrize(
    "frame",
    [
        StreamFrame("tool_call", {"id": "tc_1", "arguments": {}}),
        StreamFrame("tool_call", {"name": "add", "arguments": {}}),
        StreamFrame("tool_call", {"id": "tc_1", "name": "add", "arguments": 3}),
        StreamFrame("tool_call", {"id": "tc_1", "name": "add", "arguments": {}, "artefacts": [1]}),
        StreamFrame("token", {}),
        StreamFrame("token", {"text": 3}),
        StreamFrame("tool_call_delta", {"id": "tc_1", "name": "add", "arguments_delta": None}),
        StreamFrame("tool_call_delta", {"id": ["x"], "name": "add", "arguments_delta": ""}),
        StreamFrame("done", {"tokens_out": "many"}),
        StreamFrame("done", {"stop_reason": ["x"]}),
        StreamFrame("done", {"model": 3}),
        StreamFrame("done", {"stop_reason": "cancelled"}),
    ],
    ids=str,
)
def test_a_frame_that_cannot_be_read_is_an_error_of_the_node(frame: StreamFrame) -> None:
    with pytest.raises(ProtocolError):
        list(ChatFrameReader().events(frame))


async def test_an_error_frame_is_raised_with_its_cause() -> None:
    with pytest.raises(RateLimited) as limited:
        await heard(StreamFrame("error", {"error": "rate_limited", "message": "slow", "retry_after_ms": 1500}))

    assert limited.value.retry_after == 1.5
    assert isinstance(limited.value.__cause__, BusError)


def test_every_wire_code_is_some_error_of_a_model() -> None:
    kinds = {code: type(model_error(BusError(code, "x"))) for code in WIRE}

    assert {code for code, kind in kinds.items() if kind is ModelUnavailable} == {
        "timeout",
        "capacity_exceeded",
        "partition",
        "cancelled",
    }
    assert {code for code, kind in kinds.items() if kind is ModelError} == {"internal_error", "requires_confirmation"}
    assert kinds["rate_limited"] is RateLimited
    assert all(
        kinds[code] is RequestRefused for code, wire in WIRE.items() if wire.http in (400, 401, 403, 404, 410, 501)
    )
