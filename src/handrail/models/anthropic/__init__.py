"""Anthropic's Messages API, also as other servers speak it (llama.cpp, vLLM, Ollama) and as Vertex AI has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from msgspec.structs import replace

from handrail.core.errors import ProtocolError
from handrail.core.model_request import ModelRequest
from handrail.models.anthropic.decode import AnthropicDecoder
from handrail.models.anthropic.encode import AnthropicOptions, encode_count, encode_request
from handrail.models.anthropic.tools import PROVIDER
from handrail.models.codec import WireRequest
from handrail.models.reply_decoder import ReplyDecoder
from handrail.models.tool_names import ANTHROPIC_NAMES

_ON_VERTEX = "vertex-2023-10-16"


class AnthropicCodec(AnthropicOptions, frozen=True, kw_only=True):
    """Requests and replies of Anthropic's Messages API."""

    provider = PROVIDER
    name_rule = ANTHROPIC_NAMES
    encode = encode_request
    encode_count = encode_count
    reply_decoder: ClassVar[type[ReplyDecoder]] = AnthropicDecoder

    def searches_tools(self, model: str) -> bool:
        return self.profile.tool_search and self.profile.tools == "native"

    def read_count(self, data: Mapping[str, Any]) -> int:
        counted = data.get("input_tokens")
        if not isinstance(counted, int):
            raise ProtocolError("the service was asked to count tokens and answered without a count")
        return counted


class VertexAnthropicCodec(AnthropicCodec, frozen=True, kw_only=True):
    """The same on Google Cloud's Vertex AI: the model is in the address, and the version in the body."""

    def encode_count(self, request: ModelRequest, model: str) -> WireRequest:
        wire = super().encode_count(request, model)
        return replace(
            wire, path="/models/count-tokens:rawPredict", body={"anthropic_version": _ON_VERTEX, **wire.body}
        )

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        wire = super().encode(request, model, stream=stream)
        body = {key: value for key, value in wire.body.items() if key != "model"}
        method = "streamRawPredict" if stream else "rawPredict"
        path = f"/models/{quote(model, safe='@')}:{method}"
        return replace(wire, path=path, body={"anthropic_version": _ON_VERTEX, **body})
