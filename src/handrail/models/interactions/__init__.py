"""Google's Interactions API: a conversation is a list of steps, and nothing of it is stored at the service."""

from __future__ import annotations

from handrail.core.ids import NewId, new_id
from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.interactions.decode import InteractionsDecoder
from handrail.models.interactions.encode import PROVIDER, InteractionsOptions, encode_request
from handrail.models.shared_encoding import names_of
from handrail.models.tool_names import GEMINI_NAMES


class InteractionsCodec(InteractionsOptions, frozen=True, kw_only=True):
    new_id: NewId = new_id

    @property
    def provider(self) -> str:
        return PROVIDER

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode_request(self, request, model, stream=stream)

    def decoder(self, request: ModelRequest) -> InteractionsDecoder:
        return InteractionsDecoder(names_of(request.tools, GEMINI_NAMES), self.new_id)
