"""A request as the Messages API takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from msgspec import Struct

from handrail.core.calls import ToolResult, encode_data
from handrail.core.messages import Content, InvocationMessage, Media, Text
from handrail.core.model import ModelRequest
from handrail.providers.anthropic.tools import IDS, PROVIDER, encode_tools
from handrail.providers.codec import WireRequest
from handrail.providers.history import (
    AssistantTurn,
    ResultTurn,
    SystemTurn,
    Turn,
    UserTurn,
    arguments_of,
    system_text,
    turns,
    without_system,
)
from handrail.providers.layout import Piece, laid_out
from handrail.providers.names import ANTHROPIC_NAMES, NameMap
from handrail.providers.offer import offered, unsaid
from handrail.providers.pieces import (
    OPENING,
    add_turn,
    as_media,
    described,
    ids_of,
    merged,
    names_of,
    readable,
)
from handrail.providers.profiles import Profile

PATH = "/v1/messages"
VERSION = "2023-06-01"
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
EPHEMERAL = {"type": "ephemeral"}


PLAIN = Profile(schema="anthropic", seed_field="", files=True)


class Options(Struct, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    strict: bool = False
    """Hold calls to their schemas also where the profile does not say that the model can be."""
    cache: bool = False
    """Mark the tools, the system text and the end of the conversation for the service's prompt cache."""
    max_tokens: int = 8192
    """Of a reply, where the request does not say: this service wants to be told."""
    betas: tuple[str, ...] = ()


def encode_request(options: Options, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    profile, names = options.profile, names_of(request, ANTHROPIC_NAMES)
    offer = offered(request, profile)
    system, rest = system_text(turns(request.messages, provider=PROVIDER, tools_offered=bool(offer.tools)))
    messages, missed = _Writer(profile, names, ids_of(rest, IDS)).write(without_system(rest))
    tools, lost = encode_tools(request, offer, names, strict=options.strict or profile.strict != "never")
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens or options.max_tokens,
        "messages": messages,
        "stream": stream,
    }
    if system:
        body["system"] = [{"type": "text", "text": system}] if options.cache else system
    body |= tools | _settings(request, profile)
    if options.cache:
        _mark(body)
    notices = (*offer.notices, *lost, *missed, *unsaid(request, profile))
    headers = {"anthropic-version": VERSION}
    if options.betas:
        headers["anthropic-beta"] = ",".join(options.betas)
    return WireRequest(
        path=PATH,
        body=merged(body, request.extra),
        headers=headers,
        framing="sse" if stream else "json",
        notices=notices,
    )


def _settings(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if profile.sampling:
        settings = {"temperature": request.temperature, "top_p": request.top_p}
    if profile.stop:
        settings["stop_sequences"] = list(request.stop) or None
    if request.response_schema is not None:
        settings["output_config"] = {"format": {"type": "json_schema", "schema": request.response_schema}}
    return {key: value for key, value in settings.items() if value is not None}


def _mark(body: dict[str, Any]) -> None:
    """Cache what is the same in the next turn: tools come first, then the system text, then the conversation."""
    for part in ("tools", "system"):
        if part in body:
            body[part][-1] = {**body[part][-1], "cache_control": EPHEMERAL}
    body["cache_control"] = EPHEMERAL


class _Writer:
    """Writes turns as messages, and notes what could not be written."""

    def __init__(self, profile: Profile, names: NameMap, ids: NameMap) -> None:
        self._profile = profile
        self._names = names
        self._ids = ids
        self._missed: list[str] = []

    def write(self, history: Sequence[Turn]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        messages: list[dict[str, Any]] = []
        if not history:
            add_turn(messages, "user", "content", [{"type": "text", "text": OPENING}])
        for turn in history:
            role = "assistant" if isinstance(turn, AssistantTurn) else "user"
            add_turn(messages, role, "content", self._blocks(turn))
        _trim_prefill(messages[-1])
        return messages, tuple(self._missed)

    def _blocks(self, turn: Turn) -> list[dict[str, Any]]:
        match turn:
            case UserTurn(content=content):
                return [self._content(part) for part in content if not _blank(part)]
            case SystemTurn(text=text):
                return [{"type": "text", "text": text}]
            case AssistantTurn():
                return [block for piece in laid_out(turn) if (block := self._piece(piece))]
            case ResultTurn(results=results):
                return [self._result(result) for result in results]
        assert_never(turn)

    def _piece(self, piece: str | InvocationMessage | Piece) -> dict[str, Any] | None:
        match piece:
            case Piece(block=block):
                return block
            case InvocationMessage(call=call):
                return {
                    "type": "tool_use",
                    "id": self._ids.to_wire(call.id),
                    "name": self._names.to_wire(call.name),
                    "input": arguments_of(call),
                }
            case str():
                return {"type": "text", "text": piece} if piece.strip() else None
        assert_never(piece)

    def _result(self, result: ToolResult) -> dict[str, Any]:
        attached = [self._content(as_media(attachment)) for attachment in result.attachments]
        text = [{"type": "text", "text": result.text}] if result.text.strip() else []
        block = {
            "type": "tool_result",
            "tool_use_id": self._ids.to_wire(result.tool_call_id),
            "content": [*text, *attached] if attached else result.text,
        }
        return {**block, "is_error": True} if result.is_error else block

    def _content(self, part: Content) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if part.media_type in IMAGES and self._profile.images and _given(part):
            return {"type": "image", "source": _source(part)}
        titled = {"title": part.name} if part.name else {}
        if part.media_type == "application/pdf" and self._profile.files and _given(part):
            return {"type": "document", "source": _source(part), **titled}
        if (text := readable(part)) is not None:
            return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, **titled}
        self._missed.append(f"media: this model does not take {part.media_type}; the model is told of it in words")
        return {"type": "text", "text": described(part)}


def _given(media: Media) -> bool:
    return media.data is not None or media.url is not None


def _source(media: Media) -> dict[str, str]:
    if media.data is None:
        return {"type": "url", "url": media.url or ""}
    return {"type": "base64", "media_type": media.media_type, "data": encode_data(media.data)}


def _blank(part: Content) -> bool:
    return isinstance(part, Text) and not part.text.strip()


def _trim_prefill(message: dict[str, Any]) -> None:
    """A last message of the assistant is what its reply begins with; it may not end in white space."""
    last = message["content"][-1]
    if message["role"] == "assistant" and last["type"] == "text":
        last["text"] = last["text"].rstrip()
