"""A request as the Messages API takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.calls import ToolResult, encode_data
from handrail.core.messages import Content, InvocationMessage, Media, Text
from handrail.core.model_request import ModelRequest
from handrail.models.anthropic.programs import caller_of, container_of, unfinished_program_end
from handrail.models.anthropic.replay import block_to_send, drop_unfinished_calls
from handrail.models.anthropic.tool_search import findable
from handrail.models.anthropic.tools import EPHEMERAL, IDS, PROVIDER, encode_choice, encode_tools
from handrail.models.codec import WireRequest
from handrail.models.conversation_cache import WrittenTurns, write_conversation
from handrail.models.history import (
    AssistantTurn,
    ResultTurn,
    SystemTurn,
    Turn,
    UserTurn,
    arguments_of,
    system_text,
    without_system,
)
from handrail.models.profiles import Profile
from handrail.models.reply_layout import CoveredBlock, reply_pieces
from handrail.models.shared_encoding import (
    OPENING,
    add_turn,
    as_media,
    describe_media,
    has_media_source,
    ids_of,
    names_of,
    text_of_media,
    with_builtin,
    with_extra,
)
from handrail.models.supported_features import (
    has_program_tools,
    supported_tools,
    unsupported_setting_notices,
    with_supported_settings,
)
from handrail.models.tool_names import ANTHROPIC_NAMES, NameMap

_PATH = "/v1/messages"
_VERSION = "2023-06-01"
_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


PLAIN = Profile(schema="anthropic", seed_field="", files=True)


class AnthropicOptions(Struct, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    strict: bool = False
    """Hold calls to their schemas also where the profile does not say that the model can be."""
    cache: bool = False
    """Mark the tools, the system text and the end of the conversation for the service's prompt cache."""
    max_tokens: int = 8192
    """Of a reply, where the request does not say: this service wants to be told."""
    betas: tuple[str, ...] = ()


def encode_request(options: AnthropicOptions, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    profile, names = options.profile, names_of(request.tools, ANTHROPIC_NAMES)
    offer = supported_tools(request, profile, searches=profile.tool_search, runs_programs=bool(profile.programs))
    given = (profile, names, findable(offer.tools, names))
    said = write_conversation(
        request, _write_history, *given, provider=PROVIDER, tools_offered=bool(offer.tools), ids=IDS
    )
    known = said.known
    lost: tuple[str, ...] = ()
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens or options.max_tokens,
        "messages": said.items,
        "stream": stream,
    }
    if said.system:
        body["system"] = _system(said.system, cache=options.cache)
    own = None
    if offer.tools:
        strict = options.strict or profile.strict != "never"
        own, lost = encode_tools(offer.tools, names, strict, options.cache, profile.programs)
        body["tool_choice"], unforced = encode_choice(request, offer.choice, names)
        lost += unforced
    elif request.builtin_tools and request.tool_choice == "none":
        body["tool_choice"] = {"type": "none"}
    if (tools := with_builtin(own, request.builtin_tools)) is not None:
        body["tools"] = tools.items
        known = (*known, tools)
    body |= _settings(with_supported_settings(request, profile))
    runs_code = bool(request.builtin_tools) or has_program_tools(offer.tools)
    if runs_code and (container := container_of(request.messages)):
        # With settings of the caller's for it, as skills, it is an object.
        body["container"] = {"id": container} if isinstance(request.extra.get("container"), dict) else container
    if options.cache:
        body["cache_control"] = EPHEMERAL
    headers = {"anthropic-version": _VERSION}
    if options.betas:
        headers["anthropic-beta"] = ",".join(options.betas)
    return WireRequest(
        path=_PATH,
        body=with_extra(body, request.extra),
        headers=headers,
        framing="sse" if stream else "json",
        notices=(*offer.notices, *lost, *said.missed, *unsupported_setting_notices(request, profile)),
        known=known,
    )


def encode_count(options: AnthropicOptions, request: ModelRequest, model: str) -> WireRequest:
    """A question for how many tokens the request has. It says nothing of the reply."""
    wire = encode_request(options, request, model, stream=False)
    body = {key: value for key, value in wire.body.items() if key in _COUNTED}
    return replace(wire, path=f"{_PATH}/count_tokens", body=body, notices=())


