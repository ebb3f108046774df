"""A request as a Responses body."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

from msgspec.structs import replace

from handrail.core.calls import ToolResult
from handrail.core.messages import Content, InvocationMessage, Media, Text
from handrail.core.model import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.providers.codec import Known, WireRequest
from handrail.providers.growth import Part, written
from handrail.providers.history import (
    AssistantTurn,
    ResultTurn,
    SystemTurn,
    Turn,
    UserTurn,
    arguments_text,
    system_text,
)
from handrail.providers.layout import Piece, laid_out
from handrail.providers.names import OPENAI_NAMES, NameMap
from handrail.providers.offer import (
    are_for_programs,
    are_searched,
    heeded,
    losses,
    offered,
    parallel_flag,
    shaped,
    unsaid,
)
from handrail.providers.openai_chat.encode import data_url, wire_id
from handrail.providers.openai_responses.replay import sendable
from handrail.providers.pieces import all_known, as_media, in_words, is_given, names_of, with_builtin, with_extra
from handrail.providers.profiles import Profile
from handrail.providers.remember import remembered

PROVIDER = "openai_responses"
SEARCHES = ("tool_search_call", "tool_search_output")
"""Items of the service's own search among deferred tools; they go back only beside the search."""
PROGRAMS = ("program", "program_output")
"""Items of programs that call tools, which the service runs; they go back as they came, fingerprint included."""


def encode(
    request: ModelRequest, model: str, profile: Profile, *, stream: bool, provider: str = PROVIDER
) -> WireRequest:
    profile = _without_seed_and_stop(profile)
    offer = offered(request, profile, searches=profile.tool_search, runs_programs=bool(profile.programs))
    searched = are_searched(offer.tools)
    names = names_of(request.tools, OPENAI_NAMES)
    notices = [*offer.notices, *unsaid(request, profile)]
    said = written(request, _said, names, profile, searched, provider=provider, tools_offered=bool(offer.tools))
    known = said.known
    body: dict[str, Any] = {"model": model, "input": said.items}
    if said.system:
        body["instructions"] = said.system
    own = None
    if offer.tools:
        own, lost = _tools(offer.tools, names, profile)
        notices += lost
        if offer.choice != "auto":
            body["tool_choice"] = _choice(offer.choice, names)
        if (flag := parallel_flag(request, profile)) is not None:
            body["parallel_tool_calls"] = flag
    elif request.builtin_tools and request.tool_choice == "none":
        body["tool_choice"] = "none"
    if (tools := with_builtin(own, request.builtin_tools)) is not None:
        body["tools"] = tools.items
        known = (*known, tools)
    body |= _settings(heeded(request, profile))
    if request.response_schema is not None:
        body["text"] = {"format": _format(request.response_schema, profile, notices)}
    body["store"] = False
    if profile.encrypted_reasoning:
        body["include"] = ["reasoning.encrypted_content"]
    if stream:
        body["stream"] = True
    return WireRequest(
        path="/responses",
        body=with_extra(body, request.extra),
        framing="sse" if stream else "json",
        exact=False,
        notices=(*notices, *said.missed),
        known=known,
    )


@remembered
def _without_seed_and_stop(profile: Profile) -> Profile:
    """This wire has neither."""
    return replace(profile, seed_field="", stop=False)


@remembered
def _tools(tools: tuple[ToolOffer, ...], names: NameMap, profile: Profile) -> tuple[Known, tuple[str, ...]]:
    notices: list[str] = []
    items = [_tool(tool, names, profile, notices) for tool in tools]
    if are_searched(tools):
        items.append({"type": "tool_search"})
    if are_for_programs(tools):
        items.append({"type": profile.programs})
    return all_known(items), tuple(notices)


def _said(names: NameMap, profile: Profile, searched: bool, history: tuple[Turn, ...]) -> Part:
    instructions, rest = system_text(history)
    writer = _Writer(names, profile, searched=searched)
    return Part([item for turn in rest for item in writer.turn(turn)], tuple(writer.missed), instructions)


