"""Connections kept open between requests, apart for each event loop."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import NamedTuple

from handrail.core.timeouts import time_limit
from handrail.http.address import HttpAddress, basic_credentials, request_head
from handrail.http.connection import BadHttpAnswer, HttpConnection, HttpNotConnected

_KEPT = 15.0
"""Seconds that an idle connection is trusted to be open at the other end too."""
_BODILESS = (b"GET ", b"HEAD ")
"""Methods of which nobody expects a body, not even an empty one."""
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';]+)""", re.IGNORECASE)
_STAGGER = 0.25
"""Seconds before another address of the same host is tried beside the first."""


class HttpRoute(NamedTuple):
    """What a connection leads to."""

    loop: asyncio.AbstractEventLoop
    scheme: str
    host: str
    port: int
    unix_socket: str | None
    proxy: str | None
    at: str | None = None


class HttpAnswer:
    """The answer to one request: read it until it gives nothing, and close it in any case."""

    __slots__ = ("_connection", "_done", "headers", "reason", "status")

    def __init__(self, connection: HttpConnection, done: Callable[[bool], None]) -> None:
        self._connection = connection
        self._done: Callable[[bool], None] | None = done
        self.status = connection.status
        self.reason = connection.reason
        self.headers = connection.headers

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def charset(self) -> str:
        """The charset that the answer names, or nothing."""
        found = _CHARSET.search(self.headers.get("content-type", ""))
        return "" if found is None else found[1]

    async def read(self) -> bytes:
        """What has come of the body since; nothing when it has ended.

        Raises:
            TimeoutError, OSError, BadHttpAnswer: It breaks off.
        """
        return await self._connection.read()

    def close(self) -> None:
        """Let go of the connection: for the next request if the answer was read to its end, else for good."""
        done, self._done = self._done, None
        if done is not None:
            done(self._connection.release())


