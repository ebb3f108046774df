"""Ollama's own wire, `/api/chat`."""

from __future__ import annotations

from typing import ClassVar

from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.ollama.decode import OllamaDecoder
from handrail.models.ollama.encode import PROVIDER, encode
from handrail.models.ollama.generate import OllamaGenerateCodec
from handrail.models.profiles import Profile, profile_for
from handrail.models.reply_decoder import ReplyDecoder
from handrail.models.standard_codec import StandardCodec
from handrail.models.tool_names import OLLAMA_NAMES


class OllamaCodec(StandardCodec, frozen=True, kw_only=True):
    """Whether a model thinks is asked with `extra={"think": True}`, other options with `extra={"options": {…}}`."""

    provider = PROVIDER
    name_rule = OLLAMA_NAMES
    reply_decoder: ClassVar[type[ReplyDecoder]] = OllamaDecoder
    profile: Profile | None = None
    """Instead of the one that belongs to the model."""

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode(request, model, self._profile(model), stream=stream)

    def text_codec(self, model: str) -> OllamaGenerateCodec | None:
        return OllamaGenerateCodec() if self._profile(model).completions else None

    def _profile(self, model: str) -> Profile:
        return self.profile or profile_for("ollama", model)
