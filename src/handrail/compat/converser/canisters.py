"""Canisters: the messages of a converser conversation, and how they become ours and come back.

A result names only its invocation; the tool's name is found in the canisters before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar

from handrail.core.calls import Problem, ToolCall, ToolResult
from handrail.core.jsontext import object_or_text
from handrail.core.messages import (
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)


class Role(Enum):
    user = "user"
    assistant = "assistant"
    supervisor = "supervisor"
    document = "document"
    invocation = "invocation"
    result = "result"


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class TextualContent:
    text: str


Content = TextualContent


@dataclass
class UserCanister:
    """What the user says."""

    role: ClassVar = Role.user
    content: Content
    timestamp: datetime = field(default_factory=_now)


@dataclass
class SupervisorCanister:
    """What the program tells the model."""

    role: ClassVar = Role.supervisor
    content: Content
    timestamp: datetime = field(default_factory=_now)


@dataclass
class DocumentCanister:
    """A text for the model to work with."""

    role: ClassVar = Role.document
    content: Content
    name: str = "document"
    timestamp: datetime = field(default_factory=_now)


@dataclass
class AssistantCanister:
    """What the model says. Its calls are canisters of their own, which follow."""

    role: ClassVar = Role.assistant
    content: Content | None = None
    timestamp: datetime = field(default_factory=_now)


@dataclass
class InvocationCanister:
    """Tool invocation request from assistant."""

    role: ClassVar = Role.invocation
    id: str
    name: str
    arguments: dict[str, Any]
    timestamp: datetime = field(default_factory=_now)


@dataclass
class ResultCanister:
    """Tool execution result sent back to assistant."""

    role: ClassVar = Role.result
    invocation_id: str
    content: Content
    timestamp: datetime = field(default_factory=_now)
    error: str | None = None
    """Why the tool failed, if it did."""


Canister = (
    UserCanister | SupervisorCanister | DocumentCanister | AssistantCanister | InvocationCanister | ResultCanister
)


def to_messages(canisters: Iterable[Canister]) -> tuple[Message, ...]:
    """Canisters as the messages of a handrail `Conversation`."""
    names: dict[str, str] = {}
    found: list[Message] = []
    for canister in canisters:
        if isinstance(canister, InvocationCanister):
            names[canister.id] = canister.name
        found.append(_message(canister, names))
    return tuple(found)


def to_canisters(messages: Iterable[Message]) -> Iterator[Canister]:
    """Messages of handrail as canisters."""
    for message in messages:
        yield _canister(message)


def _message(canister: Canister, names: dict[str, str]) -> Message:
    at = round(canister.timestamp.timestamp() * 1000)
    match canister:
        case UserCanister(content=content):
            return UserMessage((Text(content.text),), at)
        case SupervisorCanister(content=content):
            return SupervisorMessage(content.text, at)
        case DocumentCanister(content=content, name=name):
            return DocumentMessage(name, content.text, at)
        case AssistantCanister(content=said):
            return AssistantMessage("" if said is None else said.text, at)
        case InvocationCanister(id=id, name=name, arguments=arguments):
            return InvocationMessage(ToolCall(id, name, arguments), at)
        case ResultCanister(invocation_id=id, content=content, error=error):
            name = names.get(id, "")
            if error is None:
                return ResultMessage(ToolResult(id, name, content.text), at)
            problem = Problem("failed", error)
            return ResultMessage(ToolResult(id, name, content.text, "failed", problem), at)


def _canister(message: Message) -> Canister:
    at = datetime.fromtimestamp(message.at / 1000, UTC) if message.at else _now()
    match message:
        case UserMessage():
            return UserCanister(TextualContent(message.text), at)
        case SupervisorMessage(text=text):
            return SupervisorCanister(TextualContent(text), at)
        case DocumentMessage(name=name, text=text):
            return DocumentCanister(TextualContent(text), name, at)
        case AssistantMessage(text=text):
            return AssistantCanister(TextualContent(text) if text else None, at)
        case InvocationMessage(call=call):
            arguments = object_or_text(call.arguments)
            return InvocationCanister(call.id, call.name, arguments if isinstance(arguments, dict) else {}, at)
        case ResultMessage(result=result):
            problem = result.error.message if result.error is not None else None
            return ResultCanister(result.tool_call_id, TextualContent(result.text), at, problem)
