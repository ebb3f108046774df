"""One conversation with everything in it, tools to offer, and ways to read what a decoder gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

from handrail.core.calls import Attachment, ToolCall, ToolResult
from handrail.core.errors import ModelError
from handrail.core.events import CallDelta, CallRequested, ModelEvent, Notice, ReasoningDelta, ReplyFinished, TextDelta
from handrail.core.messages import (
    Artefact,
    AssistantMessage,
    Conversation,
    DocumentMessage,
    InvocationMessage,
    Media,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.codec import Codec

PNG = b"\x89PNG fake"

WEATHER = ToolOffer(
    "get_weather",
    "The weather in a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["c", "f"]}},
        "required": ["city"],
    },
)
PLOT = ToolOffer(
    "io:plot",
    "Draw a line.",
    {
        "type": "object",
        "properties": {"points": {"type": "array", "items": {"type": "number"}}},
        "required": ["points"],
        "additionalProperties": False,
    },
)
TOOLS = (WEATHER, PLOT)

CONVERSATION = (
    SupervisorMessage("Be brief."),
    DocumentMessage("cities.txt", "Lisbon, Oslo"),
    UserMessage((Text("Weather in the first, and plot it."), Media(media_type="image/png", data=PNG, name="map.png"))),
    AssistantMessage("Let me look."),
    InvocationMessage(ToolCall("call_1", "get_weather", '{"city": "Lisbon"}')),
    InvocationMessage(ToolCall("call_2", "io:plot", {"points": [1, 2.5]})),
    ResultMessage(ToolResult("call_1", "get_weather", {"temp": 21})),
    ResultMessage(
        ToolResult("call_2", "io:plot", "drawn", attachments=(Attachment("plot.png", "image/png", PNG),)),
    ),
    AssistantMessage("21 degrees."),
    UserMessage((Text("Thanks. And Oslo?"),)),
)


def request_with(*messages: Any, **options: Any) -> ModelRequest:
    return ModelRequest(messages=messages or (UserMessage((Text("Weather in Lisbon?"),)),), **options)


def numbered() -> Callable[[str], str]:
    """Ids that count."""
    made = 0

    def new_id(kind: str) -> str:
        nonlocal made
        made += 1
        return f"{kind}-{made}"

    return new_id


class DecodedReply(Struct, frozen=True):
    """What a whole reply came to."""

    text: str
    thoughts: str
    calls: tuple[ToolCall, ...]
    notices: tuple[str, ...]
    end: ReplyFinished
    signed: dict[str, tuple[Artefact, ...]] = {}
    """What goes back with calls, by their ids."""


def replied(codec: Codec, events: Iterable[Mapping[str, Any]], request: ModelRequest | None = None) -> DecodedReply:
    decoder = codec.decoder(request or request_with(tools=TOOLS))
    seen = [given for data in events for given in decoder.feed(data)]
    seen += decoder.finish()
    check_order(seen)
    end = seen[-1]
    assert isinstance(end, ReplyFinished)
    return DecodedReply(
        text="".join(event.text for event in seen if isinstance(event, TextDelta)),
        thoughts="".join(event.text for event in seen if isinstance(event, ReasoningDelta)),
        calls=tuple(event.call for event in seen if isinstance(event, CallRequested)),
        notices=tuple(event.text for event in seen if isinstance(event, Notice)),
        end=end,
        signed={e.call.id: e.artefacts for e in seen if isinstance(e, CallRequested) and e.artefacts},
    )


def check_order(events: list[ModelEvent]) -> None:
    """`ReplyFinished` is last and alone, and every call was announced before it was given."""
    assert [isinstance(event, ReplyFinished) for event in events].count(True) == 1
    announced: set[str] = set()
    for event in events:
        if isinstance(event, CallDelta):
            announced.add(event.call_id)
        if isinstance(event, CallRequested):
            assert event.call.id in announced


def answered(reply: DecodedReply, *results: ToolResult) -> Conversation:
    """A conversation that goes on after a reply."""
    said = AssistantMessage(reply.text, stop=reply.end.stop, artefacts=reply.end.artefacts)
    calls = [InvocationMessage(call, 0, reply.signed.get(call.id, ())) for call in reply.calls]
    return Conversation((*request_with().messages, said, *calls, *map(ResultMessage, results)))


def wire_events(keys: list[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Any JSON objects, with the keys of a wire in any place."""
    names = st.sampled_from(keys)
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
        max_leaves=12,
    )
    return st.lists(st.dictionaries(names, values, max_size=4), max_size=4)


def check_survives(codec: Codec, stream: list[dict[str, Any]]) -> None:
    """The stream is read, or is refused in the one way that callers expect."""
    decoder = codec.decoder(request_with(tools=TOOLS))
    try:
        for data in stream:
            list(decoder.feed(data))
        list(decoder.finish())
    except ModelError:
        return
