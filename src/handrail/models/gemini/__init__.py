"""Google's generateContent. Signatures of thoughts go back with exactly the parts that they came with."""

from __future__ import annotations

from handrail.core.ids import NewId, new_id
from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.gemini.decode import GeminiDecoder
from handrail.models.gemini.encode import GeminiOptions, encode_request
from handrail.models.gemini.tools import PROVIDER
from handrail.models.shared_encoding import names_of
from handrail.models.tool_names import GEMINI_NAMES


class GeminiCodec(GeminiOptions, frozen=True, kw_only=True):
    new_id: NewId = new_id

    @property
    def provider(self) -> str:
        return PROVIDER

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode_request(self, request, model, stream=stream)

    def decoder(self, request: ModelRequest) -> GeminiDecoder:
        return GeminiDecoder(names_of(request.tools, GEMINI_NAMES), self.new_id)
