"""OpenAI's Responses, without its memory: the conversation is ours, and goes whole with every request."""

from __future__ import annotations

from handrail.core.model_request import ModelRequest
from handrail.models.codec import WireRequest
from handrail.models.openai_responses.decode import ResponsesDecoder
from handrail.models.openai_responses.encode import PROVIDER, encode
from handrail.models.standard_codec import ProfiledCodec


class OpenAIResponsesCodec(ProfiledCodec, frozen=True, kw_only=True):
    """Requests and replies of OpenAI's Responses API."""

    provider = PROVIDER

    def encode(self, request: ModelRequest, model: str, *, stream: bool) -> WireRequest:
        return encode(request, model, self.profile_of(model), stream=stream, provider=self._author)

    def searches_tools(self, model: str) -> bool:
        profile = self.profile_of(model)
        return profile.tool_search and profile.tools == "native"

    def decoder(self, request: ModelRequest) -> ResponsesDecoder:
        return ResponsesDecoder(request, self.profile_of, self.new_id, self._author)

    @property
    def _author(self) -> str:
        """The author of a reply's thoughts and items. They are sealed with keys of the service, and no other reads
        them."""
        return PROVIDER if self.service in ("", "openai") else f"{PROVIDER} of {self.service}"
