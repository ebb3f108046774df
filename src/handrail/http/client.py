"""Connections kept open between requests, apart for each event loop."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from handrail.http.address import Address
from handrail.http.connection import BadAnswer, Connection, NotConnected
from handrail.http.head import basic, head

_KEPT = 15.0
"""Seconds that an idle connection is trusted to be open at the other end too."""
_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';]+)""", re.IGNORECASE)
_STAGGER = 0.25
"""Seconds before another address of the same host is tried beside the first."""


class Place(NamedTuple):
    """What a connection leads to."""

    loop: asyncio.AbstractEventLoop
    scheme: str
    host: str
    port: int
    unix_socket: str | None
    proxy: str | None


class Answer:
    """The answer to one request: read it until it gives nothing, and close it in any case."""

    __slots__ = ("_connection", "_done", "headers", "reason", "status")

    def __init__(self, connection: Connection, done: Callable[[bool], None]) -> None:
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
        """As the answer says it, or nothing."""
        found = _CHARSET.search(self.headers.get("content-type", ""))
        return "" if found is None else found[1]

    async def read(self) -> bytes:
        """What has come of the body since; nothing when it has ended.

        Raises:
            TimeoutError, OSError, BadAnswer: It breaks off.
        """
        return await self._connection.read()

    def close(self) -> None:
        """Let go of the connection: for the next request if the answer was read to its end, else for good."""
        done, self._done = self._done, None
        if done is not None:
            done(self._connection.release())


class Client:
    """Asks. `close` closes its connections."""

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
        self._contexts: dict[bool, ssl.SSLContext] = {}
        self._idle: dict[Place, list[Connection]] = {}
        self._open: set[tuple[Place, Connection]] = set()

    async def ask(
        self,
        address: Address,
        request: bytes,
        body: bytes = b"",
        *,
        unix_socket: str | None = None,
        proxy: str | None = None,
    ) -> Answer:
        """Send what `head` wrote and wait for the head of the answer.

        Raises:
            NotConnected: Nothing was sent.
            TimeoutError, OSError, BadAnswer: The request was sent, and no answer came.
        """
        loop = asyncio.get_running_loop()
        place = Place(loop, address.scheme, address.host, address.port, unix_socket, proxy)
        connection = self._waiting(place)
        if connection is None:
            self._forget_ended()
            connection = await self._connected(place)
        self._open.add((place, connection))
        try:
            await connection.ask(b"%bcontent-length: %d\r\n\r\n" % (request, len(body)), body)
        except BaseException:
            self._open.discard((place, connection))
            connection.abort()
            raise
        return Answer(connection, partial(self._done, place, connection))

    async def aclose(self) -> None:
        """Close the connections of this event loop, and of others that run."""
        opened, self._open, self._idle = self._open, set(), {}
        here = asyncio.get_running_loop()
        for place, connection in opened:
            if place.loop is here:
                connection.abort()
            elif place.loop.is_running():
                place.loop.call_soon_threadsafe(connection.abort)
        await asyncio.sleep(0)  # the loop closes a socket in its next turn

    def _waiting(self, place: Place) -> Connection | None:
        idle = self._idle.get(place)
        while idle:
            connection = idle.pop()
            if not connection.closed and place.loop.time() - connection.idle_since < _KEPT:
                return connection
            self._open.discard((place, connection))
            connection.abort()
        return None

    def _done(self, place: Place, connection: Connection, reusable: bool) -> None:
        if not reusable or (place, connection) not in self._open:  # the client was closed meanwhile
            self._open.discard((place, connection))
            connection.abort()
        else:
            self._idle.setdefault(place, []).append(connection)

    def _forget_ended(self) -> None:
        """Connections end with their event loop."""
        if any(place.loop.is_closed() for place in self._idle):
            self._idle = {place: idle for place, idle in self._idle.items() if not place.loop.is_closed()}
            self._open = {(place, each) for place, each in self._open if not place.loop.is_closed()}

    # ── connecting ───────────────────────────────────────────────────────────────────

    async def _connected(self, place: Place) -> Connection:
        try:
            async with asyncio.timeout(self._connect):
                return await self._reach(place)
        except TimeoutError:
            raise NotConnected(f"no connection within {self._connect:g} s") from None
        except ssl.SSLCertVerificationError:
            raise
        except (OSError, BadAnswer, UnicodeError) as error:
            raise NotConnected(str(error) or type(error).__name__) from error

    async def _reach(self, place: Place) -> Connection:
        loop = place.loop
        tls = self._context() if place.scheme == "https" else None
        if place.unix_socket is not None:
            _, connection = await loop.create_unix_connection(
                self._new, place.unix_socket, ssl=tls, server_hostname=place.host if tls else None
            )
        elif place.proxy is not None:
            return await self._through(place, Address.of(place.proxy), tls)
        else:
            _, connection = await loop.create_connection(
                self._new,
                place.host,
                place.port,
                ssl=tls,
                server_hostname=place.host if tls else None,
                happy_eyeballs_delay=_STAGGER,
            )
        return connection

    async def _through(self, place: Place, proxy: Address, tls: ssl.SSLContext | None) -> Connection:
        to_proxy = self._context() if proxy.scheme == "https" else None
        transport, connection = await place.loop.create_connection(
            self._new, proxy.host, proxy.port, ssl=to_proxy, server_hostname=proxy.host if to_proxy else None
        )
        if tls is None:
            return connection
        goal = f"[{place.host}]:{place.port}" if ":" in place.host else f"{place.host}:{place.port}"
        login = {"proxy-authorization": basic(proxy.login)} if proxy.login else {}
        asked = Address("http", place.host, place.port, goal)
        try:
            await connection.ask(head("CONNECT", asked, {"host": goal, **login}) + b"\r\n", b"")
            if connection.status != 200:
                raise BadAnswer(f"the proxy answered {connection.status} {connection.reason}")
            made = self._new()
            inner = await place.loop.start_tls(transport, made, tls, server_hostname=place.host)
        except BaseException:
            connection.abort()
            raise
        connection.leave()
        if inner is None:
            raise BadAnswer("the proxy closed the connection")
        made.connection_made(inner)
        return made

    def _new(self) -> Connection:
        return Connection(self._silence, self._total)

    def _context(self) -> ssl.SSLContext:
        if isinstance(self._tls, ssl.SSLContext):
            return self._tls
        if self._tls not in self._contexts:
            context = ssl.create_default_context()
            if not self._tls:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self._contexts[self._tls] = context
        return self._contexts[self._tls]
