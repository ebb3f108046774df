"""A request as the Interactions API takes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from handrail.core.calls import ToolResult, encode_data
from handrail.core.messages import Content, InvocationMessage, Media, Text
from handrail.core.model_request import ModelRequest, ToolOffer
from handrail.models.codec import EncodedList, WireRequest
from handrail.models.gemini.encode import PLAIN
from handrail.models.gemini.tools import encode_choice, function_declarations, signature_of, split_attachments
from handrail.models.history import Turn, arguments_of, without_system
from handrail.models.identity_cache import cached_by_identity
from handrail.models.profiles import Profile
from handrail.models.reply_layout import CoveredBlock, ReplyPiece
from handrail.models.reply_schemas import gemini_reply_schema
from handrail.models.request_draft import RequestDraft
from handrail.models.shared_encoding import encode_list, has_media_source
from handrail.models.standard_codec import StandardCodec
from handrail.models.supported_features import schema_loss_notices
from handrail.models.tool_names import GEMINI_NAMES, NameMap
from handrail.models.turn_writer import OPENING, TurnWriter

PROVIDER = "gemini_interactions"
REVISION = "2026-05-20"
"""The revision of the API in which a conversation is a list of steps."""
_SETTINGS = {
    "max_tokens": "max_output_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "seed": "seed",
    "stop": "stop_sequences",
}
_KINDS = {"image/": "image", "audio/": "audio", "video/": "video", "application/pdf": "document"}


class InteractionsOptions(StandardCodec, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    version: str = "v1beta"
    strict: bool = False
    """Hold calls to their schemas while the model still chooses whether to call (`validated`)."""


def encode_request(options: InteractionsOptions, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    draft = RequestDraft(request, options.profile, GEMINI_NAMES)
    said = draft.write(_StepWriter, provider=PROVIDER)
    body: dict[str, Any] = {"model": model, "input": said.items, "store": False, "stream": stream}
    settings = draft.settings(_SETTINGS)
    if draft.tools:
        mode, allowed = encode_choice(draft.offer.choice, draft.names, strict=options.strict)
        settings["tool_choice"] = {"allowed_tools": {"mode": mode, "tools": allowed}} if allowed else mode
        draft.put_tools(body, _tools(draft.tools, draft.names))
    if request.builtin_tools:
        body["tools"] = [*body.get("tools", ()), *request.builtin_tools]
    if said.system:
        body["system_instruction"] = said.system
    if settings:
        body["generation_config"] = settings
    if request.response_schema is not None:
        shape = gemini_reply_schema(request.response_schema)
        draft.notices += schema_loss_notices("response_schema", shape.lost)
        form = {"type": "text", "mime_type": "application/json", "schema": shape.schema}
        body["response_format"] = form
    headers = {"api-revision": REVISION}
    return draft.finish(f"/{options.version}/interactions", body, stream=stream, headers=headers)


@cached_by_identity
def _tools(tools: tuple[ToolOffer, ...], names: NameMap) -> tuple[EncodedList, tuple[str, ...]]:
    items, notices = function_declarations(tools, names, "parameters")
    return encode_list([{"type": "function", **item} for item in items]), notices


class _StepWriter(TurnWriter):
    system_apart = True

    def items(self, history: Sequence[Turn]) -> list[dict[str, Any]]:
        return super().items(without_system(history)) or list(self.user((Text(OPENING),)))

    def user(self, content: tuple[Content, ...]) -> Iterable[dict[str, Any]]:
        return ({"type": "user_input", "content": [self.content(part) for part in content]},)

    def piece(self, piece: ReplyPiece) -> dict[str, Any]:
        match piece:
            case str():
                return {"type": "model_output", "content": [self.text(piece)]}
            case CoveredBlock(block=block):
                return block
            case InvocationMessage(call=call):
                step = {"type": "function_call", "id": call.id, "name": self._names.to_wire(call.name)}
                signature = signature_of(piece, PROVIDER, "signature")
                return {**step, "arguments": arguments_of(call), **({"signature": signature} if signature else {})}
        assert_never(piece)

    def results(self, results: tuple[ToolResult, ...]) -> Iterable[dict[str, Any]]:
        beside: list[dict[str, Any]] = []
        for result in results:
            attached = self.attached(result)
            inside = split_attachments(attached, beside, lambda part: part["type"] == "image", self._profile)
            said = [self.text(result.text), *inside] if inside else result.text
            yield {**self.result(result), "result": said, **({"is_error": True} if result.is_error else {})}
        if beside:
            yield {"type": "user_input", "content": beside}

    def result(self, result: ToolResult) -> dict[str, Any]:
        name = self._names.to_wire(result.name)
        return {"type": "function_result", "call_id": result.tool_call_id, "name": name}

    def media(self, media: Media) -> dict[str, Any] | None:
        kind = next((name for prefix, name in _KINDS.items() if media.media_type.startswith(prefix)), None)
        if kind is None or not has_media_source(media):
            return None
        where = {"uri": media.url} if media.data is None else {"data": encode_data(media.data)}
        return {"type": kind, **where, "mime_type": media.media_type}
