"""What a client asks, whichever API it speaks: values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct, field, to_builtins

from handrail.core.calls import ToolCall
from handrail.core.messages import Citation, Message, StopReason, Usage
from handrail.core.model_request import ModelRequest, ToolChoice, ToolOffer


class HandrailExtension(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The field `handrail` of a request: what the APIs themselves have no word for."""

    tools: Literal["all", "none"] | tuple[str, ...] = "all"
    """Which of the node's tools may be called, as names or patterns. The token may allow fewer."""
    confirm: Literal["tell", "pause"] = "tell"
    """What to do when a call waits for approval: tell the model, or end the answer there."""
    run: str | None = None
    """Take up this run where it waited, instead of beginning one."""
    progress: bool = False
    """Say in comments of the stream which of the node's tools are at work."""
    show_calls: bool = True
    """Show the calls of the node's tools and their results, where the API has a place for them."""


class EarlierAnswer(Struct, frozen=True):
    """What a request can continue: the conversation up to the end of an answer, and the items that it showed."""

    messages: tuple[Message, ...]
    items: dict[str, dict[str, Any]]
    """The items by their ids."""
    client_calls: frozenset[str] = frozenset()
    """The ids of calls in the messages that clients were handed and answered."""

    @property
    def handed(self) -> frozenset[str]:
        """The ids of calls that its client was handed."""
        return frozenset(item["call_id"] for item in self.items.values() if item["type"] == "function_call")


class NamedMcpServer(Struct, frozen=True, kw_only=True):
    """An MCP server as a client names it, and those of its tools that the client wants."""

    place: str
    """The path of its address in the request, for errors."""
    url: str
    allowed: frozenset[str] | None = None
    """The allowed tools by their names at the server; None allows all."""
    left_out: frozenset[str] = frozenset()


class GatewayAnswer(Struct, frozen=True):
    """What a person at the client answered to a question of the run that goes on."""

    request: str
    allow: bool


class GatewayRequest(Struct, frozen=True, kw_only=True):
    """One request."""

    model: str | None
    messages: tuple[Message, ...]
    settings: ModelRequest
    """Everything of it but messages and tools."""
    tools: tuple[ToolOffer, ...] = ()
    """The tools that the client declares and runs itself."""
    choice: ToolChoice = "auto"
    only: tuple[str, ...] | None = None
    """The tools that may be called at all, of either side."""
    stream: bool = False
    usage: bool = False
    """Whether the stream is to say how many tokens it took."""
    ours: HandrailExtension = HandrailExtension()
    answers: tuple[GatewayAnswer, ...] = ()
    """Given to questions of the run that `ours` names, where this caller may answer them."""
    mcp_servers: tuple[NamedMcpServer, ...] = ()
    """The servers that the client names; only the node's own are used."""
    continues: bool = False
    """Whether the one message is a text for the model to continue."""
    repeats: bool = False
    """Whether the answer begins with that text."""
    ignored: tuple[str, ...] = ()
    """Fields that have no effect here."""
    store: bool = False
    """Whether the answer can be read, and continued, by its id."""
    background: bool = False
    """Whether the client does not wait for the answer, and reads it later by its id."""
    instructions: int = 0
    """The number of leading messages that are for this request alone, and not for those that continue its answer."""
    echo: dict[str, Any] = field(default_factory=dict)
    """What the answer repeats of the request."""
    previous: str | None = None
    """The id of the answer that this request continues."""
    client_calls: frozenset[str] = frozenset()
    """The ids of calls in the messages that clients were handed by the answers that this one continues."""
    references: tuple[str, ...] = ()
    """The ids of other answers of which this request names items."""
    resolve: Callable[[Mapping[str, EarlierAnswer]], GatewayRequest] | None = None
    """Makes the request whole once the answers that it names are there; an answer that is not there is left out."""


class UnconfirmedCall(Struct, frozen=True):
    """A call that waits for a person's decision."""

    request: str
    tool: str
    call_id: str


class GatewayOutcome(Struct, frozen=True, kw_only=True):
    """How an answer ended."""

    run: str
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    """Calls for the client to run."""
    stop: StopReason = "end"
    usage: Usage = Usage()
    """The tokens of all replies of the model together."""
    waiting: tuple[UnconfirmedCall, ...] = ()
    notices: tuple[str, ...] = ()
    at: int = 0
    """The time at which the answer ended, in seconds since 1970."""
    citations: tuple[Citation, ...] = ()
    """Sources of the text, with their places in it."""

    @property
    def extension(self) -> dict[str, Any]:
        """The field `handrail` of an answer; nothing where there is nothing to say."""
        said: dict[str, Any] = {}
        if self.waiting:
            said["waiting"] = list(map(to_builtins, self.waiting))
        if self.notices:
            said["notices"] = list(self.notices)
        return {"handrail": {"run": self.run, **said}} if said else {}