def _system(text: str, *, cache: bool) -> Any:
    return [{"type": "text", "text": text, "cache_control": EPHEMERAL}] if cache else text


def _settings(request: ModelRequest) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop_sequences": list(request.stop) or None,
    }
    if request.response_schema is not None:
        settings["output_config"] = {"format": {"type": "json_schema", "schema": request.response_schema}}
    return {key: value for key, value in settings.items() if value is not None}


def _write_history(
    profile: Profile, names: NameMap, findable: frozenset[str], history: tuple[Turn, ...]
) -> WrittenTurns:
    system, rest = system_text(history)
    writer = _MessageWriter(profile, names, ids_of(rest, IDS), findable)
    return WrittenTurns(writer.write(without_system(rest)), tuple(writer.missed), system)


class _MessageWriter:
    """Writes turns as messages, and notes what could not be written."""

    def __init__(self, profile: Profile, names: NameMap, ids: NameMap, findable: frozenset[str]) -> None:
        self._profile = profile
        self._findable = findable
        self._names = names
        self._ids = ids
        self.missed: list[str] = []

    def write(self, history: Sequence[Turn]) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        if not history:
            add_turn(messages, "user", "content", [{"type": "text", "text": OPENING}])
        for at, turn in enumerate(history):
            role, blocks = "user", self._blocks(turn)
            if isinstance(turn, AssistantTurn):
                role = "assistant"
                # Beside calls of ours the service still waits; and a reply that is the last one goes on.
                if turn.artefacts and not turn.calls and turn is not history[-1]:
                    blocks = drop_unfinished_calls(blocks, self.missed)
            elif ended := unfinished_program_end(history, at):
                add_turn(messages, "assistant", "content", ended)
            add_turn(messages, role, "content", blocks)
        if messages and messages[-1]["role"] == "assistant":
            _trim_prefill(messages[-1]["content"])
        return messages

    def _blocks(self, turn: Turn) -> list[dict[str, Any]]:
        match turn:
            case UserTurn(content=content):
                return [self._content(part) for part in content if not _blank(part)]
            case SystemTurn(text=text):
                return [{"type": "text", "text": text}]
            case AssistantTurn():
                return [block for piece in reply_pieces(turn) if (block := self._piece(piece))]
            case ResultTurn(results=results):
                return [self._result(result) for result in results]
        assert_never(turn)

    def _piece(self, piece: str | InvocationMessage | CoveredBlock) -> dict[str, Any] | None:
        match piece:
            case CoveredBlock():
                return block_to_send(piece, self._findable)
            case InvocationMessage(call=call):
                return {
                    "type": "tool_use",
                    "id": self._ids.to_wire(call.id),
                    "name": self._names.to_wire(call.name),
                    "input": arguments_of(call),
                    **caller_of(piece),
                }
            case str():
                return {"type": "text", "text": piece} if piece.strip() else None
        assert_never(piece)

    def _result(self, result: ToolResult) -> dict[str, Any]:
        attached = [self._content(as_media(attachment)) for attachment in result.attachments]
        text = result.text
        told = [{"type": "text", "text": text}] if text.strip() else []
        block = {
            "type": "tool_result",
            "tool_use_id": self._ids.to_wire(result.tool_call_id),
            "content": [*told, *attached] if attached else text,
        }
        return {**block, "is_error": True} if result.is_error else block

    def _content(self, part: Content) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if part.media_type in _IMAGES and self._profile.images and has_media_source(part):
            return {"type": "image", "source": _source(part)}
        titled = {"title": part.name} if part.name else {}
        if part.media_type == "application/pdf" and self._profile.files and has_media_source(part):
            return {"type": "document", "source": _source(part), **titled}
        if (text := text_of_media(part)) is not None:
            return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, **titled}
        return {"type": "text", "text": describe_media(part, self.missed)}


def _source(media: Media) -> dict[str, str]:
    if media.data is None:
        return {"type": "url", "url": media.url or ""}
    return {"type": "base64", "media_type": media.media_type, "data": encode_data(media.data)}


def _blank(part: Content) -> bool:
    return isinstance(part, Text) and not part.text.strip()


def _trim_prefill(blocks: list[dict[str, Any]]) -> None:
    """A last message of the assistant is what its reply begins with; it may not end in white space."""
    if blocks[-1]["type"] == "text":
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
