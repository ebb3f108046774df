"""Amazon Bedrock's Converse: one wire for the models of many makers. `transport.py` reaches it through botocore."""

from __future__ import annotations

from handrail.core.ids import NewId, new_id
from handrail.core.model_request import ModelRequest
from handrail.models.bedrock.decode import BedrockDecoder
from handrail.models.bedrock.encode import BedrockOptions, encode_request
from handrail.models.bedrock.tools import PROVIDER
from handrail.models.codec import WireRequest
from handrail.models.shared_encoding import names_of
from handrail.models.tool_names import BEDROCK_NAMES


class BedrockCodec(BedrockOptions, frozen=True, kw_only=True):
    new_id: NewId = new_id

    @property
    def provider(self) -> str:
        return PROVIDER

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode_request(self, request, model, stream=stream)

    def decoder(self, request: ModelRequest) -> BedrockDecoder:
        return BedrockDecoder(names_of(request.tools, BEDROCK_NAMES), self.new_id)
