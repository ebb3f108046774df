"""What a model is asked."""

from __future__ import annotations

import threading
from typing import Any, Literal

from msgspec import Struct, field

from handrail.core.messages import Message


class ToolOffer(Struct, frozen=True):
    """A tool as a model is shown it. The full schema; a provider projects it to what its service takes."""

    name: str
    description: str
    input_schema: dict[str, Any]
    deferred: bool = False
    """Whether the tool is not shown at once, but found by the service when the model searches. Only for models that
    search tools."""
    by_program: bool = False
    """Programs that the model writes, and the service runs, may call it. Only for services that run programs."""


class NamedTool(Struct, frozen=True):
    """A choice: this tool and no other."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


class ModelScratch:
    """Where a model keeps what it has made of a conversation, so that nothing is made twice while a run goes on.

    It belongs to the run and ends with it; what runs of one conversation share is in its `base`, which belongs to their
    runner, and what conversations of one model share in the base of that, which belongs to the model. It is no part of
    what is asked: any two are equal.
    """

    __slots__ = ("base", "kept", "lock")

    def __init__(self, base: ModelScratch | None = None) -> None:
        self.base: ModelScratch | None = base
        self.kept: dict[Any, Any] = {}
        self.lock: threading.Lock = threading.Lock()
        """Guards what several threads keep here."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelScratch)

    def __hash__(self) -> int:
        return hash(ModelScratch)


class ModelRequest(Struct, frozen=True, kw_only=True):
    """What a model is asked: the conversation, the tools that it may call, and settings."""

    messages: tuple[Message, ...]
    tools: tuple[ToolOffer, ...] = ()
    builtin_tools: tuple[dict[str, Any], ...] = ()
    """Tools that the service runs itself, each in the form that its wire has. They are offered beside `tools`."""
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
    response_nulls: bool = False
    """Whoever reads the reply takes a null for a property that is left out, where the schema asks for none."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Goes into the wire body as it is, for what only one service has."""
    scratch: ModelScratch | None = None
    """What codecs remember of a conversation from one request to the next."""
