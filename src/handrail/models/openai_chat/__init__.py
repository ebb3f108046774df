"""OpenAI's Chat Completions, and every server that speaks it: what differs between them is in the profile."""

from __future__ import annotations

from msgspec import Struct

from handrail.core.ids import NewId, new_id
from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.openai_chat.completions import CompletionsCodec
from handrail.models.openai_chat.decode import ChatDecoder
from handrail.models.openai_chat.echoed_fields import PROVIDER
from handrail.models.openai_chat.encode import encode
from handrail.models.profiles import Profile, profile_for


class OpenAIChatCodec(Struct, frozen=True, kw_only=True):
    server: str = "openai"
    """Whose profiles: openai, vllm, deepseek, mistral …"""
    service: str = ""
    """Whose thoughts and signatures go back: the server's name, unless another address answers under it."""
    profile: Profile | None = None
    """Instead of the one that belongs to the server and the model."""
    new_id: NewId = new_id

    @property
    def provider(self) -> str:
        return PROVIDER

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode(request, model, self._profile(model), stream=stream, service=self.service or self.server)

    def decoder(self, request: ModelRequest) -> ChatDecoder:
        return ChatDecoder(request, self._profile, self.new_id, self.service or self.server)

    def text_codec(self, model: str) -> CompletionsCodec | None:
        profile = self._profile(model)
        return CompletionsCodec(profile) if profile.completions else None

    def _profile(self, model: str) -> Profile:
        return self.profile or profile_for(self.server, model)
