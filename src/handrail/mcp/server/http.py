"""The server over streamable HTTP: both eras on one path, on a socket of its own. `web.py` has what it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

from msgspec import Struct

from handrail.core.errors import MissingExtra, UsageError
from handrail.http.listener import listening_socket
from handrail.http.request_guard import AccessKeys, AccessRequirements, bracket_ipv6, is_loopback
from handrail.mcp.server.definition import McpServerDefinition
from handrail.mcp.server.tasks.store import TaskStore


class HttpLimits(Struct, frozen=True, kw_only=True):
    """How much of the server one client may take up."""

    body: int = 4 * 1024 * 1024
    """Bytes of a request."""
    head_seconds: float = 10.0
    """The time for a connection to send the head of a request."""
    body_seconds: float = 30.0
    """The time for the rest of a request to arrive."""
    connections: int = 256
    sessions: int = 1_000
    idle_seconds: float = 1_800.0
    """After which the session of a client that is silent is ended."""
    grace: float = 5.0
    """Seconds for answers to be written when the server ends."""


async def serve_http(
    served: McpServerDefinition,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    path: str = "/mcp",
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    token: str | Mapping[str, str] | None = None,
    ready: Callable[[str], None] = lambda url: None,
    limits: HttpLimits = HttpLimits(),
    tasks: TaskStore | None = None,
) -> None:
    """Serve until cancelled, or told to end by SIGTERM; `ready` is called with the address.

    `token` is what every client must bring, or a token for each of several by name.

    Raises:
        UsageError: It would be open to others without a token, or the port is not available.
        MissingExtra: The MCP library is not installed.
    """
    keys = AccessKeys(token)
    if not is_loopback(host) and not keys:
        raise UsageError(
            f"{host!r} can be reached from other machines, and then everybody there could call these tools; "
            "give a token that clients must send (--token env:NAME), or bind 127.0.0.1"
        )
    if not path.startswith("/"):
        raise UsageError(f"the path of the server begins with a slash; {path!r} does not")
    if find_spec("mcp") is None:
        raise MissingExtra("serving MCP", "mcp")
    from handrail.mcp.server.http_app import serve_web

    with listening_socket(host, port) as listener:
        await serve_web(
            served,
            listener,
            address=f"http://{bracket_ipv6(host)}:{listener.getsockname()[1]}{path}",
            path=path,
            doors=AccessRequirements.of(host, hosts, origins),
            origins=origins,
            keys=keys,
            ready=ready,
            limits=limits,
            tasks=tasks or TaskStore(),
        )
