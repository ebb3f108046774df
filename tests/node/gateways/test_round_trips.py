"""What our providers write the gateway reads, and what the gateway writes our providers read: for any conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import BusError
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import (
    AssistantMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    StopReason,
    SupervisorMessage,
    Text,
    Usage,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, NamedTool, ToolOffer
from handrail.models.anthropic import AnthropicCodec
from handrail.models.codec import Codec
from handrail.models.frames import SseFrames
from handrail.models.history import arguments_of
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.openai_responses import OpenAIResponsesCodec
from handrail.models.profiles import Profile
from handrail.node.gateways.answer_memory import AnswerMemory
from handrail.node.gateways.openai_responses.output_items import ResponseOutput
from handrail.node.gateways.request import GatewayOutcome, GatewayRequest
from handrail.node.gateways.wire import GatewayWire
from handrail.node.gateways.wire_table import ANTHROPIC, OPENAI, RESPONSES

MOST = 10_000_000
SIDES = pytest.mark.parametrize(
    ("wire", "codec"),
    [
        (OPENAI, OpenAIChatCodec(profile=Profile())),
        (ANTHROPIC, AnthropicCodec()),
        (RESPONSES, OpenAIResponsesCodec(profile=Profile())),
    ],
    ids=["openai", "anthropic", "responses"],
)

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(lambda text: text.strip())
solid = words.map(str.strip).filter(bool)
names = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
arguments = st.dictionaries(names, values, max_size=3)
media = st.sampled_from(
    [
        Media(media_type="image/png", data=b"\x00\xff"),
        Media(media_type="image/webp", url="https://example.org/a.webp?b=1"),
    ]
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append(SupervisorMessage(draw(solid)))
    count = 0
    for _ in range(draw(st.integers(0, 3))):
        messages.append(UserMessage((Text(draw(solid)), *draw(st.lists(media, max_size=1)))))
        made = draw(st.lists(st.tuples(names, arguments), max_size=2))
        calls = [ToolCall(f"c{count + n}", name, given) for n, (name, given) in enumerate(made)]
        count += len(calls)
        messages.append(AssistantMessage(draw(solid), stop="tool_calls" if calls else "end"))
        messages += map(InvocationMessage, calls)
        messages += (ResultMessage(ToolResult(call.id, call.name, draw(words))) for call in calls)
        if draw(st.booleans()) and calls:
            messages.append(AssistantMessage(draw(solid)))
    return (*messages, UserMessage((Text(draw(solid)),)))


requests = st.builds(
    ModelRequest,
    messages=conversations(),
    tools=st.lists(names, min_size=1, max_size=3, unique=True).map(
        lambda found: tuple(ToolOffer(name, f"does {name}", {"type": "object", "properties": {}}) for name in found)
    ),
    tool_choice=st.sampled_from(["auto", "none", "required"]),
    parallel=st.booleans(),
    max_tokens=st.integers(1, 10_000),
    temperature=st.floats(0, 1),
    top_p=st.none() | st.floats(0, 1),
    stop=st.lists(words, max_size=2).map(tuple),
)


def plain(message: Message) -> Message:
    """A message as every wire has it: arguments as an object."""
    if isinstance(message, InvocationMessage):
        call = msgspec.structs.replace(message.call, arguments=arguments_of(message.call))
        return msgspec.structs.replace(message, call=call)
    return message


@SIDES
@given(request=requests, named=st.booleans(), stream=st.booleans())
def test_the_gateway_reads_what_a_provider_of_that_wire_writes(
    wire: GatewayWire, codec: Codec, request: ModelRequest, named: bool, stream: bool
) -> None:
    if named:
        request = msgspec.structs.replace(request, tool_choice=NamedTool(request.tools[0].name))

    asked = wire.read(codec.encode(request, "m", stream=stream).text(), {}, MOST)

    assert tuple(map(plain, asked.messages)) == request.messages
    assert (asked.tools, asked.choice, asked.stream, asked.model) == (request.tools, request.tool_choice, stream, "m")
    # Where no call is wanted, this wire has no place for whether several are.
    parallel = True if (wire is ANTHROPIC and request.tool_choice == "none") else request.parallel
    stop = () if wire is RESPONSES else request.stop  # this wire has no place for them
    expected = msgspec.structs.replace(request, messages=(), tools=(), tool_choice="auto", parallel=parallel, stop=stop)
    assert asked.settings == expected


def read_back(codec: Codec, data: bytes, cuts: list[int]) -> list[ModelEvent]:
    """What a client makes of a stream that arrives in these pieces."""
    frames, decoder = SseFrames(), codec.decoder(ModelRequest(messages=()))
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    found: list[ModelEvent] = []
    for start, end in pairwise(edges):
        for frame in frames.feed(data[start:end]):
            if frame.data != b"[DONE]":
                found += decoder.feed(json.loads(frame.data), frame.event)
    return [*found, *decoder.finish()]


def asked_for(stream: bool) -> GatewayRequest:
    return GatewayRequest(model="m", messages=(), settings=ModelRequest(messages=()), stream=stream, usage=True)


@SIDES
@given(
    pieces=st.lists(words, max_size=5),
    calls=st.lists(st.tuples(names, arguments), max_size=2),
    stop=st.sampled_from(["end", "max_tokens"]),
    read=st.integers(10, 1000),
    cached=st.integers(0, 10),
    cuts=st.lists(st.integers(0, 10_000), max_size=5),
)
def test_a_provider_of_that_wire_reads_what_the_gateway_writes_however_it_is_cut(
    wire: GatewayWire,
    codec: Codec,
    pieces: list[str],
    calls: list[tuple[str, dict[str, Any]]],
    stop: StopReason,
    read: int,
    cached: int,
    cuts: list[int],
) -> None:
    usage = Usage(input_tokens=read, output_tokens=7, cached_tokens=cached)
    made = tuple(ToolCall(f"c{n}", name, given) for n, (name, given) in enumerate(calls))
    stop = "tool_calls" if made else stop
    ended = GatewayOutcome(run="r", text="".join(pieces), calls=made, stop=stop, usage=usage)
    writer = wire.writer("id", 1, "m", asked_for(True))

    streamed = read_back(
        codec, writer.begin() + wire.alive + b"".join(map(writer.text, pieces)) + writer.finish(ended), cuts
    )
    decoder = codec.decoder(ModelRequest(messages=()))
    other = wire.writer("id", 1, "m", asked_for(False))
    for piece in pieces if other.collects else ():
        other.text(piece)
    whole = [*decoder.feed(other.whole(ended)), *decoder.finish()]

    for events in (streamed, whole):
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "".join(pieces)
        found = [event.call for event in events if isinstance(event, CallRequested)]
        assert [(call.id, call.name, arguments_of(call)) for call in found] == [
            (call.id, call.name, call.arguments) for call in made
        ]
        last = events[-1]
        assert isinstance(last, ReplyFinished) and (last.stop, last.model, last.usage) == (stop, "m", usage)


replies = st.lists(
    st.tuples(st.text("ab", max_size=3), st.lists(st.tuples(names, st.booleans()), max_size=3)), min_size=1, max_size=4
)


@given(said=replies, handed=st.integers(0, 2))
def test_a_response_that_is_rebuilt_from_its_record_has_the_items_that_it_had(
    said: list[tuple[str, list[tuple[str, bool]]]], handed: int
) -> None:
    live, messages, count = ResponseOutput("resp_0123456789abcdef0"), list[Message](), 0
    for at, (text, made) in enumerate(said):
        for piece in text:
            if live.speaking is None:
                live.open_message()
            live.say(piece)
        calls = [ToolCall(f"call_{count + n:012x}", name, {}) for n, (name, _) in enumerate(made)]
        count += len(calls)
        given_over = tuple(ToolCall(f"call_9{n:011x}", "weather", {}) for n in range(handed * (at == len(said) - 1)))
        results = [
            ToolResult(call.id, call.name, "x", outcome="ok" if ok else "failed")
            for call, (_, ok) in zip(calls, made, strict=True)
        ]
        for result in results[::2]:
            live.end_call(result)  # what began while the model still spoke
        live.end_reply(calls, "tool_calls" if calls else "end")
        for result in results[1::2]:
            live.end_call(result)
        messages += [AssistantMessage(text, stop="tool_calls" if calls else "end")]
        messages += map(InvocationMessage, (*calls, *given_over))
        messages += map(ResultMessage, results)
    live.finish(given_over, "end")
    rebuilt = ResponseOutput("resp_0123456789abcdef0")
    rebuilt.rebuild(messages)
    rebuilt.finish(given_over, "end")

    assert rebuilt.items == live.items
    assert len({item["id"] for item in live.items}) == len(live.items)


KEYS = (
    *("model", "messages", "role", "content", "type", "text", "tools", "tool_choice", "tool_calls", "tool_call_id"),
    *("function", "name", "arguments", "system", "max_tokens", "input_schema", "source", "url", "data", "handrail"),
    *("tool_use_id", "id", "input", "stop", "image_url", "response_format", "stream_options", "file", "run"),
    *("call_id", "output", "format", "instructions", "previous_response_id", "metadata", "store", "error"),
)
KINDS = (
    *("user", "assistant", "tool", "system", "text", "image", "tool_use", "tool_result", "function"),
    *("message", "function_call", "function_call_output", "mcp_call", "reasoning", "item_reference", "input_text"),
)
keys, kinds = st.sampled_from(KEYS), st.sampled_from(KINDS)
hostile = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | kinds | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC, RESPONSES], ids=lambda wire: wire.name)
@given(body=st.dictionaries(keys, hostile, max_size=6), headers=st.dictionaries(keys, words, max_size=1))
def test_whatever_is_sent_is_read_or_refused(wire: GatewayWire, body: dict[str, Any], headers: dict[str, str]) -> None:
    said: dict[str, Any] = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}], **body}
    if wire is RESPONSES:
        said = {"model": "m", "input": said.pop("messages"), **body}
    try:
        asked = wire.read(json.dumps(said).encode(), headers, MOST)
        if asked.resolve is not None:
            asked = asked.resolve({})  # nothing was answered before
    except BusError as error:
        assert error.code in ("bad_request", "not_found") and error.message
    else:
        assert asked.messages


def kept(memory: AnswerMemory, id: str, name: str = "weather") -> tuple[Message, ...]:
    ours, theirs = ToolCall(f"{id}_ours", "add", {}), ToolCall(id, name, {"a": 1})
    messages: tuple[Message, ...] = (
        AssistantMessage("", stop="tool_calls"),
        InvocationMessage(ours),
        InvocationMessage(theirs),
        ResultMessage(ToolResult(ours.id, "add", "x" * 100)),
    )
    memory.keep("alice", messages, [theirs])
    return messages


def shown(id: str, **change: Any) -> tuple[Message, ...]:
    call = ToolCall(**{"id": id, "name": "weather", "arguments": '{ "a": 1 }', **change})
    result = ResultMessage(ToolResult(id, "weather", "rain"))
    return (UserMessage((Text("?"),)), AssistantMessage("", stop="tool_calls"), InvocationMessage(call), result)


def test_what_a_client_was_not_shown_is_put_in_again_where_it_was() -> None:
    memory = AnswerMemory(10, 10_000)
    messages = kept(memory, "c")
    sent = shown("c")

    assert memory.restored("alice", sent) == (sent[0], *messages, sent[3])
    assert memory.restored("bob", sent) == sent
    assert memory.restored("alice", shown("c", name="other")) == shown("c", name="other")
    assert memory.restored("alice", shown("c", arguments='{"a": 2}')) == shown("c", arguments='{"a": 2}')


@pytest.mark.parametrize(
    "make", [lambda: AnswerMemory(2, 10_000), lambda: AnswerMemory(10, 250)], ids=["count", "size"]
)
def test_the_memory_is_bounded_and_forgets_what_was_longest_unused(make: Callable[[], AnswerMemory]) -> None:
    memory = make()
    kept(memory, "one")
    kept(memory, "two")
    memory.restored("alice", shown("one"))
    kept(memory, "three")

    known = [id for id in ("one", "two", "three") if memory.restored("alice", shown(id)) != shown(id)]
    assert known == ["one", "three"] and len(memory) == 2
