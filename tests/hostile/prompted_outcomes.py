"""What comes of a text that a model wrote in a prompted format, whatever pieces it came in."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, pairwise
from typing import Any

from msgspec import Struct

from handrail import tool
from handrail.core.errors import ProtocolError
from handrail.core.events import CallRequested, ModelEvent, Notice, ReasoningDelta, ReplyFinished, TextDelta
from handrail.core.messages import Conversation
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.prompted.codec import PromptedCodec
from handrail.tools.registry import registered
from tests.models.prompted.text_codec import CutDecoder, TextCodec, TextDecoder


@tool
def search(q: str) -> str:
    """Search."""
    return q


@tool(side_effects=True)
def purge() -> str:
    """Forget everything."""
    raise NotImplementedError


TOOLS = registered(search, purge)
ASKED = ModelRequest(
    messages=Conversation().say("Hello").messages,
    tools=tuple(ToolOffer(each.name, each.definition.description, each.definition.input_schema) for each in TOOLS),
)


class PromptedOutcome(Struct, frozen=True):
    """All that came of a text, whatever pieces it came in."""

    text: str
    thoughts: str
    calls: tuple[tuple[str, Any], ...]
    notices: int
    stop: str | None
    error: str


def read_prompted(format: str, pieces: Iterable[str], *, cut: bool = False) -> PromptedOutcome:
    numbers, events, error = count(1), list[ModelEvent](), ""
    inner = TextCodec(CutDecoder if cut else TextDecoder)
    decoder = PromptedCodec(inner, format, lambda kind: f"{kind}_{next(numbers)}").decoder(ASKED)
    try:
        for piece in pieces:
            events.extend(decoder.feed({"text": piece}))
        events.extend(decoder.finish())
    except ProtocolError as wrong:
        error = str(wrong)
    ends = [event.stop for event in events if isinstance(event, ReplyFinished)]
    assert len(ends) == (not error)
    return PromptedOutcome(
        text="".join(event.text for event in events if isinstance(event, TextDelta)),
        thoughts="".join(event.text for event in events if isinstance(event, ReasoningDelta)),
        calls=tuple((event.call.name, event.call.arguments) for event in events if isinstance(event, CallRequested)),
        notices=sum(isinstance(event, Notice) for event in events),
        stop=ends[0] if ends else None,
        error=error,
    )


def pieces_of(text: str, places: Iterable[int]) -> list[str]:
    at = [0, *sorted({min(place, len(text)) for place in places}), len(text)]
    return [text[start:end] for start, end in pairwise(at)]
