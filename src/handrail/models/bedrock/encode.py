"""A request as Converse takes it. Bytes stay bytes in the body: botocore wants them so, and JSON has them in base64."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, assert_never
from urllib.parse import quote

import msgspec
from msgspec import Struct

from handrail.core.calls import ToolResult
from handrail.core.messages import Content, InvocationMessage, Text
from handrail.core.model_request import ModelRequest
from handrail.models.bedrock.media import media_block
from handrail.models.bedrock.tools import CACHE_POINT, IDS, PROVIDER, encode_tools
from handrail.models.codec import WireRequest
from handrail.models.history import (
    AssistantTurn,
    ResultTurn,
    SystemTurn,
    Turn,
    UserTurn,
    arguments_of,
    foreign_artefact_notices,
    system_text,
    turns,
    without_system,
)
from handrail.models.profiles import Profile
from handrail.models.reply_layout import CoveredBlock, reply_pieces
from handrail.models.shared_encoding import OPENING, add_turn, as_media, describe_media, ids_of, names_of, with_extra
from handrail.models.supported_features import supported_tools, unsupported_setting_notices, with_supported_settings
from handrail.models.tool_names import BEDROCK_NAMES, NameMap

PLAIN = Profile(
    schema="bedrock", tool_choice=("auto", "required", "named"), parallel="fixed", seed_field="", files=True
)
_EMPTY = "(nothing)"
"""In place of a text that may not be blank."""


class BedrockOptions(Struct, frozen=True, kw_only=True):
    profile: Profile = PLAIN
    strict: bool = False
    """Hold calls to their schemas, where the model can be."""
    cache: bool = False
    """Put cache points after the tools and the system text."""


def encode_request(options: BedrockOptions, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
    profile, names = options.profile, names_of(request.tools, BEDROCK_NAMES)
    offer = supported_tools(request, profile)
    system, rest = system_text(turns(request.messages, provider=PROVIDER, tools_offered=bool(offer.tools)))
    messages, missed = _MessageWriter(profile, names, ids_of(rest, IDS)).write(without_system(rest))
    strict = options.strict or profile.strict != "never"
    tools, lost = encode_tools(request, offer, names, strict=strict, cache=options.cache)
    body: dict[str, Any] = {
        "messages": messages,
        **tools,
        **_settings(with_supported_settings(request, profile), profile),
    }
    if system:
        body["system"] = [{"text": system}, *([CACHE_POINT] if options.cache else [])]
    return WireRequest(
        path=f"/model/{quote(model, safe='')}/{'converse-stream' if stream else 'converse'}",
        body=with_extra(body, request.extra),
        framing="aws" if stream else "json",
        notices=(
            *offer.notices,
            *lost,
            *missed,
            *foreign_artefact_notices(request.messages, PROVIDER),
            *unsupported_setting_notices(request, profile),
            *_unshaped(request, profile),
        ),
    )


def _settings(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    asked = {
        "maxTokens": request.max_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        "stopSequences": list(request.stop) or None,
    }
    inference = {key: value for key, value in asked.items() if value is not None}
    settings: dict[str, Any] = {"inferenceConfig": inference} if inference else {}
    if request.response_schema is not None and profile.response_format == "json_schema":
        schema = {"jsonSchema": {"schema": msgspec.json.encode(request.response_schema).decode(), "name": "reply"}}
        settings["outputConfig"] = {"textFormat": {"type": "json_schema", "structure": schema}}
    return settings


def _unshaped(request: ModelRequest, profile: Profile) -> tuple[str, ...]:
    if request.response_schema is None or profile.response_format == "json_schema":
        return ()
    return ("this model cannot be held to a schema for its reply; it is not sent",)


class _MessageWriter:
    """Writes turns as messages, and notes what could not be written."""

    def __init__(self, profile: Profile, names: NameMap, ids: NameMap) -> None:
        self._profile = profile
        self._names = names
        self._ids = ids
        self._documents = 0
        self._missed: list[str] = []

    def write(self, history: Sequence[Turn]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
        messages: list[dict[str, Any]] = []
        if not history:
            add_turn(messages, "user", "content", [{"text": OPENING}])
        for turn in history:
            role = "assistant" if isinstance(turn, AssistantTurn) else "user"
            add_turn(messages, role, "content", self._blocks(turn))
        return messages, tuple(self._missed)

    def _blocks(self, turn: Turn) -> list[dict[str, Any]]:
        match turn:
            case UserTurn(content=content):
                return _introduced([self._content(part) for part in content if not _blank(part)])
            case SystemTurn(text=text):
                return [{"text": text}]
            case AssistantTurn():
                return [block for piece in reply_pieces(turn) if (block := self._piece(piece))]
            case ResultTurn(results=results):
                return [self._result(result) for result in results]
        assert_never(turn)

    def _piece(self, piece: str | InvocationMessage | CoveredBlock) -> dict[str, Any] | None:
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

    def _result(self, result: ToolResult) -> dict[str, Any]:
        text = result.text
        said: dict[str, Any] = {"text": text if text.strip() else _EMPTY}
        if isinstance(result.content, dict):
            said = {"json": result.content}
        attached = [self._content(as_media(attachment)) for attachment in result.attachments]
        return {
            "toolResult": {
                "toolUseId": self._ids.to_wire(result.tool_call_id),
                "content": [said, *attached],
                "status": "error" if result.is_error else "success",
            }
        }

    def _content(self, part: Content) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"text": part.text}
        self._documents += 1
        return media_block(part, self._profile, self._documents) or {"text": describe_media(part, self._missed)}


def _blank(part: Content) -> bool:
    return isinstance(part, Text) and not part.text.strip()


def _introduced(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A document needs a text beside it."""
    if any("document" in block for block in blocks) and not any("text" in block for block in blocks):
        return [{"text": "(See the document.)"}, *blocks]
    return blocks
