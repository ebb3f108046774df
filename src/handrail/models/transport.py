"""How a request reaches a service over HTTP, and its reply comes back as events.

It knows no wire: codecs write requests and read events. It neither retries nor
follows redirects, and keeps nothing of a reply but the event that it gives out.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlencode, urlsplit

from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, UsageError, describe_exception
from handrail.core.ports import Clock, SystemClock
from handrail.core.redact import Secret, redact_text
from handrail.core.timeouts import time_limit
from handrail.http import BadHttpAnswer, HttpAddress, HttpAnswer, HttpClient, request_head
from handrail.http.address import basic_credentials
from handrail.models.codec import Framing, WireRequest
from handrail.models.frames import MAX_FRAME
from handrail.models.identity_cache import cached_by_identity
from handrail.models.service_errors import error_for_status, masked_excerpt
from handrail.models.wire_events import MAX_REPLY, WireEvent, WireReader

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
    """The address of a service, and the key for it. Its `repr` shows no key and no header."""

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
            raise UsageError(f"base_url {wrong!r} is not an address of a service; write it as https://host/path")
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
class TransportBounds:
    """The limits of an exchange, in seconds and bytes."""

    connect: float = 10.0
    silence: float = 300.0
    """The time between two pieces of a reply, and before the first."""
    total: float | None = 1800.0
    frame: int = MAX_FRAME
    reply: int = MAX_REPLY


class HttpTransport:
    """Keeps connections open between requests, apart for each event loop; `aclose` closes them."""

    def __init__(
        self,
        bounds: TransportBounds = TransportBounds(),
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
        self._proxy = proxy
        self._trust_env = trust_env
        self._proxies: dict[tuple[str, str | None], str | None] = {}
        self._clock = clock
        self._client = HttpClient(tls=tls, connect=bounds.connect, silence=bounds.silence, total=bounds.total)

    async def send(self, request: WireRequest, endpoint: Endpoint) -> AsyncGenerator[WireEvent, None]:
        if request.framing not in _ACCEPTS:
            raise UsageError(f"replies framed as {request.framing!r} do not come over plain HTTP; use their transport")
        answer, body = None, _written(request) if request.method == "POST" else b""
        try:
            answer = await self._ask(request, endpoint, body)
            if not 200 <= answer.status < 300:
                raise await self._refusal(answer, endpoint)
            reader = WireReader(
                request.framing,
                answer.media_type,
                exact=request.exact,
                piece_of=request.piece_of,
                secrets=_secrets(endpoint),
                largest=self._bounds.frame,
                longest=self._bounds.reply,
            )
            while chunk := await answer.read():
                for event in reader.feed(chunk):
                    yield event
                if reader.done:
                    await _to_its_end(answer)
                    return
            for event in reader.finish():
                yield event
            return
        except (OSError, BadHttpAnswer, ValueError) as error:  # a TimeoutError is an OSError
            wrong = _connection_error(error, endpoint, begun=answer is not None)
        finally:
            if answer is not None:
                answer.close()
        # Raised here, not in the handler: no error may bring the request along, and with it the key.
        raise wrong

    async def aclose(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def _ask(self, request: WireRequest, endpoint: Endpoint, body: bytes) -> HttpAnswer:
        proxy = self._proxy or (self._proxy_to(endpoint) if self._trust_env else None)
        address = HttpAddress.of(endpoint.url(request.path))
        if request.headers or proxy is not None or request.method != "POST":
            asked = _head(request.method, address, endpoint.sent(request), proxy)
        else:
            asked = _usual_head(endpoint, address, request.framing)
        return await self._client.ask(address, asked, body, unix_socket=endpoint.unix_socket, proxy=proxy)

    def _proxy_to(self, endpoint: Endpoint) -> str | None:
        """The proxy that the environment named when this service was first asked."""
        place = (endpoint.base_url, endpoint.unix_socket)
        if place not in self._proxies:
            self._proxies[place] = _proxy_of(endpoint)
        return self._proxies[place]

    async def _refusal(self, answer: HttpAnswer, endpoint: Endpoint) -> ModelError:
        body = await _error_body_start(answer)
        return error_for_status(answer.status, body, answer.headers, secrets=endpoint.secrets, now=self._clock.now())


def _head(method: str, address: HttpAddress, headers: Mapping[str, str], proxy: str | None) -> bytes:
    """The head of a request; a proxy that passes it on in the open is told where to."""
    if proxy is None or address.scheme == "https":
        return request_head(method, address, headers)
    login = HttpAddress.of(proxy).login
    known = {"proxy-authorization": basic_credentials(login)} if login else {}
    return request_head(method, address, {**headers, **known}, whole_url=True)


@cached_by_identity
def _usual_head(endpoint: Endpoint, address: HttpAddress, framing: Framing) -> bytes:
    return request_head("POST", address, endpoint.sent(WireRequest(path="", body={}, framing=framing)))


@cached_by_identity
def _secrets(endpoint: Endpoint) -> tuple[str, ...]:
    return endpoint.secrets


def _written(request: WireRequest) -> bytes:
    try:
        return request.text()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the request cannot be written as JSON: {describe_exception(error)}") from None


def _proxy_of(endpoint: Endpoint) -> str | None:
    """The proxy that the environment names. None leads to this machine."""
    parts = urlsplit(endpoint.base_url)
    if endpoint.unix_socket or parts.hostname in _HERE:
        return None
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _reaching_hint(endpoint: Endpoint) -> str:
    """What a person can do if there is no connection."""
    if endpoint.unix_socket or urlsplit(endpoint.base_url).hostname in _HERE:
        return "check that the server runs there, or set another base_url"
    return "check the network and the base_url"


def _connection_error(error: Exception, endpoint: Endpoint, *, begun: bool) -> ModelError | UsageError:
    """What an exception of the connection means; `begun` is whether the reply had."""
    why = masked_excerpt(describe_exception(error), secrets=endpoint.secrets)
    where = endpoint.origin
    match error:
        case ssl.SSLCertVerificationError():
            return ModelError(f"{where} is not trusted: {why}; if it is yours, give its certificate as tls")
        case TimeoutError():
            return ModelUnavailable(f"{where} took too long: {why}")
        case OSError() | BadHttpAnswer() if begun:
            return ProtocolError(f"{where} broke off in the middle of its reply: {why}")
        case BadHttpAnswer():
            return ProtocolError(f"{where}, or a proxy before it: {why}")
        case OSError():
            return ModelUnavailable(f"{where} cannot be reached: {why}; {_reaching_hint(endpoint)}")
    return UsageError(f"{where} is not an address that can be asked: {why}")


async def _error_body_start(answer: HttpAnswer) -> bytes:
    """The beginning of an error's body, as much of it as comes."""
    body = bytearray()
    try:
        while len(body) < _ERROR_READ and (chunk := await answer.read()):
            body += chunk
    except (OSError, BadHttpAnswer):
        return bytes(body)
    return bytes(body[:_ERROR_READ])


async def _to_its_end(answer: HttpAnswer) -> None:
    """Let a reply that is done end, so that its connection can be used again."""
    with suppress(OSError, BadHttpAnswer):  # cut off or too slow, it was done all the same
        async with time_limit(_LINGER):
            while await answer.read():
                pass
