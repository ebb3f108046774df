"""Cohere's Chat API, version 2. Its models plan before they call, and cite the results that they answer from."""

from __future__ import annotations

from handrail.core.ids import NewId, new_id
from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.cohere.decode import CohereDecoder
from handrail.models.cohere.encode import PROVIDER, CohereOptions, encode_request
from handrail.models.shared_encoding import names_of
from handrail.models.tool_names import COHERE_NAMES


class CohereCodec(CohereOptions, frozen=True, kw_only=True):
    new_id: NewId = new_id

    @property
    def provider(self) -> str:
        return PROVIDER

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode_request(self, request, model, stream=stream)

    def decoder(self, request: ModelRequest) -> CohereDecoder:
        return CohereDecoder(names_of(request.tools, COHERE_NAMES), self.new_id)
