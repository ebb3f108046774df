"""A node on a socket, from the first request to the last: `handrail serve` is this, and a few words around it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from handrail.core.errors import MissingExtra, UsageError
from handrail.http.listener import listening_socket
from handrail.http.request_guard import RequestMemory, bracket_ipv6, is_loopback

if TYPE_CHECKING:
    import socket

    from handrail.http.uvicorn_server import UvicornServer
    from handrail.node.server.node import NodeServer

logger = logging.getLogger(__name__)

_NEEDED = ("starlette", "uvicorn", "websockets", "prometheus_client")
_FILES = 256
"""Open files beside connections: journals, databases, processes."""
_SCRAPERS = 32
"""Connections to the port for operators."""
_CLOSING = 2.0
"""Seconds for uvicorn to close what is left, when every call has ended."""


async def serve(
    server: NodeServer,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    metrics: tuple[str, int] | None = None,
    ready: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve until cancelled, or told to end by SIGTERM; `ready` is called with the address. At `metrics` whoever can
    reach it sees how the node does, without a token.

    On the way out no new calls are taken, those under way may end within the grace of the limits, and then
    they are cancelled; each of them is answered.

    Raises:
        UsageError: It would be open to others without a token, or the port is not available.
        MissingExtra: The libraries of the server are not installed.
    """
    if not server.token_required:
        _only_here(host)
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtra("serving a node over HTTP", "server")
    with listening_socket(host, port) as listener:
        address = f"http://{bracket_ipv6(host)}:{listener.getsockname()[1]}"
        async with _operators_port(server, metrics):
            await _serve(server, listener, host, lambda: ready(address))


@contextlib.asynccontextmanager
async def _operators_port(server: NodeServer, at: tuple[str, int] | None) -> AsyncIterator[None]:
    """Numbers and probes at an address of their own, until the node has ended."""
    if at is None:
        yield
        return
    from handrail.http.uvicorn_server import UvicornServer, stop_uvicorn, uvicorn_config
    from handrail.node.server.app import operators_app

    limits = server.limits
    with listening_socket(*at) as listener:
        config = uvicorn_config(
            operators_app(server), head_seconds=limits.head_seconds, connections=_SCRAPERS, grace=limits.grace
        )
        web = UvicornServer(config, lambda: None)
        serving = asyncio.create_task(web.serve(sockets=[listener]))
        try:
            yield
        finally:
            await stop_uvicorn(web, serving, _CLOSING)


def _only_here(host: str) -> None:
    if not is_loopback(host):
        raise UsageError(
            f"{host!r} can be reached from other machines, and without tokens everybody there could call anything; "
            "ask for tokens, or bind 127.0.0.1"
        )
    logger.warning("this node asks nobody for a token: every program on this machine may call what it offers")


async def _serve(server: NodeServer, listener: socket.socket, host: str, ready: Callable[[], None]) -> None:
    from handrail.http.uvicorn_server import UvicornServer, sigterm_watch, stop_uvicorn, uvicorn_config
    from handrail.node.server.app import build_app
    from handrail.node.server.websocket_protocol import socket_protocol_for

    limits = server.limits
    full = limits.connections
    room = RequestMemory(limits.reading)
    _enough_files(full)
    settings: dict[str, Any] = {
        "limit_concurrency": None,  # `CrowdLimit` says the same in our form
        "ws": socket_protocol_for(room, limits.write_seconds),
        "ws_max_size": limits.body,
        "ws_ping_interval": limits.sockets.ping_seconds,
        "ws_ping_timeout": limits.sockets.ping_seconds,
        "ws_per_message_deflate": False,  # nothing that comes in is unpacked
        "timeout_graceful_shutdown": _CLOSING,
        "write": limits.write_seconds,
    }
    web: UvicornServer

    def crowded() -> bool:
        return len(web.server_state.connections) > full

    def up() -> None:
        server.life.phase = "ready"
        ready()

    if server.metrics is None:
        _ = server.counted  # counts from the first call on
    app = build_app(server, host=host, crowded=crowded, room=room)
    web = UvicornServer(
        uvicorn_config(app, head_seconds=limits.head_seconds, connections=full, grace=limits.grace, **settings), up
    )
    serving = asyncio.create_task(web.serve(sockets=[listener]))
    try:
        with sigterm_watch() as told:
            await asyncio.wait((serving, told), return_when=asyncio.FIRST_COMPLETED)
    finally:
        try:
            await server.life.drain(limits.grace)
        finally:
            await stop_uvicorn(web, serving, 2 * _CLOSING)
    if not serving.cancelled():
        serving.result()


def _enough_files(connections: int) -> None:
    """A socket is an open file: ask the system for as many as the limits promise, twice as many as are answered."""
    wanted = 2 * connections + _FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        logger.warning(
            "this process may have %d open files, and %d connections take %d; raise `ulimit -Hn`, or serve fewer",
            *(most, connections, wanted),
        )
