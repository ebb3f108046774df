"""Guards an HTTP server: decides who may speak to it, before any of the protocol is read.

Host and Origin keep web pages out: a page that got a name of its own to point at this
machine sends that name. A token keeps other people out. Size and time keep those out
who only want to keep the server busy. It is plain ASGI and knows no protocol above HTTP.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from handrail.core.errors import UsageError
from handrail.core.timeouts import time_limit

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def disconnected(receive: Receive) -> None:
    """Returns when the client is gone; what it still sends is dropped."""
    while (await receive())["type"] != "http.disconnect":
        pass


class ClientGone(Exception):
    """The client went away, so nobody waits for the answer any more."""


async def run_while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Do something while the client waits for it.

    Raises:
        ClientGone: It does not; the work was cancelled.
    """
    gone, working = asyncio.create_task(disconnected(receive)), asyncio.create_task(work)
    try:
        await asyncio.wait({gone, working}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _stopped(gone)
        if not working.done():
            await _stopped(working)
    if working.cancelled():
        raise ClientGone
    return working.result()


async def _stopped(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait({task})


RefusalOfLarge = Callable[[Scope], Awaitable[App | None]]
"""What answers a request in place of reading its large body; None lets it be read."""


class RefusalWriter(Protocol):
    """Writes a refusal: as text, or in the form of the server's other answers."""

    async def __call__(self, send: Send, status: int, why: str, *headers: tuple[bytes, bytes]) -> None: ...


_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_EVERYWHERE = ("", "0.0.0.0", "::", "[::]")
_DIGITS = 18
"""The most digits of a length; a longer number is too large for any server."""
_CLOSE = (b"connection", b"close")
_AGAIN = (b"retry-after", b"1")
_Refusal = tuple[int, str, tuple[bytes, bytes] | None]
"""A status, why, and a header that belongs to it."""
_LINGER = 0.5
"""Seconds in which the rest of a request that is refused is read and dropped."""


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach it."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class AccessRequirements(Struct, frozen=True, kw_only=True):
    """What a request must have on it to be let in."""

    hosts: frozenset[str]
    """Names that the server goes by; with a port they are good for that one only."""
    origins: frozenset[str]
    """Pages that may use it, as `https://app.example`."""
    pages: frozenset[str] = frozenset()
    """Names whose pages may use it on any port."""

    @classmethod
    def of(cls, host: str, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> AccessRequirements:
        """Loopback names and the bound host; and what was named besides."""
        local = (*_LOOPBACK, *(() if host in _EVERYWHERE else (bracket_ipv6(host),)))
        return cls(
            hosts=frozenset(map(str.lower, (*local, *map(_in_a_header, hosts)))),
            origins=frozenset(origin.rstrip("/").lower() for origin in origins),
            pages=frozenset(map(str.lower, local)),
        )

    def knows_host(self, header: str | None) -> bool:
        return header is not None and _named(header.lower(), self.hosts)

    def knows_origin(self, header: str | None) -> bool:
        """A program sends none; a page cannot help sending its own."""
        if header is None:
            return True
        origin = header.lower()
        scheme, _, authority = origin.partition("://")
        return origin in self.origins or (scheme in ("http", "https") and _named(authority, self.pages))

    def knows_page(self, header: str | None, host: str | None) -> bool:
        """Whether a page may open a socket, for which no browser asks first: one from here, or one that was named."""
        if header is None:
            return True
        origin = header.lower()
        scheme, _, authority = origin.partition("://")
        return origin in self.origins or (scheme in ("http", "https") and authority == (host or "").lower())


def bracket_ipv6(host: str) -> str:
    """The host as it stands in a URL."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _in_a_header(host: str) -> str:
    """The host as a client names it: an IPv6 address stands in brackets."""
    try:
        return bracket_ipv6(str(ipaddress.ip_address(host)))
    except ValueError:
        return host


def _named(authority: str, names: frozenset[str]) -> bool:
    name, colon, port = authority.rpartition(":")
    if not colon or not port.isdecimal():
        return authority in names
    return authority in names or name in names


class AccessKeys:
    """Knows the holder of each token. It compares every token in full, so that the time it takes tells nothing."""

    def __init__(self, tokens: str | Mapping[str, str] | None) -> None:
        given = {"token": tokens} if isinstance(tokens, str) else dict(tokens or {})
        if not all(token.strip() for token in given.values()):
            raise UsageError("an empty token lets everybody in; give one that nobody can guess, or none")
        # No header has space around it; a file that a token was read from may.
        self._tokens = {name: token.strip().encode() for name, token in given.items()}

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def holder(self, header: str | None) -> str | None:
        """The holder of the token in an Authorization header, or None."""
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        said = token.strip().encode()
        found = [name for name, known in self._tokens.items() if hmac.compare_digest(known, said)]
        return found[0] if found else None


class AccessMiddleware:
    """Lets requests and WebSockets through that come to one of our names, from no foreign page."""

    def __init__(self, app: App, doors: AccessRequirements, *, refuse: RefusalWriter | None = None) -> None:
        self._app = app
        self._doors = doors
        self._refuse = refuse or refuse_with_text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        refusal = self._refusal(scope)
        if refusal is None:
            return await self._app(scope, receive, send)
        if scope["type"] == "websocket":
            return await self._refuse(as_websocket_denial(send), *refusal)
        return await refuse_unread_request(receive, send, *refusal, refuse=self._refuse)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        host, origin = header(scope, b"host"), header(scope, b"origin")
        if not self._doors.knows_host(host):
            return 421, "this server does not go by that name; add it to its hosts if it should"
        is_socket = scope["type"] == "websocket"
        if not (self._doors.knows_page(origin, host) if is_socket else self._doors.knows_origin(origin)):
            return 403, "pages of that origin may not use this server; add it to its origins"
        return None


class BodyLimitMiddleware:
    """Reads a body within its time and size, and only then passes the request on."""

    def __init__(
        self,
        app: App,
        *,
        size: int,
        seconds: float,
        room: RequestMemory | None = None,
        refuse: RefusalWriter | None = None,
        refusal_of_large: RefusalOfLarge | None = None,
    ) -> None:
        """`room` is for the bodies of all requests that are being read.

        `refusal_of_large` is asked once a body turns out to be larger than `SMALL`, before more of it is read.
        """
        self._app = app
        self._size = size
        self._seconds = seconds
        self._room = room
        self._refuse = refuse or refuse_with_text
        self._refusal_of_large = refusal_of_large

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        declared = header(scope, b"content-length") or ""
        # Python reads no number of more than 4,300 digits.
        if declared.isdecimal() and (len(declared) > _DIGITS or int(declared) > self._size):
            return await self._turn_away(receive, send, *self._too_large)
        place = None if self._room is None else self._room.place()
        try:
            async with time_limit(self._seconds):
                found = await self._read(scope, receive, place)
        except TimeoutError:
            why = f"the request did not arrive within {self._seconds:g} seconds"
            return await self._refuse(send, 408, why, _CLOSE)
        finally:
            if place is not None:
                place.leave()
        if isinstance(found, bytes):
            return await self._app(scope, _replayed(found, receive), send)
        if isinstance(found, tuple):
            return await self._turn_away(receive, send, *found)
        if found is not None:
            await found(scope, receive, send)

    async def _read(
        self, scope: Scope, receive: Receive, place: ConnectionMemory | None
    ) -> bytes | _Refusal | App | None:
        """The body, or why it is refused; None when the client went away before it had asked for anything."""
        body = bytearray()
        small = True
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if len(body) > self._size:
                return self._too_large
            if small and len(body) > SMALL:
                small = False
                refusal = await self._refusal_of_large(scope) if self._refusal_of_large is not None else None
                if refusal is not None:
                    return refusal
            if place is not None and not place.hold(len(body)):
                return 503, "too many large requests are being read; try again in a moment", _AGAIN
            if not message.get("more_body", False):
                return bytes(body)

    @property
    def _too_large(self) -> _Refusal:
        return 413, f"a request may have {self._size:,} bytes", None

    async def _turn_away(
        self, receive: Receive, send: Send, status: int, why: str, more: tuple[bytes, bytes] | None
    ) -> None:
        await refuse_unread_request(receive, send, status, why, *(() if more is None else (more,)), refuse=self._refuse)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body as one message, and then what comes."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return left.pop() if left else await receive()

    return replay


def receive_until_shutdown(receive: Receive, over: asyncio.Event) -> Receive:
    """What the client says; and that it is gone, as soon as the server is to end."""

    async def either() -> Message:
        came = asyncio.ensure_future(receive())
        ends = asyncio.ensure_future(over.wait())
        try:
            await asyncio.wait((came, ends), return_when=asyncio.FIRST_COMPLETED)
            return came.result() if came.done() else {"type": "http.disconnect"}
        finally:
            came.cancel()
            ends.cancel()

    return either


def header(scope: Scope, name: bytes) -> str | None:
    """The one value of a header; of several, none that anybody could rely on."""
    values = [value for key, value in scope["headers"] if key == name]
    return values[0].decode("latin-1") if len(values) == 1 else ("" if values else None)


async def refuse_unread_request(
    receive: Receive,
    send: Send,
    status: int,
    why: str,
    *headers: tuple[bytes, bytes],
    refuse: RefusalWriter | None = None,
) -> None:
    """Refuse a request that nobody has read.

    Who is cut off while it sends often does not see why, so the rest is read for a moment. Who still sends then is
    cut off: else it could go on, and be read, for ever.
    """
    all_there = await drain_request(receive)
    await (refuse or refuse_with_text)(send, status, why, *headers, *(() if all_there else (_CLOSE,)))


def as_websocket_denial(send: Send) -> Send:
    """Sends the answer to a request for a WebSocket: before the socket is opened, it is a request like others."""

    async def sent(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return sent


async def drain_request(receive: Receive) -> bool:
    """Read what is left of a request, for a moment: whether it came to its end."""
    try:
        async with time_limit(_LINGER):
            while (message := await receive())["type"] == "http.request":
                if not message.get("more_body", False):
                    return True
    except TimeoutError:
        pass
    return False


async def refuse_with_text(send: Send, status: int, why: str, *headers: tuple[bytes, bytes]) -> None:
    body = f"{why}\n".encode()
    fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*fields, *headers]})
    await send({"type": "http.response.body", "body": body})


SMALL = 64 * 1024
"""Bytes of each request that are not counted: while large ones fill the room, small ones still get in."""


class RequestMemory:
    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0

    @property
    def held(self) -> int:
        return self._held

    def place(self) -> ConnectionMemory:
        return ConnectionMemory(self)

    def _change(self, by: int) -> bool:
        if by > 0 and self._held + by > self._most:
            return False
        self._held += by
        return True


class ConnectionMemory:
    """What one connection holds of it."""

    def __init__(self, room: RequestMemory) -> None:
        self._room = room
        self._size = 0

    def hold(self, size: int) -> bool:
        """Hold so many bytes, more or fewer than before; False when there is no room for them."""
        size = max(0, size - SMALL)
        if not self._room._change(size - self._size):
            return False
        self._size = size
        return True

    def leave(self) -> None:
        self.hold(0)
