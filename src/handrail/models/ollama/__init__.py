"""Ollama's own wire, `/api/chat`."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from handrail.core.ids import NewId, new_id
from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.ollama.decode import OllamaDecoder
from handrail.models.ollama.encode import PROVIDER, encode
from handrail.models.ollama.generate import OllamaGenerateCodec
from handrail.models.profiles import Profile, profile_for


class OllamaCodec(Struct, frozen=True, kw_only=True):
    """Whether a model thinks is asked with `extra={"think": True}`, other options with `extra={"options": {…}}`."""

    provider: ClassVar[str] = PROVIDER
    profile: Profile | None = None
    """Instead of the one that belongs to the model."""
    new_id: NewId = new_id

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode(request, model, self._profile(model), stream=stream)

    def decoder(self, request: ModelRequest) -> OllamaDecoder:
        return OllamaDecoder(request, self.new_id)

    def text_codec(self, model: str) -> OllamaGenerateCodec | None:
        return OllamaGenerateCodec() if self._profile(model).completions else None

    def _profile(self, model: str) -> Profile:
        return self.profile or profile_for("ollama", model)
