"""What handrail says about MCP servers, in values of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from msgspec import Struct, field

from handrail.core.canonical import digest

if TYPE_CHECKING:
    from handrail.mcp.client.server_questions import ClientRelay, ServerQuestionHandler
    from handrail.mcp.client.sign_in import SignIn

Era = Literal["auto", "legacy", "modern"]
"""`legacy` shakes hands and keeps a session (up to 2025-11-25), `modern` does neither (2026-07-28)."""


class StdioEndpoint(Struct, frozen=True, kw_only=True):
    """A server that is a program on this machine, over its standard input and output. No shell is used."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables besides the few that every program needs. Nothing else is passed on."""
    cwd: str | None = None

    @property
    def approval(self) -> str:
        """What a person's approval covers: exactly this program, with these arguments and names of variables."""
        asked = {"command": self.command, "args": list(self.args), "env": sorted(self.env), "cwd": self.cwd}
        return digest(asked)


class OAuth(Struct, frozen=True, kw_only=True):
    """How to sign in to a server that requires it."""

    client_id: str | None = None
    """The id of the client; None registers a client with the service, or names `metadata_url`."""
    client_secret: str | None = None
    metadata_url: str | None = None
    scopes: tuple[str, ...] = ()
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    issuer: str | None = None
    """The authorization server that knows `client_id`. None: the first one that it was used with, and no other."""
    redirect_port: int = 0
    """The port on which this machine waits for the browser; 0 takes a free one."""


class HttpEndpoint(Struct, frozen=True, kw_only=True):
    """A server at an address, over streamable HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    oauth: OAuth | None = None
    proxy: str | None = None
    """The address of one to go through. Those of the environment are not used by themselves."""
    users: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The headers of each user, by the id of the principal that makes a call. Calls are sent with these in the place
    of `headers`, which are then only used to read what the server has."""
    other_users: Literal["refuse", "shared"] = "refuse"
    """What becomes of a call of a principal that is not among `users`; `shared` sends it with `headers`."""

    def of_user(self, principal: str) -> HttpEndpoint:
        """The same server as one of its users goes to it: with their headers and no others."""
        return HttpEndpoint(url=self.url, headers=self.users[principal], proxy=self.proxy)


Endpoint = StdioEndpoint | HttpEndpoint


class McpBounds(Struct, frozen=True, kw_only=True):
    """The limits on what a server may request from the host. Anything beyond them is refused, not served slowly."""

    start: float = 30.0
    """Seconds until it must be ready."""
    list: float = 30.0
    """Seconds for one listing of tools, resources or prompts."""
    message: int = 4 * 1024 * 1024
    """Bytes of one message."""
    tools: int = 1_000
    pages: int = 100
    stderr: int = 64 * 1024
    """Bytes of what a program says on its standard error that are kept for diagnosis: the last ones."""
    rounds: int = 10
    """The number of times one call may ask for more input."""
    failures: int = 5
    """Connections that fail in a row until nobody waits for the next any more."""
    settle: float = 0.2
    """Seconds in which several notices of changed lists are taken for one."""
    user_connections: int = 64
    """Connections with the credentials of single users that are open at once."""
    user_idle: float = 300.0
    """Seconds without a call until the connection of a user is closed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class McpLinkTerms:
    """The settings of the connection to a server."""

    bounds: McpBounds = dataclasses.field(default_factory=McpBounds)
    era: Era = "auto"
    asking: ServerQuestionHandler | None = None
    """Answers the questions of the server."""
    relay: ClientRelay | None = None
    """The MCP clients that the server works for, where we stand between them: they answer its questions, and hear
    what it says by itself."""
    sign_in: SignIn | None = None


class ServerFacts(Struct, frozen=True, kw_only=True):
    """What a server says about itself."""

    name: str
    version: str
    protocol: str
    instructions: str = ""
    """Instructions for users of the server. People are shown them and models are not: they come from outside, and
    nobody has approved them."""
    capabilities: frozenset[str] = frozenset()
    """The names of its capabilities: `tools`, `resources`, `prompts`, `completions`, `tasks`."""
    declared: dict[str, Any] = field(default_factory=dict)
    """Its capabilities as it wrote them, for whoever passes them on."""


class RemoteTool(Struct, frozen=True, kw_only=True):
    """A tool as a server lists it, read and bounded, not yet trusted."""

    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    """None: it does not say."""
    listed: dict[str, Any] = field(default_factory=dict)
    """The listing as the server wrote it, with icons and `_meta`, for whoever passes it on."""

    @property
    def said(self) -> dict[str, Any]:
        """What a person approves: what the tool says and takes, not how it looks."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name != "listed"}

    @property
    def digest(self) -> str:
        return digest(self.said)


@runtime_checkable
class RemoteListing(Protocol):
    """The handler of a tool that a server has: it knows how the server lists the tool now."""

    def listing(self) -> dict[str, Any]: ...


class RemoteResource(Struct, frozen=True, kw_only=True):
    """A resource of a server, or a template for the addresses of resources."""

    uri: str
    """The URI; for a template, with `{names}` to fill in."""
    name: str = ""
    description: str = ""
    media_type: str = ""
    size: int | None = None
    template: bool = False


class ResourceBody(Struct, frozen=True, kw_only=True):
    """The content of a resource: text, or else bytes."""

    uri: str
    media_type: str = ""
    text: str | None = None
    data: bytes | None = None


class RemotePrompt(Struct, frozen=True, kw_only=True):
    """A prompt that a server offers to people, with its arguments."""

    name: str
    description: str = ""
    arguments: tuple[tuple[str, str, bool], ...] = ()
    """Name, description and whether it is required."""


class Pins(Protocol):
    """The tools of a server that a person has accepted; a tool that has changed since is withheld."""

    def held(self, server: str, tools: Mapping[str, RemoteTool]) -> Mapping[str, str]:
        """The tools that may not be offered until a person says so again, each with why.

        It is asked about a whole listing, under the names that the server gives, each time that one was read; in a
        thread, so that it may read a file.
        """
        ...
