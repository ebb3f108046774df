"""What a model is asked."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from handrail.core.messages import Message


class ToolOffer(Struct, frozen=True):
    """A tool as a model is shown it. The full schema; a provider projects it to what its service takes."""

    name: str
    description: str
    input_schema: dict[str, Any]


class NamedTool(Struct, frozen=True):
    """A choice: this tool and no other."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


class ModelRequest(Struct, frozen=True, kw_only=True):
    messages: tuple[Message, ...]
    tools: tuple[ToolOffer, ...] = ()
    tool_choice: ToolChoice = "auto"
    parallel: bool = True
    """Whether several calls in one reply are wanted."""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    response_schema: dict[str, Any] | None = None
    """A JSON Schema that the reply's text must fit."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Goes into the wire body as it is, for what only one service has."""
