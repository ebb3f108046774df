"""Events that are alike but for their text mean the same whether each is read or only its text is."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import ProtocolError
from handrail.core.events import CallDelta, CallRequested, ModelEvent
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.anthropic import AnthropicCodec
from handrail.models.codec import Decoder, PieceDecoder
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.wire_events import END, WireReader
from handrail.testing.ids import CountedIds
from tests.models.test_frames import cut

OFFER = ToolOffer(name="note", description="Note.", input_schema={"type": "object"})
REQUEST = ModelRequest(messages=(), tools=(OFFER,))
Makes = Callable[[], Decoder]


def chat() -> Decoder:
    return OpenAIChatCodec(new_id=CountedIds()).decoder(REQUEST)


def anthropic() -> Decoder:
    return AnthropicCodec(new_id=CountedIds()).decoder(REQUEST)


def heard(makes: Makes, chunks: Iterable[bytes], *, by_text: bool) -> list[ModelEvent | str]:
    """The events of a reply, and the error that it ends with."""
    decoder = makes()
    assert isinstance(decoder, PieceDecoder)
    reader = WireReader("sse", piece_of=decoder.piece_of if by_text else None)
    found: list[ModelEvent | str] = []

    def take(read: Iterator[Any]) -> None:
        for said in read:
            if said is not END:
                found.extend(decoder.more(said.texts) if said.texts else decoder.feed(said.data, said.event))

    try:
        for chunk in chunks:
            take(reader.feed(chunk))
        take(reader.finish())
        found.extend(decoder.finish())
    except ProtocolError as error:
        found.append(str(error))
    return found


def chat_event(delta: dict[str, Any], finish: str | None = None, model: str = "m") -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model, "choices": [choice]}


def chat_call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": "note"} if more else {})}
    return chat_event({"tool_calls": [{"index": index, "function": function, **more}]})


def block(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ['{"text": "', '"}', "}{", '"', "\\", '\\"', "c", "m", "\n\n", "data: ", '"}}]}, "finish_reason": null}]}']
)
CHAT = st.one_of(
    WORDS.map(lambda text: chat_event({"content": text})),
    st.tuples(st.integers(0, 1), WORDS).map(lambda piece: chat_call(*piece)),
    st.tuples(st.integers(0, 1), WORDS).map(lambda piece: chat_call(*piece, id=f"call_{piece[0]}")),
    WORDS.map(lambda text: chat_event({"content": text, "reasoning_content": text})),
    WORDS.map(lambda text: chat_event({"content": text}, model=text)),
    st.tuples(WORDS, WORDS).map(lambda words: chat_event({"content": words[0]}) | {"obfuscation": words[1]}),
    st.tuples(WORDS, WORDS).map(lambda words: chat_call(0, words[0]) | {"obfuscation": words[1]}),
)
CLAUDE = st.one_of(
    WORDS.map(lambda text: block(0, {"type": "text_delta", "text": text})),
    st.tuples(st.integers(1, 2), WORDS).map(lambda p: block(p[0], {"type": "input_json_delta", "partial_json": p[1]})),
    WORDS.map(lambda text: block(3, {"type": "thinking_delta", "thinking": text})),
)
BEGUN: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m", "model": "m"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    *(
        {"type": "content_block_start", "index": at, "content_block": {"type": kind, "id": f"c{at}", "name": "note"}}
        for at, kind in ((1, "tool_use"), (2, "server_tool_use"))
    ),
    {"type": "content_block_start", "index": 3, "content_block": {"type": "thinking", "thinking": ""}},
]
ENDED: list[dict[str, Any]] = [
    *({"type": "content_block_stop", "index": index} for index in range(4)),
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
]


def repeated(events: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Events of which many have the shape of the one before."""
    return st.lists(st.lists(events, min_size=1, max_size=3), max_size=4).map(
        lambda groups: [event for group in groups for event in group * 2]
    )


@given(
    repeated(CHAT),
    repeated(CLAUDE),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 3000), max_size=6),
    st.data(),
)
def test_a_stream_says_the_same_however_its_events_are_read(
    said: list[dict[str, Any]], spoken: list[dict[str, Any]], escaped: bool, dense: bool, places: list[int], data: Any
) -> None:
    separators = (",", ":") if dense else None
    streams: list[tuple[Makes, list[dict[str, Any]]]] = [
        (chat, [*said, chat_event({}, "tool_calls")]),
        (anthropic, [*BEGUN, *spoken, *ENDED]),
    ]
    for makes, events in streams:
        texts = [json.dumps(event, ensure_ascii=escaped, separators=separators).encode() for event in events]
        names = [f"event: {event['type']}\n".encode() if "type" in event else b"" for event in events]
        body = b"".join(name + b"data: " + text + b"\n\n" for name, text in zip(names, texts, strict=True))
        broken = data.draw(st.integers(0, len(body)))
        for whole in (body, body[:broken] + data.draw(st.sampled_from([b"\n", b'"', b"\\", b"\x00"])) + body[broken:]):
            chunks = cut(whole, places)
            assert heard(makes, chunks, by_text=True) == heard(makes, chunks, by_text=False)


def test_an_empty_piece_of_arguments_is_none_of_text() -> None:
    pieces = [block(1, {"type": "input_json_delta", "partial_json": text}) for text in ("", '{"a": ', "1}")]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in [BEGUN[0], BEGUN[2], *pieces])
    found = heard(anthropic, [body], by_text=True)
    assert [event.arguments for event in found if isinstance(event, CallDelta)] == ["", '{"a": ', "1}"]


@pytest.mark.parametrize(
    ("makes", "begun", "piece", "ended"),
    [
        (chat, [chat_call(0, "", id="a")], lambda text: chat_call(0, text), [chat_event({}, "tool_calls")]),
        (
            chat,
            [chat_call(0, "", id="a")],
            lambda text: chat_call(0, text) | {"usage": None, "obfuscation": text[::-1].strip('\\n"')},
            [chat_event({}, "tool_calls")],
        ),
        (
            anthropic,
            [BEGUN[0], BEGUN[2]],
            lambda text: block(1, {"type": "input_json_delta", "partial_json": text}),
            [ENDED[1], ENDED[4]],
        ),
    ],
    ids=["chat", "padded chat", "anthropic"],
)
def test_a_piece_of_arguments_takes_no_function_call_of_its_own(
    makes: Makes, begun: list[dict[str, Any]], piece: Callable[[str], dict[str, Any]], ended: list[dict[str, Any]]
) -> None:
    events = [*begun, *map(piece, ['{"text": "', *(f"line {n}\\n" for n in range(1000)), '"}']), *ended]
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found = heard(makes, [body], by_text=True)
    finally:
        sys.setprofile(None)
    assert any(isinstance(event, CallRequested) and "line 999" in str(event.call.arguments) for event in found)
    assert calls < 3 * 1000 < len(body)
