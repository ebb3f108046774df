"""OpenAI's Responses, without its memory: the conversation is ours, and goes whole with every request."""

from __future__ import annotations

from msgspec import Struct

from handrail.core.ids import NewId, new_id
from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.openai_responses.decode import ResponsesDecoder
from handrail.models.openai_responses.encode import PROVIDER, encode
from handrail.models.profiles import Profile, profile_for


class OpenAIResponsesCodec(Struct, frozen=True, kw_only=True):
    server: str = "openai"
    """Whose profiles: openai, vllm …"""
    service: str = ""
    """Who takes back thoughts, searches and the like: OpenAI, unless another service answers."""
    profile: Profile | None = None
    """Instead of the one that belongs to the server and the model."""
    new_id: NewId = new_id

    @property
    def provider(self) -> str:
        return PROVIDER

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode(request, model, self._profile(model), stream=stream, provider=self._author)

    def searches_tools(self, model: str) -> bool:
        profile = self._profile(model)
        return profile.tool_search and profile.tools == "native"

    def decoder(self, request: ModelRequest) -> ResponsesDecoder:
        return ResponsesDecoder(request, self._profile, self.new_id, self._author)

    @property
    def _author(self) -> str:
        """Whose a reply's thoughts and items are. They are sealed with keys of the service, and no other reads them."""
        return PROVIDER if self.service in ("", "openai") else f"{PROVIDER} of {self.service}"

    def _profile(self, model: str) -> Profile:
        return self.profile or profile_for(self.server, model)
