"""Google's generateContent. Signatures of thoughts go back with exactly the parts that they came with."""

from __future__ import annotations

from handrail.core.ids import NewId, new_id
from handrail.core.model import ModelRequest
from handrail.providers.codec import WireRequest
from handrail.providers.gemini.decode import GeminiDecoder
from handrail.providers.gemini.encode import Options, encode_request
from handrail.providers.gemini.tools import PROVIDER
from handrail.providers.names import GEMINI_NAMES
from handrail.providers.pieces import names_of


class GeminiCodec(Options, frozen=True, kw_only=True):
    new_id: NewId = new_id

    @property
    def provider(self) -> str:
        return PROVIDER

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode_request(self, request, model, stream=stream)

    def decoder(self, request: ModelRequest) -> GeminiDecoder:
        return GeminiDecoder(names_of(request.tools, GEMINI_NAMES), self.new_id)