def _tool(tool: ToolOffer, names: NameMap, profile: Profile, notices: list[str]) -> dict[str, Any]:
    shape = shaped(tool.input_schema, profile, nulls=True)
    notices += losses(f"tool {tool.name!r}", shape.lost)
    deferred = {"defer_loading": True} if tool.deferred else {}
    callers = {"allowed_callers": ["programmatic"]} if tool.by_program else {}
    return {
        "type": "function",
        "name": names.to_wire(tool.name),
        "description": tool.description,
        "parameters": shape.schema,
        "strict": shape.strict,  # left out, the service would try to make it so
        **deferred,
        **callers,
    }


def _choice(choice: ToolChoice, names: NameMap) -> Any:
    match choice:
        case NamedTool(name):
            return {"type": "function", "name": names.to_wire(name)}
    return choice


def _settings(request: ModelRequest) -> dict[str, Any]:
    settings = {
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
    }
    return {key: value for key, value in settings.items() if value is not None}


def _format(schema: dict[str, Any], profile: Profile, notices: list[str]) -> dict[str, Any]:
    shape = shaped(schema, profile)
    notices += losses("response_schema", shape.lost)
    return {"type": "json_schema", "name": "reply", "schema": shape.schema, "strict": shape.strict}


class _Writer:
    """Turns as input items."""

    def __init__(self, names: NameMap, profile: Profile, *, searched: bool) -> None:
        self._searched = searched
        self._left_out = () if searched else SEARCHES
        self._names = names
        self._profile = profile
        self._callers: dict[str, dict[str, Any]] = {}
        """The programs that made calls, by the ids of the calls."""
        self.missed: list[str] = []

    def turn(self, turn: Turn) -> Iterator[dict[str, Any]]:
        match turn:
            case SystemTurn(text):
                yield {"role": "system", "content": text}
            case UserTurn(content):
                yield {"role": "user", "content": [self._part(part) for part in content]}
            case AssistantTurn():
                pieces = map(self._piece, laid_out(turn))
                yield from sendable(pieces, self._left_out, self.missed) if turn.artefacts else pieces
            case ResultTurn(results):
                yield from map(self._result, results)
            case _:
                assert_never(turn)

    def _piece(self, piece: str | InvocationMessage | Piece) -> dict[str, Any]:
        match piece:
            case str(text):
                return {"role": "assistant", "content": text}
            case Piece({"type": "message", "phase": phase}, text):
                return {"role": "assistant", "content": text, "phase": phase}
            case Piece(block):
                return block
            case InvocationMessage(call):
                self._callers[call.id] = caller = _kept(piece, "caller")
                return {
                    "type": "function_call",
                    "call_id": wire_id(call.id, self._profile),
                    "name": self._names.to_wire(call.name),
                    "arguments": arguments_text(call),
                    **caller,
                    **(_kept(piece, "namespace") if self._searched else {}),
                }

    def _result(self, result: ToolResult) -> dict[str, Any]:
        output: str | list[dict[str, Any]] = result.text
        if result.attachments:
            output = [_text(result.text), *(self._part(as_media(each)) for each in result.attachments)]
        return {
            "type": "function_call_output",
            "call_id": wire_id(result.tool_call_id, self._profile),
            "output": output,
            **self._callers.get(result.tool_call_id, {}),
        }

    def _part(self, part: Content) -> dict[str, Any]:
        match part:
            case Text(text):
                return _text(text)
            case Media(media_type=kind) if kind.startswith("image/") and self._profile.images and is_given(part):
                return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
            case Media(media_type="application/pdf", url=str(url)) if self._profile.files:
                return {"type": "input_file", "file_url": url}
            case Media(media_type="application/pdf", data=bytes()) if self._profile.files:
                return {"type": "input_file", "filename": part.name or "file.pdf", "file_data": data_url(part)}
            case Media():
                return _text(in_words(part, self.missed))


def _kept(message: InvocationMessage, key: str) -> dict[str, Any]:
    """What the service said of a call and wants to be told again: where it found the tool, which program called it."""
    return next(({key: artefact.data[key]} for artefact in message.artefacts if key in artefact.data), {})


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}
