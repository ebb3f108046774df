"""A conversation is a tuple of messages; adding to it makes a new one."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from handrail.core.calls import ToolCall, ToolResult


class UserMessage(Struct, frozen=True, tag="user"):
    text: str


class AssistantMessage(Struct, frozen=True, tag="assistant"):
    text: str = ""
    calls: tuple[ToolCall, ...] = ()


class ResultMessage(Struct, frozen=True, tag="result"):
    """The answers to the calls of one assistant message, in their order."""

    results: tuple[ToolResult, ...]


Message = UserMessage | AssistantMessage | ResultMessage


class Conversation(Struct, frozen=True):
    messages: tuple[Message, ...] = ()

    def add(self, *messages: Message) -> Conversation:
        return replace(self, messages=self.messages + messages)

    def say(self, text: str) -> Conversation:
        return self.add(UserMessage(text))

    @property
    def text(self) -> str:
        """What the assistant said last."""
        said = (message.text for message in reversed(self.messages) if isinstance(message, AssistantMessage))
        return next(said, "")


class ToolOffer(Struct, frozen=True):
    """A tool as a model is shown it."""

    name: str
    description: str
    input_schema: dict[str, object]


class ModelRequest(Struct, frozen=True):
    messages: tuple[Message, ...]
    tools: tuple[ToolOffer, ...] = ()
    tool_choice: Literal["auto", "none"] = "auto"
