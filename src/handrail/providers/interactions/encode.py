"""A request as the Interactions API takes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from msgspec import Struct

from handrail.core.calls import ToolResult, encode_data
from handrail.core.messages import Artefact, Content, InvocationMessage, Media, Text
from handrail.core.model import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.providers.codec import Known, WireRequest
from handrail.providers.gemini.encode import PLAIN
from handrail.providers.growth import Part, written
from handrail.providers.history import (
    AssistantTurn,
    ResultTurn,
    SystemTurn,
    Turn,
    UserTurn,
    arguments_of,
    system_text,
    without_system,
)
from handrail.providers.layout import Piece, laid_out
from handrail.providers.names import GEMINI_NAMES, NameMap
from handrail.providers.offer import heeded, losses, offered, unsaid
from handrail.providers.pieces import OPENING, all_known, as_media, in_words, is_given, names_of, with_extra
from handrail.providers.profiles import Profile
from handrail.providers.projection import GEMINI, project
from handrail.providers.remember import remembered

PROVIDER = "gemini_interactions"
REVISION = "2026-05-20"
"""Of the API: the one in which a conversation is a list of steps."""
_KINDS = {"image/": "image", "audio/": "audio", "video/": "video", "application/pdf": "document"}


class Options(Struct, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    version: str = "v1beta"
    strict: bool = False
    """Hold calls to their schemas while the model still chooses whether to call (`validated`)."""


def encode_request(options: Options, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    profile, names = options.profile, names_of(request.tools, GEMINI_NAMES)
    offer = offered(request, profile)
    said = written(request, _said, profile, names, provider=PROVIDER, tools_offered=bool(offer.tools))
    known = said.known
    lost: tuple[str, ...] = ()
    body: dict[str, Any] = {"model": model, "input": said.items, "store": False, "stream": stream}
    settings = _settings(heeded(request, profile))
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
        notices=(*offer.notices, *lost, *said.missed, *unsaid(request, profile)),
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


@remembered
def _tools(tools: tuple[ToolOffer, ...], names: NameMap) -> tuple[Known, tuple[str, ...]]:
    notices: list[str] = []
    items: list[dict[str, Any]] = []
    for tool in tools:
        projected = project(tool.input_schema, GEMINI)
        notices += losses(tool.name, projected.lost)
        about = {"name": names.to_wire(tool.name), "description": tool.description}
        items.append({"type": "function", **about, "parameters": projected.schema})
    return all_known(items), tuple(notices)


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


def _said(profile: Profile, names: NameMap, history: tuple[Turn, ...]) -> Part:
    system, rest = system_text(history)
    writer = _Writer(profile, names)
    steps = [step for turn in without_system(rest) for step in writer.steps(turn)]
    if not steps:
        steps = [{"type": "user_input", "content": [{"type": "text", "text": OPENING}]}]
    return Part(steps, tuple(writer.missed), system)


class _Writer:
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
        for piece in laid_out(turn):
            match piece:
                case str():
                    yield {"type": "model_output", "content": [{"type": "text", "text": piece}]}
                case Piece(block=block):
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
            case Media(media_type=kind) if is_given(part):
                named = next((name for prefix, name in _KINDS.items() if kind.startswith(prefix)), None)
                if named is not None:
                    where = {"uri": part.url} if part.data is None else {"data": encode_data(part.data)}
                    return {"type": named, **where, "mime_type": kind}
        return {"type": "text", "text": in_words(part, self.missed)}


def _signature(artefacts: tuple[Artefact, ...]) -> dict[str, str]:
    found = (artefact.data.get("signature") for artefact in artefacts if artefact.provider == PROVIDER)
    return next(({"signature": signature} for signature in found if signature), {})
