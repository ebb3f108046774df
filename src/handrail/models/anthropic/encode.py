"""A request as the Messages API takes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from handrail.core.calls import ToolResult, encode_data
from handrail.core.messages import InvocationMessage, Media
from handrail.core.model_request import ModelRequest
from handrail.models.anthropic.programs import caller_of, container_of, unfinished_program_end
from handrail.models.anthropic.replay import block_to_send, drop_unfinished_calls, searchable_names
from handrail.models.anthropic.reply_schema import anthropic_reply_schema
from handrail.models.anthropic.tools import EPHEMERAL, IDS, PROVIDER, encode_choice, encode_tools
from handrail.models.chat_messages import json_instruction
from handrail.models.codec import WireRequest
from handrail.models.history import AssistantTurn, Turn, arguments_of, without_system
from handrail.models.profiles import Profile
from handrail.models.reply_layout import CoveredBlock, ReplyPiece, reply_pieces
from handrail.models.request_draft import RequestDraft
from handrail.models.shared_encoding import has_media_source, ids_of, text_of_media
from handrail.models.standard_codec import StandardCodec
from handrail.models.supported_features import UNHELD_REPLY, has_program_tools
from handrail.models.tool_names import ANTHROPIC_NAMES, NameMap
from handrail.models.turn_writer import AlternatingWriter

_PATH = "/v1/messages"
_VERSION = "2023-06-01"
_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "cache_control")
_SETTINGS = {"temperature": "temperature", "top_p": "top_p", "stop": "stop_sequences"}
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


PLAIN = Profile(schema="anthropic", seed_field="", files=True)


class AnthropicOptions(StandardCodec, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    strict: bool = False
    """Hold calls to their schemas also where the profile does not say that the model can be."""
    cache: bool = False
    """Mark the tools, the system text and the end of the conversation for the service's prompt cache."""
    max_tokens: int = 8192
    """The token limit of a reply when the request sets none; this API requires one."""
    betas: tuple[str, ...] = ()


def encode_request(options: AnthropicOptions, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    profile = options.profile
    asks = {"searches": profile.tool_search, "runs_programs": bool(profile.programs)}
    draft = RequestDraft(request, profile, ANTHROPIC_NAMES, **asks)
    said = draft.write(_MessageWriter, searchable_names(draft.tools, draft.names), provider=PROVIDER, ids=IDS)
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens or options.max_tokens,
        "messages": said.items,
        "stream": stream,
    }
    if said.system:
        marked = [{"type": "text", "text": said.system, "cache_control": EPHEMERAL}]
        body["system"] = marked if options.cache else said.system
    own = None
    if draft.tools:
        strict = options.strict or profile.strict != "never"
        own = encode_tools(draft.tools, draft.names, strict, options.cache, profile.programs)
        body["tool_choice"], unforced = encode_choice(request, draft.offer.choice, draft.names)
        draft.notices += unforced
    elif request.builtin_tools and request.tool_choice == "none":
        body["tool_choice"] = {"type": "none"}
    draft.put_tools(body, own, request.builtin_tools)
    body |= draft.settings(_SETTINGS)
    if request.response_schema is not None:
        _ask_for_schema(body, request.response_schema, draft, cache=options.cache)
    runs_code = bool(request.builtin_tools) or has_program_tools(draft.tools)
    if runs_code and (container := container_of(request.messages)):
        # With settings of the caller's for it, as skills, it is an object.
        body["container"] = {"id": container} if isinstance(request.extra.get("container"), dict) else container
    if options.cache:
        body["cache_control"] = EPHEMERAL
    headers = {"anthropic-version": _VERSION}
    if options.betas:
        headers["anthropic-beta"] = ",".join(options.betas)
    return draft.finish(_PATH, body, stream=stream, headers=headers)


def _ask_for_schema(body: dict[str, Any], schema: dict[str, Any], draft: RequestDraft, *, cache: bool) -> None:
    """Have the service hold the reply to a schema, or ask the model to keep to it."""
    held = anthropic_reply_schema(schema) if draft.profile.response_format == "json_schema" else None
    if held is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": held}}
        return
    draft.notices.append(UNHELD_REPLY)
    words = "\n\n".join(filter(None, (draft.said.system, json_instruction(schema)["content"])))
    body["system"] = [{"type": "text", "text": words, "cache_control": EPHEMERAL}] if cache else words


def encode_count(options: AnthropicOptions, request: ModelRequest, model: str) -> WireRequest:
    """A question for how many tokens the request has. It says nothing of the reply."""
    wire = encode_request(options, request, model, stream=False)
    body = {key: value for key, value in wire.body.items() if key in _COUNTED}
    return replace(wire, path=f"{_PATH}/count_tokens", body=body, notices=())


class _MessageWriter(AlternatingWriter):
    def __init__(self, profile: Profile, names: NameMap, searchable: frozenset[str]) -> None:
        super().__init__(profile, names)
        self._searchable = searchable
        self._goes_on = False
        """Whether the reply that is written is the last turn, which the service continues."""

    def items(self, history: Sequence[Turn]) -> list[dict[str, Any]]:
        self._ids = ids_of(history, IDS)
        history = without_system(history)
        messages = [] if history else super().items(())
        for at, turn in enumerate(history):
            if ended := unfinished_program_end(history, at):
                self.add(messages, "assistant", ended)
            self._goes_on = at == len(history) - 1
            self.add(messages, "assistant" if isinstance(turn, AssistantTurn) else "user", self.turn(turn))
        if messages and messages[-1]["role"] == "assistant":
            _trim_prefill(messages[-1]["content"])
        return messages

    def reply(self, turn: AssistantTurn) -> Iterable[dict[str, Any]]:
        blocks = [block for piece in reply_pieces(turn) if (block := self.piece(piece))]
        # Beside calls of ours the service still waits.
        if not turn.artefacts or turn.calls or self._goes_on:
            return blocks
        return drop_unfinished_calls(blocks, self.missed)

    def piece(self, piece: ReplyPiece) -> dict[str, Any] | None:
        match piece:
            case CoveredBlock():
                return block_to_send(piece, self._searchable)
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

    def result(self, result: ToolResult) -> dict[str, Any]:
        content: str | list[dict[str, Any]] = result.text
        if result.attachments:
            content = [*([self.text(result.text)] if result.text.strip() else []), *self.attached(result)]
        block = {"type": "tool_result", "tool_use_id": self._ids.to_wire(result.tool_call_id), "content": content}
        return {**block, "is_error": True} if result.is_error else block

    def media(self, media: Media) -> dict[str, Any] | None:
        if media.media_type in _IMAGES and self._profile.images and has_media_source(media):
            return {"type": "image", "source": _source(media)}
        titled = {"title": media.name} if media.name else {}
        if media.media_type == "application/pdf" and self._profile.files and has_media_source(media):
            return {"type": "document", "source": _source(media), **titled}
        if (text := text_of_media(media)) is not None:
            return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": text}, **titled}
        return None


def _source(media: Media) -> dict[str, str]:
    if media.data is None:
        return {"type": "url", "url": media.url or ""}
    return {"type": "base64", "media_type": media.media_type, "data": encode_data(media.data)}


def _trim_prefill(blocks: list[dict[str, Any]]) -> None:
    """A last message of the assistant is what its reply begins with; it may not end in white space."""
    if blocks[-1]["type"] == "text":
        blocks[-1] = {**blocks[-1], "text": blocks[-1]["text"].rstrip()}
