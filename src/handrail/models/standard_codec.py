"""How a codec is declared: its wire as class variables, its options as fields."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from handrail.core.ids import NewId, new_id
from handrail.core.model_request import ModelRequest
from handrail.models.profiles import Profile, profile_for
from handrail.models.reply_decoder import ReplyDecoder
from handrail.models.shared_encoding import names_of
from handrail.models.tool_names import NameRule


class StandardCodec(Struct, frozen=True, kw_only=True):
    """A codec whose decoder needs nothing of the request but the names of its tools. `encode` is the wire's own."""

    provider: ClassVar[str]
    name_rule: ClassVar[NameRule]
    reply_decoder: ClassVar[type[ReplyDecoder]]
    new_id: NewId = new_id

    def decoder(self, request: ModelRequest) -> ReplyDecoder:
        return self.reply_decoder(names_of(request.tools, self.name_rule), self.new_id)


class ProfiledCodec(Struct, frozen=True, kw_only=True):
    """A codec whose wire many servers speak: the profile of the server and the model says what differs."""

    provider: ClassVar[str]
    profile: Profile | None = None
    """Instead of the one that belongs to the server and the model."""
    new_id: NewId = new_id
    server: str = "openai"
    """The server whose profiles apply: openai, vllm, deepseek, mistral …"""
    service: str = ""
    """The service whose thoughts and signatures go back: the server's name, unless another address answers under it."""

    def profile_of(self, model: str) -> Profile:
        return self.profile or profile_for(self.server, model)
