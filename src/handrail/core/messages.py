"""A conversation is a tuple of messages; changing it makes a new one.

Six kinds of message: what a user, an assistant and a supervisor say, a document
that is given, a call that the assistant makes (invocation) and its result.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from handrail.core.calls import ToolCall, ToolResult


class Text(Struct, frozen=True, tag="text"):
    """Words of a prompt."""

    text: str


class Media(Struct, frozen=True, tag="media", kw_only=True):
    """Something that is not text, as bytes or as an address."""

    media_type: str
    data: bytes | None = None
    url: str | None = None
    name: str = ""


Content = Text | Media


class Citation(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A source that a reply names for a part of its text."""

    url: str = ""
    title: str = ""
    file: str = ""
    """The id under which the service has the file, where the source is one of its files and no web page."""
    quote: str = ""
    """The words of the source, where the service gives them."""
    start: int | None = None
    """The first character of the reply's text that the source supports; None if the service does not say which."""
    end: int | None = None
    """The character after the last one."""


class ServiceCall(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A call that the service ran itself during a reply: a web search, its code interpreter. handrail never runs it."""

    id: str
    name: str
    arguments: Any = None
    result: Any = None
    """The result; None if the service does not show it."""
    failed: bool = False


class Artefact(Struct, frozen=True):
    """Data that one provider requires back unchanged, and no other understands: reasoning items, signatures."""

    provider: str
    data: Any


class Usage(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Tokens of one reply, and what it cost if that is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Tokens of the input that were read from the provider's cache."""
    cache_written_tokens: int = 0
    """Tokens of the input that were written to the provider's cache, which some providers charge for."""
    reasoning_tokens: int = 0
    """Tokens of the output that were spent on thinking."""
    cost: float | None = None
    """The price in US dollars; None if it is not known."""

    def plus(self, other: Usage) -> Usage:
        cost = None if self.cost is None and other.cost is None else (self.cost or 0.0) + (other.cost or 0.0)
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_written_tokens=self.cache_written_tokens + other.cache_written_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost=cost,
        )


StopReason = Literal["end", "tool_calls", "max_tokens", "stop_sequence", "content_filter", "refusal"]


class UserMessage(Struct, frozen=True, tag="user"):
    """A prompt of the user."""

    content: tuple[Content, ...]
    at: int = 0
    """Milliseconds since 1970; 0 is unknown. So for every message."""
    source: str | UnsetType = UNSET
    """The outside source of its words; unset for what the person says."""

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Text))


class SupervisorMessage(Struct, frozen=True, tag="supervisor"):
    """A message from the program to the model: the system prompt, or a later instruction."""

    text: str
    at: int = 0


class DocumentMessage(Struct, frozen=True, tag="document"):
    """A text that is given to the model to work with."""

    name: str
    text: str
    at: int = 0
    source: str | UnsetType = UNSET
    """The outside source of the document; unset for what the person gave."""


class AssistantMessage(Struct, frozen=True, tag="assistant", omit_defaults=True):
    """The text of the model. Its calls follow, one `InvocationMessage` each."""

    text: str = ""
    at: int = 0
    model: str = ""
    stop: StopReason = "end"
    usage: Usage | None = None
    artefacts: tuple[Artefact, ...] = ()
    source: str | UnsetType = UNSET
    """The outside source of its words, if the model did not say them."""
    citations: tuple[Citation, ...] = ()
    media: tuple[Media, ...] = ()
    """Pictures and files that the model made."""
    service_calls: tuple[ServiceCall, ...] = ()


class InvocationMessage(Struct, frozen=True, tag="invocation", omit_defaults=True):
    """A call that the model made."""

    call: ToolCall
    at: int = 0
    artefacts: tuple[Artefact, ...] = ()

    @property
    def id(self) -> str:
        return self.call.id


class ResultMessage(Struct, frozen=True, tag="result"):
    """The answer to one call."""

    result: ToolResult
    at: int = 0

    @property
    def invocation_id(self) -> str:
        return self.result.tool_call_id


Message = UserMessage | SupervisorMessage | DocumentMessage | AssistantMessage | InvocationMessage | ResultMessage


class Conversation(Struct, frozen=True):
    """The messages, calls and results so far. A fork is another value with the same beginning."""

    messages: tuple[Message, ...] = ()

    def add(self, *messages: Message) -> Conversation:
        """This conversation with more messages at its end."""
        return replace(self, messages=self.messages + messages)

    def say(self, *content: str | Content, at: int = 0) -> Conversation:
        """Add what the user says."""
        parts = tuple(Text(part) if isinstance(part, str) else part for part in content)
        return self.add(UserMessage(parts, at))

    def supervised(self, text: str, at: int = 0) -> Conversation:
        """This conversation with a word of the program to the model at its end, as a system prompt."""
        return self.add(SupervisorMessage(text, at))

    def upto(self, count: int) -> Conversation:
        """The first so many messages: what it was at that checkpoint."""
        return replace(self, messages=self.messages[:count])

    @property
    def text(self) -> str:
        """What the assistant said last."""
        said = (message.text for message in reversed(self.messages) if isinstance(message, AssistantMessage))
        return next(said, "")

    @property
    def usage(self) -> Usage:
        """The usage of all replies together."""
        total = Usage()
        for message in self.messages:
            if isinstance(message, AssistantMessage) and message.usage is not None:
                total = total.plus(message.usage)
        return total

    def __len__(self) -> int:
        return len(self.messages)
