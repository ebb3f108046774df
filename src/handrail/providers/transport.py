"""How a request reaches a service over HTTP, and its reply comes back as events. The only file that knows aiohttp.

It knows no wire: codecs write requests and read events. It neither retries nor
follows redirects, and keeps nothing of a reply but the event that it gives out.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode, urlsplit

import msgspec

from handrail.core.errors import MissingExtra, ModelError, ModelUnavailable, ProtocolError, UsageError, describe
from handrail.core.ports import Clock, SystemClock
from handrail.core.redact import Secret, redact_text
from handrail.providers.codec import Framing, WireRequest
from handrail.providers.events import MAX_REPLY, WireEvent, WireReader
from handrail.providers.failures import failure, shown
from handrail.providers.frames import MAX_FRAME

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

_ERROR_READ = 64 * 1024
_LINGER = 0.1
"""Seconds that a service may take to end a reply that it called done. Then the connection can be used again."""
_ACCEPTS: Mapping[Framing, str] = {
    "sse": "text/event-stream, application/json",
    "ndjson": "application/x-ndjson, application/json",
    "json": "application/json",
}
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_SECRET_WORDS = ("key", "token", "auth", "secret", "cookie")


class Transport(Protocol):
    def send(self, request: WireRequest, endpoint: Endpoint) -> AsyncGenerator[WireEvent, None]:
        """Yield the events of the reply; the caller closes the generator, and that ends the exchange at once.

        Raises:
            ModelError: The service cannot be reached, refused, or answered with something that cannot be read.
        """
        ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a service is, and how it knows us. Its `repr` shows no key and no header."""

    base_url: str
    key: Secret | None = field(default=None, repr=False)
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request; they go before those of the codec."""
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    unix_socket: str | None = None
    """The path of a socket to connect to instead of the host in the address."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            wrong = redact_text(self.base_url)
            raise UsageError(f"base_url {wrong!r} is no address of a service; write it as https://host/path")
        if parts.username is not None or parts.query or parts.fragment:
            raise UsageError("base_url holds a user, a query or a fragment; give them as key and query")
        for name, value in (*self.headers.items(), (self.key_header, f"{self.key_prefix}{self.key or ''}")):
            if not name.isascii() or not (name + value).isprintable():
                raise UsageError(f"the header {name!r} has a line end or another character that no header takes")

    def url(self, path: str) -> str:
        address = f"{self.base_url.rstrip('/')}/{path.lstrip('/')}"
        if not self.query:
            return address
        return f"{address}{'&' if '?' in address else '?'}{urlencode(self.query)}"

    def sent(self, request: WireRequest) -> dict[str, str]:
        """All headers of a request, with lower-case names."""
        headers = {
            "content-type": "application/json",
            "accept": _ACCEPTS[request.framing],
            "accept-encoding": "identity",  # a compressed stream comes in lumps
            "user-agent": "handrail",
        }
        for source in (request.headers, self.headers):
            headers.update((name.lower(), value) for name, value in source.items())
        if self.key is not None:
            headers[self.key_header.lower()] = f"{self.key_prefix}{self.key}"
        return headers

    @property
    def origin(self) -> str:
        parts = urlsplit(self.base_url)
        return self.unix_socket or f"{parts.scheme}://{parts.netloc}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What a service might repeat and no error may show."""
        named = (
            str(value)
            for name, value in self.headers.items()
            if isinstance(value, Secret) or any(word in name.lower() for word in _SECRET_WORDS)
        )
        return (*([] if self.key is None else [str(self.key)]), *named)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long and how large an exchange may be. In seconds and bytes."""

    connect: float = 10.0
    silence: float = 300.0
    """Between two pieces of a reply, and before the first."""
    total: float | None = 1800.0
    frame: int = MAX_FRAME
    reply: int = MAX_REPLY


class HttpTransport:
    """Keeps connections open between requests, apart for each event loop; `aclose` closes them."""

    def __init__(
        self,
        bounds: Bounds = Bounds(),
        *,
        tls: ssl.SSLContext | bool = True,
        proxy: str | None = None,
        trust_env: bool = False,
        clock: Clock = SystemClock(),
    ) -> None:
        """`tls` verifies by the system's certificates, by a context, or not at all.

        With `trust_env` the proxy is the one that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name.
        """
        self._bounds = bounds
        self._tls = tls
        self._proxy = proxy
        self._trust_env = trust_env
        self._clock = clock
        self._sessions: dict[tuple[asyncio.AbstractEventLoop, str | None], ClientSession] = {}

    async def send(self, request: WireRequest, endpoint: Endpoint) -> AsyncGenerator[WireEvent, None]:
        if request.framing not in _ACCEPTS:
            raise UsageError(f"replies framed as {request.framing!r} do not come over plain HTTP; use their transport")
        aiohttp, response, body = _aiohttp(), None, _written(request)
        try:
            response = await self._session(endpoint).post(
                endpoint.url(request.path),
                data=body,
                headers=endpoint.sent(request),
                allow_redirects=False,
                proxy=self._proxy or (_proxy_of(endpoint) if self._trust_env else None),
            )
            if not 200 <= response.status < 300:
                raise await self._refusal(response, endpoint)
            reader = WireReader(
                request.framing,
                response.content_type if "content-type" in response.headers else "",
                secrets=endpoint.secrets,
                largest=self._bounds.frame,
                longest=self._bounds.reply,
            )
            async for chunk in response.content.iter_any():
                for event in reader.feed(chunk):
                    yield event
                if reader.done:
                    await _to_its_end(response)
                    return
            for event in reader.finish():
                yield event
            return
        except (aiohttp.ClientError, OSError, ValueError) as error:  # a TimeoutError is an OSError
            wrong = _broken(error, endpoint, begun=response is not None)
        finally:
            if response is not None:
                response.close()  # a connection whose reply was read to its end is not in its hands any more
        # Raised here, not in the handler: what aiohttp raises has the headers, and with them the key.
        raise wrong

    async def aclose(self) -> None:
        """Close the connections of this event loop, and of others that run."""
        here = asyncio.get_running_loop()
        sessions, self._sessions = self._sessions, {}
        for (loop, _), session in sessions.items():
            if loop is here:
                await session.close()
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(session.close(), loop))

    def _session(self, endpoint: Endpoint) -> ClientSession:
        place = (asyncio.get_running_loop(), endpoint.unix_socket)
        session = self._sessions.get(place)
        if session is None or session.closed:
            for loop, socket in list(self._sessions):
                if loop.is_closed():  # its connections ended with it
                    del self._sessions[loop, socket]
            session = self._sessions[place] = self._new_session(endpoint.unix_socket)
        return session

    def _new_session(self, unix_socket: str | None) -> ClientSession:
        aiohttp = _aiohttp()
        if unix_socket is None:
            connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        else:
            connector = aiohttp.UnixConnector(unix_socket, limit=0)
        times = aiohttp.ClientTimeout(
            total=self._bounds.total, sock_connect=self._bounds.connect, sock_read=self._bounds.silence
        )
        session: ClientSession = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=times
        )
        return session

    async def _refusal(self, response: ClientResponse, endpoint: Endpoint) -> ModelError:
        headers = {name.lower(): value for name, value in response.headers.items()}
        body = await _some(response)
        return failure(response.status, body, headers, secrets=endpoint.secrets, now=self._clock.now())


def _aiohttp() -> Any:
    try:
        import aiohttp
    except ImportError:
        raise MissingExtra("models over HTTP", "http") from None
    return aiohttp


def _written(request: WireRequest) -> bytes | io.BytesIO:
    try:
        body = msgspec.json.encode(request.body)
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the request cannot be written as JSON: {describe(error)}") from None
    # aiohttp writes bytes in one piece, and warns of large ones; a file it writes in pieces.
    return body if len(body) < 2**20 else io.BytesIO(body)


def _proxy_of(endpoint: Endpoint) -> str | None:
    """Not left to aiohttp, which would also send what it finds in ~/.netrc. No proxy leads to this machine."""
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(endpoint.base_url)
    if endpoint.unix_socket or parts.hostname in _HERE or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _broken(error: Exception, endpoint: Endpoint, *, begun: bool) -> ModelError | UsageError:
    """What an exception of the connection means; `begun` is whether the reply had."""
    import aiohttp

    why = shown(describe(error), secrets=endpoint.secrets)
    where = endpoint.origin
    match error:
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            return UsageError(f"{where} is not an address that can be asked: {why}")
        case aiohttp.ClientConnectorCertificateError():
            return ModelError(f"{where} is not trusted: {why}; if it is yours, give its certificate as tls")
        case TimeoutError():
            return ModelUnavailable(f"{where} took too long: {why}")
        case _ if begun:
            return ProtocolError(f"{where} broke off in the middle of its reply: {why}")
        case aiohttp.ClientConnectionError() | OSError():
            return ModelUnavailable(f"{where} cannot be reached: {why}")
        case aiohttp.ClientResponseError():
            said = shown(error.message, secrets=endpoint.secrets)
            return ProtocolError(f"{where} or a proxy before it does not speak HTTP as it should: {said}")
    return UsageError(f"{where} cannot be asked: {why}")


async def _some(response: ClientResponse) -> bytes:
    """The beginning of an error's body, as much of it as comes."""
    aiohttp, body = _aiohttp(), bytearray()
    try:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) >= _ERROR_READ:
                break
    except (aiohttp.ClientError, OSError):
        return bytes(body)
    return bytes(body[:_ERROR_READ])


async def _to_its_end(response: ClientResponse) -> None:
    """Let a reply that is done end, so that its connection can be used again."""
    with suppress(_aiohttp().ClientError, OSError):  # cut off or too slow, it was done all the same
        async with asyncio.timeout(_LINGER):
            async for _ in response.content.iter_any():
                pass
