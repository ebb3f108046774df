"""Amazon Bedrock's Converse: one wire for the models of many makers. `transport.py` reaches it through botocore."""

from __future__ import annotations

from handrail.core.ids import NewId, new_id
from handrail.core.model import ModelRequest
from handrail.providers.bedrock.decode import BedrockDecoder
from handrail.providers.bedrock.encode import Options, encode_request
from handrail.providers.bedrock.tools import PROVIDER
from handrail.providers.codec import WireRequest
from handrail.providers.names import BEDROCK_NAMES
from handrail.providers.pieces import names_of


class BedrockCodec(Options, frozen=True, kw_only=True):
    new_id: NewId = new_id

    @property
    def provider(self) -> str:
        return PROVIDER

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode_request(self, request, model, stream=stream)

    def decoder(self, request: ModelRequest) -> BedrockDecoder:
        return BedrockDecoder(names_of(request.tools, BEDROCK_NAMES), self.new_id)
