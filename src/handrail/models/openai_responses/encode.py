"""A request as a Responses body."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from handrail.core.calls import ToolResult
from handrail.core.messages import Content, InvocationMessage, Media
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.models.chat_messages import data_url, wire_id
from handrail.models.codec import EncodedList, WireRequest
from handrail.models.history import AssistantTurn, arguments_text
from handrail.models.identity_cache import cached_by_identity
from handrail.models.openai_responses.replay import items_to_send
from handrail.models.profiles import Profile
from handrail.models.reply_layout import CoveredBlock, ReplyPiece, reply_pieces
from handrail.models.reply_schemas import openai_reply_schema
from handrail.models.request_draft import RequestDraft
from handrail.models.shared_encoding import encode_list, has_media_source
from handrail.models.supported_features import (
    has_deferred_tools,
    has_program_tools,
    parallel_flag,
    schema_for_service,
    schema_loss_notices,
)
from handrail.models.tool_names import OPENAI_NAMES, NameMap
from handrail.models.turn_writer import TurnWriter

PROVIDER = "openai_responses"
_SETTINGS = {"max_tokens": "max_output_tokens", "temperature": "temperature", "top_p": "top_p"}
SEARCHES = ("tool_search_call", "tool_search_output")
"""Items of the service's own search among deferred tools; they go back only beside the search."""
PROGRAMS = ("program", "program_output")
"""Items of programs that call tools, which the service runs; they go back as they came, fingerprint included."""


def encode(
    request: ModelRequest, model: str, profile: Profile, *, stream: bool, provider: str = PROVIDER
) -> WireRequest:
    profile = _without_seed_and_stop(profile)
    asks = {"searches": profile.tool_search, "runs_programs": bool(profile.programs)}
    draft = RequestDraft(request, profile, OPENAI_NAMES, **asks)
    said = draft.write(_ItemWriter, has_deferred_tools(draft.tools), provider=provider)
    body: dict[str, Any] = {"model": model, "input": said.items}
    if said.system:
        body["instructions"] = said.system
    own = None
    if draft.tools:
        own = _tools(draft.tools, draft.names, profile)
        if draft.offer.choice != "auto":
            body["tool_choice"] = _choice(draft.offer.choice, draft.names)
        if (flag := parallel_flag(request, profile)) is not None:
            body["parallel_tool_calls"] = flag
    elif request.builtin_tools and request.tool_choice == "none":
        body["tool_choice"] = "none"
    draft.put_tools(body, own, request.builtin_tools)
    body |= draft.settings(_SETTINGS)
    if request.response_schema is not None:
        body["text"] = {"format": _format(request, profile, draft.notices)}
    body["store"] = False
    if profile.encrypted_reasoning:
        body["include"] = ["reasoning.encrypted_content"]
    if stream:
        body["stream"] = True
    return draft.finish("/responses", body, stream=stream, exact=False)


@cached_by_identity
def _without_seed_and_stop(profile: Profile) -> Profile:
    """This wire has neither."""
    return replace(profile, seed_field="", stop=False)


@cached_by_identity
def _tools(tools: tuple[ToolOffer, ...], names: NameMap, profile: Profile) -> tuple[EncodedList, tuple[str, ...]]:
    notices: list[str] = []
    items = [_tool(tool, names, profile, notices) for tool in tools]
    if has_deferred_tools(tools):
        items.append({"type": "tool_search"})
    if has_program_tools(tools):
        items.append({"type": profile.programs})
    return encode_list(items), tuple(notices)


def _tool(tool: ToolOffer, names: NameMap, profile: Profile, notices: list[str]) -> dict[str, Any]:
    shape = schema_for_service(tool.input_schema, profile, nulls=True)
    notices += schema_loss_notices(f"tool {tool.name!r}", shape.lost)
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


def _format(request: ModelRequest, profile: Profile, notices: list[str]) -> dict[str, Any]:
    shape = openai_reply_schema(request.response_schema or {}, profile, request.response_nulls)
    notices += schema_loss_notices("response_schema", shape.lost)
    return {"type": "json_schema", "name": "reply", "schema": shape.schema, "strict": shape.strict}


class _ItemWriter(TurnWriter):
    system_apart = True

    def __init__(self, profile: Profile, names: NameMap, searched: bool) -> None:
        super().__init__(profile, names)
        self._searched = searched
        self._callers: dict[str, dict[str, Any]] = {}
        """The programs that made calls, by the ids of the calls."""

    def user(self, content: tuple[Content, ...]) -> Iterable[dict[str, Any]]:
        return ({"role": "user", "content": [self.content(part) for part in content]},)

    def reply(self, turn: AssistantTurn) -> Iterable[dict[str, Any]]:
        items = map(self.piece, reply_pieces(turn))
        return items_to_send(items, () if self._searched else SEARCHES, self.missed) if turn.artefacts else items

    def piece(self, piece: ReplyPiece) -> dict[str, Any]:
        match piece:
            case str(text):
                return {"role": "assistant", "content": text}
            case CoveredBlock({"type": "message", "phase": phase}, text):
                return {"role": "assistant", "content": text, "phase": phase}
            case CoveredBlock(block):
                return block
            case InvocationMessage(call):
                self._callers[call.id] = caller = _call_metadata(piece, "caller")
                return {
                    "type": "function_call",
                    "call_id": wire_id(call.id, self._profile),
                    "name": self._names.to_wire(call.name),
                    "arguments": arguments_text(call),
                    **caller,
                    **(_call_metadata(piece, "namespace") if self._searched else {}),
                }

    def result(self, result: ToolResult) -> dict[str, Any]:
        output: str | list[dict[str, Any]] = result.text
        if result.attachments:
            output = [self.text(result.text), *self.attached(result)]
        return {
            "type": "function_call_output",
            "call_id": wire_id(result.tool_call_id, self._profile),
            "output": output,
            **self._callers.get(result.tool_call_id, {}),
        }

    def media(self, media: Media) -> dict[str, Any] | None:
        if media.media_type.startswith("image/") and self._profile.images and has_media_source(media):
            return {"type": "input_image", "image_url": data_url(media), "detail": "auto"}
        if media.media_type != "application/pdf" or not self._profile.files or not has_media_source(media):
            return None
        if media.url is not None:
            return {"type": "input_file", "file_url": media.url}
        return {"type": "input_file", "filename": media.name or "file.pdf", "file_data": data_url(media)}

    def text(self, text: str) -> dict[str, Any]:
        return {"type": "input_text", "text": text}


def _call_metadata(message: InvocationMessage, key: str) -> dict[str, Any]:
    """What the service said of a call and wants to be told again: where it found the tool, which program called it."""
    return next(({key: artefact.data[key]} for artefact in message.artefacts if key in artefact.data), {})
