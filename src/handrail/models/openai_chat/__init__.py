"""OpenAI's Chat Completions, and every server that speaks it: what differs between them is in the profile."""

from __future__ import annotations

from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.openai_chat.completions import CompletionsCodec
from handrail.models.openai_chat.decode import ChatDecoder
from handrail.models.openai_chat.echoed_fields import PROVIDER
from handrail.models.openai_chat.encode import encode
from handrail.models.standard_codec import ProfiledCodec


class OpenAIChatCodec(ProfiledCodec, frozen=True, kw_only=True):
    """Requests and replies of OpenAI's Chat Completions, and of the many servers that speak it."""

    provider = PROVIDER

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode(request, model, self.profile_of(model), stream=stream, service=self.service or self.server)

    def decoder(self, request: ModelRequest) -> ChatDecoder:
        return ChatDecoder(request, self.profile_of, self.new_id, self.service or self.server)

    def text_codec(self, model: str) -> CompletionsCodec | None:
        profile = self.profile_of(model)
        return CompletionsCodec(profile) if profile.completions else None
