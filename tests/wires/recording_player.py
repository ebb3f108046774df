"""Recordings of replies, played through what reads them: bytes → events → history → the next request.

A recording is `recordings/<wire>/<name>.json` (a whole reply), `.sse` or `.jsonl` (a streamed one); what must
come of it stands beside it in `<name>.expected.json`, and where its form was seen in `recordings/SOURCES.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from handrail.core.calls import ToolResult
from handrail.core.errors import ModelError
from handrail.core.events import CallRequested, CitationAdded, MediaAdded, ModelEvent, ReplyFinished, ServiceCallMade
from handrail.core.messages import AssistantMessage, InvocationMessage, Message, ResultMessage
from handrail.core.model_request import ModelRequest
from handrail.models.codec import Codec, Framing
from handrail.models.codec_model import IncomingReply
from handrail.models.codec_table import codec_class
from handrail.models.reply_checks import ReplyChecker
from handrail.models.service_errors import error_for_status
from handrail.models.wire_events import WireEvent, WireReader
from tests.models.reply_rounds import CLOCK, WEATHER, asked, notices_of, numbered, text_of, thoughts_of

FOLDER = Path(__file__).parent / "recordings"
_FRAMINGS: dict[str, Framing] = {".json": "json", ".sse": "sse", ".jsonl": "ndjson"}
_TURNS = ("messages", "input", "contents")
"""Where the bodies of the wires have what was said."""


class Recording(msgspec.Struct, frozen=True):
    path: Path

    @property
    def wire(self) -> str:
        return self.path.parent.name

    @property
    def id(self) -> str:
        return f"{self.wire}/{self.path.stem}"

    @property
    def streamed(self) -> bool:
        return self.path.suffix != ".json"

    @property
    def expected(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.path.with_suffix(".expected.json").read_bytes())
        return found

    @property
    def codec(self) -> Codec:
        kind = codec_class(self.wire)
        given = {"server": self.expected["server"]} if "server" in kind.__struct_fields__ else {}
        codec: Codec = kind(new_id=numbered(), **given)
        return codec

    def events(self) -> list[WireEvent]:
        reader = WireReader(_FRAMINGS[self.path.suffix])
        return [*reader.feed(self.path.read_bytes()), *reader.finish()]


def recordings() -> list[Recording]:
    found = (path for path in sorted(FOLDER.rglob("*.*")) if path.suffix in _FRAMINGS)
    return [Recording(path) for path in found if not path.name.endswith(".expected.json")]


class PlayedRecording(msgspec.Struct, frozen=True):
    """What came of a recording, in the form of its expectation, and what the reader was told on the way."""

    outcome: dict[str, Any]
    notices: list[str]


def play(recording: Recording, events: Iterable[WireEvent] | None = None) -> PlayedRecording:
    """Read a recording, or other events in its place."""
    expected = recording.expected
    given: dict[str, Any] = {key: expected[key] for key in ("server", "asked", "status") if key in expected}
    if "status" in expected:
        failed = error_for_status(expected["status"], recording.path.read_bytes())
        return PlayedRecording({**given, "error": type(failed).__name__}, [])
    seen: list[ModelEvent] = []
    try:
        codec = recording.codec
        heard = IncomingReply(
            codec.decoder(asked(tools=(WEATHER, CLOCK))), ReplyChecker(asked(tools=(WEATHER, CLOCK))), None
        )
        for event in recording.events() if events is None else events:
            seen += heard.take(event)
        seen += heard.end()
    except ModelError as error:
        return PlayedRecording({**given, "error": type(error).__name__}, notices_of(seen))
    outcome = {**given, **_reply(seen), "sent_back": _sent_back(codec, expected["asked"], seen)}
    plain: dict[str, Any] = msgspec.to_builtins(outcome)
    return PlayedRecording(plain, notices_of(seen))


def _reply(events: list[ModelEvent]) -> dict[str, Any]:
    end = events[-1]
    assert isinstance(end, ReplyFinished)
    calls = [event.call for event in events if isinstance(event, CallRequested)]
    extras = {
        "citations": [event.citation for event in events if isinstance(event, CitationAdded)],
        "media": [event.media for event in events if isinstance(event, MediaAdded)],
        "service_calls": [event.call for event in events if isinstance(event, ServiceCallMade)],
    }
    return {
        "text": text_of(events),
        "thoughts": thoughts_of(events),
        "calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls],
        "usage": end.usage,
        "stop": end.stop,
        "notices": len(notices_of(events)),
        **{key: found for key, found in extras.items() if found},
    }


def history(events: list[ModelEvent]) -> tuple[Message, ...]:
    """The conversation after the reply, its calls answered."""
    end = events[-1]
    assert isinstance(end, ReplyFinished)
    said = AssistantMessage(
        text_of(events),
        stop=end.stop,
        artefacts=end.artefacts,
        citations=tuple(event.citation for event in events if isinstance(event, CitationAdded)),
        media=tuple(event.media for event in events if isinstance(event, MediaAdded)),
        service_calls=tuple(event.call for event in events if isinstance(event, ServiceCallMade)),
    )
    made = [InvocationMessage(event.call, 0, event.artefacts) for event in events if isinstance(event, CallRequested)]
    results = [ResultMessage(ToolResult(call.id, call.call.name, "21")) for call in made]
    return (*asked().messages, said, *made, *results)


def _sent_back(codec: Codec, model: str, events: list[ModelEvent]) -> list[Any]:
    """What of the reply the next request has."""
    request = ModelRequest(messages=history(events), tools=(WEATHER, CLOCK))
    body = codec.encode(request, model, stream=True).body
    items = next(body[key] for key in _TURNS if key in body)
    return [item for item in items if item.get("role") not in ("user", "tool") and "output" not in item]