class HttpClient:
    """Asks, and keeps connections for the next request. `aclose` closes them."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | bool = True,
        connect: float | None = 10.0,
        silence: float | None = 300.0,
        total: float | None = None,
    ) -> None:
        """`tls` verifies by the system's certificates, by a context, or not at all.

        Times are in seconds, and None is no limit. `silence` is between two pieces of an answer and before the first,
        `total` from the request on.
        """
        self._tls = tls
        self._connect = connect
        self._silence = silence
        self._total = total
        self._idle: dict[HttpRoute, list[HttpConnection]] = {}
        self._open: dict[HttpConnection, HttpRoute] = {}

    async def ask(
        self,
        address: HttpAddress,
        request: bytes,
        body: bytes = b"",
        *,
        unix_socket: str | None = None,
        proxy: str | None = None,
        at: str | None = None,
    ) -> HttpAnswer:
        """Send what `request_head` wrote and wait for the head of the answer.

        `at` is the IP address to connect to, where who asks has looked up the host and no other will do: it goes with
        no proxy and no socket, which would lead elsewhere.

        Raises:
            ValueError: More than one of these is said.
            HttpNotConnected, ssl.SSLCertVerificationError: Nothing was sent.
            TimeoutError, OSError, BadHttpAnswer: The request was sent, and no answer came.
        """
        if at is not None and (proxy is not None or unix_socket is not None):
            raise ValueError("a request is sent at an address, through a proxy or to a socket; say only one of them")
        loop = asyncio.get_running_loop()
        route = HttpRoute(loop, address.scheme, address.host, address.port, unix_socket, proxy, at)
        connection = self._waiting(route)
        if connection is None:
            self._forget_ended()
            connection = await self._connected(route)
        self._open[connection] = route
        length = b"content-length: %d\r\n" % len(body) if body or not request.startswith(_BODILESS) else b""
        try:
            await connection.ask(b"%b%b\r\n" % (request, length), body)
        except BaseException:
            self._open.pop(connection, None)
            connection.abort()
            raise
        return HttpAnswer(connection, partial(self._done, route, connection))

    async def aclose(self) -> None:
        """Close the connections of this event loop at once, and those of others when they next run."""
        opened, self._open, self._idle = self._open, {}, {}
        here = asyncio.get_running_loop()
        for connection, route in opened.items():
            if route.loop is here:
                connection.abort()
            else:
                with suppress(RuntimeError):  # that loop is closed
                    route.loop.call_soon_threadsafe(connection.abort)
        await asyncio.sleep(0)  # the loop closes a socket in its next turn

    def _waiting(self, route: HttpRoute) -> HttpConnection | None:
        idle = self._idle.get(route)
        while idle:
            connection = idle.pop()
            if not connection.closed and route.loop.time() - connection.idle_since < _KEPT:
                return connection
            self._open.pop(connection, None)
            connection.abort()
        return None

    def _done(self, route: HttpRoute, connection: HttpConnection, reusable: bool) -> None:
        if not reusable or connection not in self._open:  # the client was closed meanwhile
            self._open.pop(connection, None)
            connection.abort()
        else:
            self._idle.setdefault(route, []).append(connection)

    def _forget_ended(self) -> None:
        """Connections end with their event loop. Other threads may be asking, so only copies are gone through."""
        for route in tuple(self._idle):
            if route.loop.is_closed():
                self._idle.pop(route, None)
        for connection, route in tuple(self._open.items()):
            if route.loop.is_closed():
                self._open.pop(connection, None)

    # ── connecting ───────────────────────────────────────────────────────────────────

    async def _connected(self, route: HttpRoute) -> HttpConnection:
        try:
            async with time_limit(self._connect):
                return await self._reach(route)
        except ssl.SSLCertVerificationError:
            raise
        except TimeoutError as error:  # ours has no words; the system's and a proxy's have
            raise HttpNotConnected(str(error) or f"no connection within {self._connect or 0:g} s") from error
        except (OSError, BadHttpAnswer, UnicodeError) as error:
            raise HttpNotConnected(str(error) or type(error).__name__) from error

    async def _reach(self, route: HttpRoute) -> HttpConnection:
        loop = route.loop
        tls = self._context() if route.scheme == "https" else None
        if route.unix_socket is not None:
            _, connection = await loop.create_unix_connection(
                self._new, route.unix_socket, ssl=tls, server_hostname=route.host if tls else None
            )
        elif route.proxy is not None:
            return await self._through(route, HttpAddress.of(route.proxy), tls)
        else:
            _, connection = await loop.create_connection(
                self._new,
                route.at or route.host,
                route.port,
                ssl=tls,
                server_hostname=route.host if tls else None,
                happy_eyeballs_delay=_STAGGER,
            )
        return connection

    async def _through(self, route: HttpRoute, proxy: HttpAddress, tls: ssl.SSLContext | None) -> HttpConnection:
        to_proxy = self._context() if proxy.scheme == "https" else None
        transport, connection = await route.loop.create_connection(
            self._new, proxy.host, proxy.port, ssl=to_proxy, server_hostname=proxy.host if to_proxy else None
        )
        if tls is None:
            return connection
        goal = f"[{route.host}]:{route.port}" if ":" in route.host else f"{route.host}:{route.port}"
        login = {"proxy-authorization": basic_credentials(proxy.login)} if proxy.login else {}
        asked = HttpAddress("http", route.host, route.port, goal)
        try:
            await connection.ask(request_head("CONNECT", asked, {"host": goal, **login}) + b"\r\n", b"")
            if connection.status != 200:
                raise BadHttpAnswer(f"the proxy answered {connection.status} {connection.reason}")
            made = self._new()
            inner = await route.loop.start_tls(transport, made, tls, server_hostname=route.host)
        except BaseException:
            connection.abort()
            raise
        connection.leave()
        if inner is None:
            raise BadHttpAnswer("the proxy closed the connection")
        made.connection_made(inner)
        return made

    def _new(self) -> HttpConnection:
        return HttpConnection(self._silence, self._total)

    def _context(self) -> ssl.SSLContext:
        return self._tls if isinstance(self._tls, ssl.SSLContext) else _default_context(self._tls)


@cache
def _default_context(verified: bool) -> ssl.SSLContext:
    """Made once: to read the system's certificates takes long enough to hold up an event loop."""
    context = ssl.create_default_context()
    if not verified:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context
