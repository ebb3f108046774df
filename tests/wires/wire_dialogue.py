"""What is said over a wire, without the wire: the words that the writers, the server and the cases share."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Event = dict[str, Any]
INPUT_TOKENS, OUTPUT_TOKENS = 11, 7


@dataclass(frozen=True, slots=True)
class WireCall:
    id: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """A reply to be written. Names are the wire's."""

    text: str = ""
    calls: tuple[WireCall, ...] = ()


@dataclass(frozen=True, slots=True)
class OfferedTool:
    name: str
    description: str
    schema: dict[str, Any]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ReturnedResult:
    id: str
    content: Any
    failed: bool | None = None
    """None where the wire cannot say it."""


@dataclass(frozen=True, slots=True)
class UnderstoodRequest:
    """A request as its service understands it."""

    streams: bool
    offers: tuple[OfferedTool, ...]
    choice: str
    """`auto`, `none`, `required`, or `=` and the name of a tool."""
    words: str
    """All that users and systems said."""
    calls: tuple[WireCall, ...] = ()
    """Of the last reply in the history."""
    results: tuple[ReturnedResult, ...] = ()


@dataclass(frozen=True, slots=True)
class WireHttpRequest:
    """A request as it came in."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


Framing = Literal["sse", "named-sse", "done-sse", "ndjson", "aws"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCase:
    """A service: how a client is told of it, and how it speaks."""

    name: str
    service: str
    """As `create_llm` knows it."""
    model: str
    hear: Callable[[WireHttpRequest], UnderstoodRequest]
    write: Callable[[ScriptedReply, bool], list[Event]]
    """A reply as events of a stream, or as one document."""
    judge: Callable[[Event, bool], object]
    """Raises if the service's own SDK would not take an event of a reply."""
    framing: Framing
    root: str = ""
    """What its base address ends with."""
    tools: str | None = None
    gives_ids: str = "call_{:04d}"
    """How its ids look; empty if it gives none."""
    name_rule: str = r"[A-Za-z0-9_-]{1,64}"
    choices: frozenset[str] = frozenset({"auto", "none", "required", "named"})
    key: str | None = "the-key"
    options: Mapping[str, Any] = field(default_factory=dict)
    """What `create_llm` is told beside. A `token` goes in place of the key."""
    variant: bool = False
    """It speaks another one's wire, and differs only in what its profile says."""
    moved: bool = False
    """It speaks another one's wire at another address."""

    @property
    def prompted(self) -> bool:
        return self.tools is not None


class CallHistory:
    """Gathers the calls and results of the last reply, while a history is read from its beginning."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.calls: list[WireCall] = []
        self.results: list[ReturnedResult] = []

    def said(self, text: str) -> None:
        self.words.append(text)

    def replied(self, *calls: WireCall) -> None:
        self.calls, self.results = list(calls), []

    def called(self, call: WireCall) -> None:
        """For wires in which a reply is no one thing: a call after a result begins another."""
        if self.results:
            self.replied()
        self.calls.append(call)

    def answered(self, result: ReturnedResult) -> None:
        self.results.append(result)

    def heard(self, *, streams: bool, offers: Iterable[OfferedTool], choice: str) -> UnderstoodRequest:
        return UnderstoodRequest(
            streams, tuple(offers), choice, "\n".join(self.words), tuple(self.calls), tuple(self.results)
        )


def pieces(text: str, size: int = 7) -> Iterator[str]:
    """A text as a stream cuts it: anywhere."""
    return (text[start : start + size] for start in range(0, len(text), size))


def signature(of: str) -> str:
    """What a service wants back with its own thoughts, and can check."""
    return base64.b64encode(f"signed {of}".encode()).decode()


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
