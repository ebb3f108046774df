"""What becomes of a reply: the events it gives and how it ends, however its bytes come."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, pairwise
from typing import Any

from msgspec import Struct

from handrail.core.calls import ToolCall
from handrail.core.errors import ModelError
from handrail.core.events import CallDelta, CallRequested, ModelEvent, Notice, ReplyFinished, TextDelta
from handrail.core.ids import NewId
from handrail.core.jsontext import parse_object
from handrail.core.messages import Text, UserMessage
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.anthropic import AnthropicCodec
from handrail.models.bedrock import BedrockCodec
from handrail.models.codec import Codec, Framing
from handrail.models.codec_model import IncomingReply
from handrail.models.gemini import GeminiCodec
from handrail.models.ollama import OllamaCodec
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.openai_responses import OpenAIResponsesCodec
from handrail.models.prompted.codec import PromptedCodec
from handrail.models.reply_checks import ReplyChecker
from handrail.models.wire_events import WireReader
from tests.hostile.reply_corpus import CorpusStream, ExpectedAnswer, ExpectedCall, ExpectedFailure, WireName
from tests.wires.writers import bedrock

CODECS: dict[WireName, type[Any]] = {
    "openai_chat": OpenAIChatCodec,
    "openai_responses": OpenAIResponsesCodec,
    "anthropic": AnthropicCodec,
    "gemini": GeminiCodec,
    "ollama": OllamaCodec,
    "bedrock": BedrockCodec,
}
MODELS: dict[WireName, str] = {
    "openai_chat": "gpt-4.1",
    "openai_responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
    "ollama": "qwen3",
    "bedrock": bedrock.MODEL,
}


def _offer(name: str, *required: str, **properties: str) -> ToolOffer:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolOffer(name, f"The tool {name}.", schema)


ASKED = ModelRequest(
    messages=(UserMessage((Text("What is it like there?"),)),),
    tools=(
        _offer("weather", "city", city="string"),
        _offer("clock", zone="string"),
        _offer("send", "to", "text", to="string", text="string"),
    ),
)


def numbered(by: str = "made") -> NewId:
    numbers = count(1)
    return lambda kind: f"{kind}-{by}-{next(numbers)}"


def codec_of(stream: CorpusStream) -> Codec:
    codec: Codec = CODECS[stream.wire](new_id=numbered())
    return PromptedCodec(codec, stream.written.tools, numbered()) if stream.written.tools else codec


class Outcome(Struct, frozen=True):
    """All that was given out, and the error that ended it, if one did."""

    events: tuple[ModelEvent, ...]
    error: ModelError | None = None

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def calls(self) -> list[ToolCall]:
        return [event.call for event in self.events if isinstance(event, CallRequested)]

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice)]

    @property
    def same(self) -> object:
        """What may not depend on how the bytes were cut. The beginning of an unreadable reply is shown as it came."""
        wrong = None if self.error is None else (type(self.error).__name__, str(self.error).partition(" (")[0])
        return self.events, wrong


def decoded(stream: CorpusStream, chunks: Iterable[bytes]) -> Outcome:
    """Through the reader and the decoder of a model without its transport, in exactly these chunks."""
    codec, events = codec_of(stream), list[ModelEvent]()
    framing: Framing = codec.encode(ASKED, "m", stream=True).framing
    reader = WireReader(framing, stream.kind.partition(";")[0])
    heard = IncomingReply(codec.decoder(ASKED), ReplyChecker(ASKED), None)
    try:
        for chunk in chunks:
            for said in reader.feed(chunk):
                events.extend(heard.take(said))
        for said in reader.finish():
            events.extend(heard.take(said))
        events.extend(heard.end())
    except ModelError as error:
        return Outcome(tuple(events), error)
    return Outcome(tuple(events))


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    at = [0, *sorted({min(place, len(data)) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(at)]


def judge(stream: CorpusStream, outcome: Outcome) -> None:
    """Hold what was given out to what the corpus says is right."""
    _judge_order(outcome)
    match stream.written:
        case _ if stream.written.answer is not None:
            _judge_answer(stream.written.answer, outcome)
        case _ if stream.written.error is not None:
            _judge_failure(stream.written.error, outcome)
        case _:
            raise AssertionError(f"{stream.id} does not say what is right")


def _judge_order(outcome: Outcome) -> None:
    """What holds for every reply: one end at most, and last; ids are unique; deltas join to the calls."""
    ends = [event for event in outcome.events if isinstance(event, ReplyFinished)]
    assert len(ends) == (outcome.error is None)
    assert not ends or outcome.events[-1] is ends[0]
    ids = [call.id for call in outcome.calls]
    assert all(ids) and len(set(ids)) == len(ids)
    for call in outcome.calls:
        said = "".join(
            event.arguments for event in outcome.events if isinstance(event, CallDelta) and event.call_id == call.id
        )
        assert said == call.arguments or (said.strip() in ("", "null") and call.arguments == "{}")


def _judge_answer(right: ExpectedAnswer, outcome: Outcome) -> None:
    assert outcome.error is None, outcome.error
    end = outcome.events[-1]
    assert isinstance(end, ReplyFinished)
    assert (outcome.text, end.stop) == (right.text, right.stop)
    _judge_calls(right.calls, outcome.calls)
    assert right.notice in " ".join(outcome.notices)


def _judge_failure(right: ExpectedFailure, outcome: Outcome) -> None:
    assert outcome.error is not None, outcome.events
    assert (type(outcome.error).__name__, outcome.text) == (right.kind, right.text)
    assert right.says in str(outcome.error)
    _judge_calls(right.calls, outcome.calls)


def _judge_calls(right: tuple[ExpectedCall, ...], calls: list[ToolCall]) -> None:
    assert [call.name for call in calls] == [call.name for call in right]
    for wanted, call in zip(right, calls, strict=True):
        text = str(call.arguments)
        assert (text if isinstance(wanted.arguments, str) else parse_object(text)) == wanted.arguments
        assert wanted.id in (None, call.id)
