"""A request as Cohere's `/v2/chat` takes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, assert_never

import msgspec
from msgspec import Struct

from handrail.core.calls import ToolResult, encode_data
from handrail.core.errors import UsageError
from handrail.core.messages import Content, InvocationMessage, Media, Text
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.codec import EncodedList, WireRequest
from handrail.models.conversation_cache import WrittenTurns, write_conversation
from handrail.models.history import AssistantTurn, ResultTurn, SystemTurn, Turn, UserTurn, arguments_text
from handrail.models.identity_cache import cached_by_identity
from handrail.models.profiles import Profile
from handrail.models.reply_layout import CoveredBlock, reply_pieces
from handrail.models.shared_encoding import (
    as_media,
    describe_media,
    encode_list,
    has_media_source,
    names_of,
    with_extra,
)
from handrail.models.supported_features import (
    schema_for_service,
    schema_loss_notices,
    supported_tools,
    unsupported_setting_notices,
    with_supported_settings,
)
from handrail.models.tool_names import COHERE_NAMES, NameMap

PROVIDER = "cohere"
PLAN = "tool_plan"
"""The key of an artefact that holds a plan: it goes back beside the calls, not in the content."""
PLAIN = Profile(tool_choice=("auto", "none", "required"), parallel="fixed", images=False)


class CohereOptions(Struct, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    strict: bool = False
    """Hold calls to their schemas (`strict_tools`). Each tool must then have a required argument."""
    citations: Literal["fast", "accurate", "off"] | None = None
    """How the reply names its sources; without it, the service decides."""


def encode_request(options: CohereOptions, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    if request.builtin_tools:
        raise UsageError("builtin= has no effect here: Cohere's Chat API runs no tools itself; leave out builtin=")
    profile, names = options.profile, names_of(request.tools, COHERE_NAMES)
    offer = supported_tools(request, profile)
    said = write_conversation(
        request, _write_history, profile, names, provider=PROVIDER, tools_offered=bool(offer.tools)
    )
    notices = [*offer.notices, *unsupported_setting_notices(request, profile)]
    known: tuple[EncodedList, ...] = ()
    body: dict[str, Any] = {"model": model, "stream": stream}
    if offer.tools:
        tools, lost = _tools(offer.tools, names, profile)
        notices += lost
        known = (tools,)
        body["tools"] = tools.items
        if isinstance(offer.choice, str) and offer.choice != "auto":
            body["tool_choice"] = offer.choice.upper()
        if options.strict:
            body["strict_tools"] = True
    if options.citations is not None:
        body["citation_options"] = {"mode": options.citations.upper()}
    body |= _settings(with_supported_settings(request, profile))
    if request.response_schema is not None:
        if offer.tools:
            notices.append("this service holds no reply to a schema while tools are offered; the model is asked to")
            said = said.after({"role": "system", "content": _asks_for(request.response_schema)})
        else:
            body["response_format"] = {"type": "json_object", "json_schema": request.response_schema}
    body["messages"] = said.items
    return WireRequest(
        path="/v2/chat",
        body=with_extra(body, request.extra),
        framing="sse" if stream else "json",
        exact=False,
        notices=(*notices, *said.missed),
        known=(*known, *said.known),
    )


def _settings(request: ModelRequest) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "p": request.top_p,
        "stop_sequences": list(request.stop) or None,
        "seed": request.seed,
    }
    return {key: value for key, value in settings.items() if value is not None}


def _asks_for(schema: dict[str, Any]) -> str:
    return f"Reply with JSON only. It must fit this JSON Schema:\n{msgspec.json.encode(schema).decode()}"


@cached_by_identity
def _tools(tools: tuple[ToolOffer, ...], names: NameMap, profile: Profile) -> tuple[EncodedList, tuple[str, ...]]:
    notices: list[str] = []
    items: list[dict[str, Any]] = []
    for tool in tools:
        shape = schema_for_service(tool.input_schema, profile)
        notices += schema_loss_notices(f"tool {tool.name!r}", shape.lost)
        function = {"name": names.to_wire(tool.name), "description": tool.description, "parameters": shape.schema}
        items.append({"type": "function", "function": function})
    return encode_list(items), tuple(notices)


def _write_history(profile: Profile, names: NameMap, history: tuple[Turn, ...]) -> WrittenTurns:
    writer = _MessageWriter(profile, names)
    return WrittenTurns([message for turn in history for message in writer.turn(turn)], tuple(writer.missed))


class _MessageWriter:
    """Writes turns as messages, and notes what could not be written."""

    def __init__(self, profile: Profile, names: NameMap) -> None:
        self._profile = profile
        self._names = names
        self.missed: list[str] = []

    def turn(self, turn: Turn) -> Iterator[dict[str, Any]]:
        match turn:
            case SystemTurn(text):
                yield {"role": "system", "content": text}
            case UserTurn(content):
                yield {"role": "user", "content": self._content(content)}
            case AssistantTurn():
                yield self._assistant(turn)
            case ResultTurn(results):
                yield from map(self._result, results)
            case _:
                assert_never(turn)

    def _assistant(self, turn: AssistantTurn) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant"}
        content: list[dict[str, Any]] = []
        for piece in reply_pieces(turn):
            match piece:
                case str():
                    content.append({"type": "text", "text": piece})
                case CoveredBlock(block={"tool_plan": plan}):
                    message[PLAN] = plan
                case CoveredBlock(block=block):
                    content.append(block)
                case InvocationMessage():
                    message.setdefault("tool_calls", []).append(self._call(piece))
                case _:
                    assert_never(piece)
        return {**message, "content": content} if content else message

    def _call(self, made: InvocationMessage) -> dict[str, Any]:
        function = {"name": self._names.to_wire(made.call.name), "arguments": arguments_text(made.call)}
        return {"id": made.id, "type": "function", "function": function}

    def _result(self, result: ToolResult) -> dict[str, Any]:
        """A result is a document, so that the reply can cite it."""
        content: list[dict[str, Any]] = [{"type": "document", "document": {"data": _data(result)}}]
        for attachment in result.attachments:
            content.append({"type": "text", "text": describe_media(as_media(attachment), self.missed)})
        return {"role": "tool", "tool_call_id": result.tool_call_id, "content": content}

    def _content(self, content: tuple[Content, ...]) -> str | list[dict[str, Any]]:
        parts = [self._part(part) for part in content]
        if all(part["type"] == "text" for part in parts):
            return "\n\n".join(part["text"] for part in parts)
        return parts

    def _part(self, part: Content) -> dict[str, Any]:
        match part:
            case Text(text):
                return {"type": "text", "text": text}
            case Media(media_type=kind) if (
                kind.startswith("image/") and self._profile.images and has_media_source(part)
            ):
                url = part.url or f"data:{kind};base64,{encode_data(part.data or b'')}"
                return {"type": "image_url", "image_url": {"url": url}}
            case Media():
                return {"type": "text", "text": describe_media(part, self.missed)}


def _data(result: ToolResult) -> dict[str, Any]:
    if result.is_error:
        return {"error": result.text}
    if isinstance(result.content, dict) and result.content:
        return result.content
    return {"output": result.text}
