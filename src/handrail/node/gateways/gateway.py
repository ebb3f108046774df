"""The gateway as it is given: models, tools and limits, of which it makes routes; `request_handler.py` answers them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec import Struct

from handrail.core.errors import MissingExtra
from handrail.core.ids import NewId, new_id
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Embedder, Model
from handrail.core.redact import Secret
from handrail.execute.executor import Executor
from handrail.node.bus.interfaces import Admission
from handrail.node.bus.request import Caller
from handrail.node.server.lifecycle import NodeLifecycle
from handrail.node.server.node import Identify
from handrail.run.limits import Limits
from handrail.run.offering import Offering

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.routing import Route

CallerOf = Callable[["Request"], Awaitable[tuple[Caller, Secret | None]]]
"""Who sent a request, and the token that came with it.

Raises:
    BusError: Nobody that may be answered.
"""
McpServers = Callable[[], Mapping[str, Mapping[str, str]]]
"""The MCP servers in use, by address: the name that each tool has at its server, and the one that it has here."""
Admit = Callable[[str], Awaitable[Caller]]
"""The caller, if it may ask the model of this name.

Raises:
    BusError: It may not.
"""


class GatewayModel(Struct, frozen=True, kw_only=True):
    """A model as clients may ask for it."""

    name: str
    model: Model
    defaults: ModelRequest = ModelRequest(messages=())
    """What a request has where the client says nothing."""
    valid: tuple[tuple[str, ...], ...] = ()
    """Lists of patterns; each must cover a tool of the node for this model to call it."""


class GatewayEmbedder(Struct, frozen=True):
    """A model for embeddings as clients may ask for it."""

    name: str
    make: Callable[[], Embedder]
    """Called once, in a thread, when somebody first asks.

    Raises:
        MissingExtra: Its package is not installed.
    """


Models = Callable[[str | None], GatewayModel]
"""The model of a name; None is the one that is used where nobody chose.

Raises:
    UsageError: There is none of that name.
"""


class GatewayLimits(Struct, frozen=True, kw_only=True):
    """How much work and memory one gateway takes on."""

    body: int = 10 * 1024 * 1024
    """Bytes of a request; images are in it."""
    at_once: int = 64
    """Answers on their way; who comes then is told to come back. As many more go on for clients that left."""
    keep_alive: float = 10.0
    """Seconds of silence after which a stream says that somebody is there."""
    write_seconds: float = 30.0
    """The time for a client to take what it is sent."""
    ahead: int = 64 * 1024
    """Bytes by which an answer may be ahead of its client."""
    kept: int = 1_000
    """Answers of which is remembered what their clients will come back with and do not know."""
    kept_characters: int = 16 * 1024 * 1024
    kept_seconds: float = 24 * 3600.0
    """That an answer with an `Idempotency-Key` is kept; so many of so many bytes as above."""
    alone: float = 600.0
    """Seconds that an answer with such a key goes on while nobody waits for it."""
    linger: float = 30.0
    """Seconds that one without waits for the retry of a client whose own patience was over."""


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """An API of another provider that a node speaks, for that provider's clients."""

    models: Models
    names: Callable[[], Sequence[str]]
    """Gives the names of the models that clients may ask for."""
    executor: Executor
    caller_of: CallerOf
    admission: Admission | None = None
    """Decides what the caller may do; with None the scopes that the caller has already decide."""
    identify: Identify | None = None
    """Identifies the caller of what is no call, as the list of models; None asks the admission."""
    limits: Limits = field(default_factory=Limits)
    """The limits of the run of one answer."""
    offering: Offering = field(default_factory=Offering)
    may_answer: Callable[[Caller], bool] = lambda caller: False
    """Whether a caller may answer for the person that a call of theirs waits for."""
    mcp_servers: McpServers = dict
    """The MCP servers that requests may name, because the node uses them already."""
    embedder: GatewayEmbedder | None = None
    """What answers `/v1/embeddings`."""
    bounds: GatewayLimits = field(default_factory=GatewayLimits)
    life: NodeLifecycle = field(default_factory=NodeLifecycle)
    """The life of the node, which keeps count of the answers under way."""
    now: Callable[[], float] = time.time
    new_id: NewId = new_id

    def routes(self) -> list[Route]:
        """Everything below `/v1/`; what is not served there is refused in the form of the client's API.

        Raises:
            MissingExtra: Starlette is not installed.
        """
        try:
            from handrail.node.gateways.request_handler import gateway_routes
        except ImportError as error:
            raise MissingExtra("serving the gateways", "server") from error

        return gateway_routes(self)
