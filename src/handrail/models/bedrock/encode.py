"""A request as Converse takes it. Bytes stay bytes in the body: botocore wants them so, and JSON has them in base64."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any, assert_never
from urllib.parse import quote

import msgspec

from handrail.core.calls import ToolResult
from handrail.core.messages import Content, InvocationMessage, Media
from handrail.core.model_request import ModelRequest
from handrail.models.anthropic.reply_schema import anthropic_reply_schema
from handrail.models.bedrock.media import media_block
from handrail.models.bedrock.tools import CACHE_POINT, IDS, PROVIDER, encode_tools
from handrail.models.chat_messages import json_instruction
from handrail.models.codec import WireRequest
from handrail.models.history import Turn, arguments_of, foreign_artefact_notices, turns
from handrail.models.profiles import Profile
from handrail.models.reply_layout import CoveredBlock, ReplyPiece
from handrail.models.request_draft import RequestDraft
from handrail.models.shared_encoding import ids_of
from handrail.models.standard_codec import StandardCodec
from handrail.models.supported_features import UNHELD_REPLY
from handrail.models.tool_names import BEDROCK_NAMES
from handrail.models.turn_writer import AlternatingWriter

PLAIN = Profile(
    schema="bedrock", tool_choice=("auto", "required", "named"), parallel="fixed", seed_field="", files=True
)
_EMPTY = "(nothing)"
"""Sent in place of a blank text, which Converse refuses."""
_SETTINGS = {"max_tokens": "maxTokens", "temperature": "temperature", "top_p": "topP", "stop": "stopSequences"}


class BedrockOptions(StandardCodec, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    strict: bool = False
    """Hold calls to their schemas, where the model can be."""
    cache: bool = False
    """Put cache points after the tools and the system text."""


def encode_request(options: BedrockOptions, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    profile = options.profile
    draft = RequestDraft(request, profile, BEDROCK_NAMES)
    history = turns(request.messages, provider=PROVIDER, tools_offered=bool(draft.tools))
    draft.said = said = _MessageWriter.write(profile, draft.names, history)
    strict = options.strict or profile.strict != "never"
    tools, lost = encode_tools(request, draft.offer, draft.names, strict=strict, cache=options.cache)
    body: dict[str, Any] = {"messages": said.items, **tools}
    if inference := draft.settings(_SETTINGS):
        body["inferenceConfig"] = inference
    draft.notices += (*lost, *foreign_artefact_notices(request.messages, PROVIDER))
    system = [said.system] if said.system else []
    if request.response_schema is not None:
        held = anthropic_reply_schema(request.response_schema) if profile.response_format == "json_schema" else None
        if held is not None:
            schema = {"jsonSchema": {"schema": msgspec.json.encode(held).decode(), "name": "reply"}}
            body["outputConfig"] = {"textFormat": {"type": "json_schema", "structure": schema}}
        else:
            draft.notices.append(UNHELD_REPLY)
            system.append(json_instruction(request.response_schema)["content"])
    if system:
        body["system"] = [*({"text": each} for each in system), *([CACHE_POINT] if options.cache else [])]
    path = f"/model/{quote(model, safe='')}/{'converse-stream' if stream else 'converse'}"
    return draft.finish(path, body, stream=stream, framing="aws")


class _MessageWriter(AlternatingWriter):
    _documents = 0

    def items(self, history: Sequence[Turn]) -> list[dict[str, Any]]:
        self._ids = ids_of(history, IDS)
        return super().items(history)

    def user(self, content: tuple[Content, ...]) -> Iterable[dict[str, Any]]:
        """A document needs a text beside it."""
        blocks = [self.content(part) for part in content]
        if any("document" in block for block in blocks) and not any("text" in block for block in blocks):
            return [self.text("(See the document.)"), *blocks]
        return blocks

    def piece(self, piece: ReplyPiece) -> dict[str, Any] | None:
        match piece:
            case CoveredBlock(block={"reasoningContent": {"redactedContent": str(text)}}):
                return {"reasoningContent": {"redactedContent": base64.b64decode(text)}}
            case CoveredBlock(block=block):
                return block
            case InvocationMessage(call=call):
                return {
                    "toolUse": {
                        "toolUseId": self._ids.to_wire(call.id),
                        "name": self._names.to_wire(call.name),
                        "input": arguments_of(call),
                    }
                }
            case str():
                return {"text": piece} if piece.strip() else None
        assert_never(piece)

    def result(self, result: ToolResult) -> dict[str, Any]:
        text = result.text
        said = self.text(text if text.strip() else _EMPTY)
        if isinstance(result.content, dict):
            said = {"json": result.content}
        return {
            "toolResult": {
                "toolUseId": self._ids.to_wire(result.tool_call_id),
                "content": [said, *self.attached(result)],
                "status": "error" if result.is_error else "success",
            }
        }

    def text(self, text: str) -> dict[str, Any]:
        return {"text": text}

    def media(self, media: Media) -> dict[str, Any] | None:
        self._documents += 1
        return media_block(media, self._profile, self._documents)
