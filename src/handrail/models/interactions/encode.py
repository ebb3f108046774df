"""A request as the Interactions API takes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from msgspec import Struct

from handrail.core.calls import ToolResult, encode_data
from handrail.core.messages import Artefact, Content, InvocationMessage, Media, Text
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.models.codec import EncodedList, WireRequest
from handrail.models.conversation_cache import WrittenTurns, write_conversation
from handrail.models.gemini.encode import PLAIN
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
from handrail.models.identity_cache import cached_by_identity
from handrail.models.profiles import Profile
from handrail.models.projection import GEMINI, project
from handrail.models.reply_layout import CoveredBlock, reply_pieces
from handrail.models.shared_encoding import (
    OPENING,
    as_media,
    describe_media,
    encode_list,
    has_media_source,
    names_of,
    with_extra,
)
from handrail.models.supported_features import (
    schema_loss_notices,
    supported_tools,
    unsupported_setting_notices,
    with_supported_settings,
)
from handrail.models.tool_names import GEMINI_NAMES, NameMap

PROVIDER = "gemini_interactions"
REVISION = "2026-05-20"
"""Of the API: the one in which a conversation is a list of steps."""
_KINDS = {"image/": "image", "audio/": "audio", "video/": "video", "application/pdf": "document"}


class InteractionsOptions(Struct, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    version: str = "v1beta"
    strict: bool = False
    """Hold calls to their schemas while the model still chooses whether to call (`validated`)."""


def encode_request(options: InteractionsOptions, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    profile, names = options.profile, names_of(request.tools, GEMINI_NAMES)
    offer = supported_tools(request, profile)
    said = write_conversation(
        request, _write_history, profile, names, provider=PROVIDER, tools_offered=bool(offer.tools)
    )
    known = said.known
    lost: tuple[str, ...] = ()
    body: dict[str, Any] = {"model": model, "input": said.items, "store": False, "stream": stream}
    settings = _settings(with_supported_settings(request, profile))
    if offer.tools:
        tools, lost = _tools(offer.tools, names)
        settings["tool_choice"] = _choice(offer.choice, names, strict=options.strict)
        body["tools"] = tools.items
        known = (*known, tools)
    if request.builtin_tools:
        body["tools"] = [*body.get("tools", ()), *request.builtin_tools]
    if said.system:
        body["system_instruction"] = said.system
    if settings:
        body["generation_config"] = settings
    if request.response_schema is not None:
        form = {"type": "text", "mime_type": "application/json", "schema": request.response_schema}
        body["response_format"] = form
    return WireRequest(
        path=f"/{options.version}/interactions",
        body=with_extra(body, request.extra),
        headers={"api-revision": REVISION},
        framing="sse" if stream else "json",
        notices=(*offer.notices, *lost, *said.missed, *unsupported_setting_notices(request, profile)),
        known=known,
    )


def _settings(request: ModelRequest) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "stop_sequences": list(request.stop) or None,
    }
    return {key: value for key, value in settings.items() if value is not None}


@cached_by_identity
def _tools(tools: tuple[ToolOffer, ...], names: NameMap) -> tuple[EncodedList, tuple[str, ...]]:
    notices: list[str] = []
    items: list[dict[str, Any]] = []
    for tool in tools:
        projected = project(tool.input_schema, GEMINI)
        notices += schema_loss_notices(tool.name, projected.lost)
        about = {"name": names.to_wire(tool.name), "description": tool.description}
        items.append({"type": "function", **about, "parameters": projected.schema})
    return encode_list(items), tuple(notices)


def _choice(choice: ToolChoice, names: NameMap, *, strict: bool) -> Any:
    match choice:
        case "auto":
            return "validated" if strict else "auto"
        case "required":
            return "any"
        case "none":
            return "none"
        case NamedTool(name=name):
            return {"allowed_tools": {"mode": "any", "tools": [names.to_wire(name)]}}
    assert_never(choice)


def _write_history(profile: Profile, names: NameMap, history: tuple[Turn, ...]) -> WrittenTurns:
    system, rest = system_text(history)
    writer = _StepWriter(profile, names)
    steps = [step for turn in without_system(rest) for step in writer.steps(turn)]
    if not steps:
        steps = [{"type": "user_input", "content": [{"type": "text", "text": OPENING}]}]
    return WrittenTurns(steps, tuple(writer.missed), system)


class _StepWriter:
    """Writes turns as steps, and notes what could not be written."""

    def __init__(self, profile: Profile, names: NameMap) -> None:
        self._profile = profile
        self._names = names
        self.missed: list[str] = []

    def steps(self, turn: Turn) -> Iterator[dict[str, Any]]:
        match turn:
            case UserTurn(content=content):
                yield {"type": "user_input", "content": [self._content(part) for part in content]}
            case SystemTurn(text=text):
                yield {"type": "user_input", "content": [{"type": "text", "text": text}]}
            case AssistantTurn():
                yield from self._reply(turn)
            case ResultTurn(results=results):
                yield from self._results(results)
            case _:
                assert_never(turn)

    def _reply(self, turn: AssistantTurn) -> Iterator[dict[str, Any]]:
        for piece in reply_pieces(turn):
            match piece:
                case str():
                    yield {"type": "model_output", "content": [{"type": "text", "text": piece}]}
                case CoveredBlock(block=block):
                    yield block
                case InvocationMessage(call=call):
                    step = {"type": "function_call", "id": call.id, "name": self._names.to_wire(call.name)}
                    yield {**step, "arguments": arguments_of(call), **_signature(piece.artefacts)}
                case _:
                    assert_never(piece)

    def _results(self, results: tuple[ToolResult, ...]) -> Iterator[dict[str, Any]]:
        beside: list[dict[str, Any]] = []
        for result in results:
            attached = [self._content(as_media(attachment)) for attachment in result.attachments]
            inside = [part for part in attached if part["type"] == "image"] if self._profile.media_in_results else []
            beside += [part for part in attached if part not in inside]
            step = {"type": "function_result", "call_id": result.tool_call_id, "name": self._names.to_wire(result.name)}
            said = [{"type": "text", "text": result.text}, *inside] if inside else result.text
            yield {**step, "result": said, **({"is_error": True} if result.is_error else {})}
        if beside:
            yield {"type": "user_input", "content": beside}

    def _content(self, part: Content) -> dict[str, Any]:
        match part:
            case Text(text):
                return {"type": "text", "text": text}
            case Media(media_type=kind) if has_media_source(part):
                named = next((name for prefix, name in _KINDS.items() if kind.startswith(prefix)), None)
                if named is not None:
                    where = {"uri": part.url} if part.data is None else {"data": encode_data(part.data)}
                    return {"type": named, **where, "mime_type": kind}
        return {"type": "text", "text": describe_media(part, self.missed)}


def _signature(artefacts: tuple[Artefact, ...]) -> dict[str, str]:
    found = (artefact.data.get("signature") for artefact in artefacts if artefact.provider == PROVIDER)
    return next(({"signature": signature} for signature in found if signature), {})
