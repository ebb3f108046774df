"""A server at an address: the SDK's streamable HTTP client over an HTTP client of ours.

In the SDK an answer that cannot be read, or a connection that breaks, ends every
request under way and cancels whoever opened the client. Here it costs the one
request that it belongs to: the HTTP client answers for the server, with an error
that carries a mark only we know.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2
import msgspec
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, METHOD_NOT_FOUND

from handrail.core.errors import McpError, SignInFailed
from handrail.core.redact import redact_text
from handrail.core.timeouts import time_limit
from handrail.mcp.client.failures import ATTEMPT, TransportFault, clean_server_text, failure_reason
from handrail.mcp.client.inbox import InboxWatchedStream, McpInbox
from handrail.mcp.client.sse import BoundedEventStream
from handrail.mcp.client.wire import UnreadableLine, mend_message, too_long, too_many_values
from handrail.mcp.sdk_internals import TransportStreams, names_a_session
from handrail.mcp.values import HttpEndpoint, McpBounds

logger = logging.getLogger(__name__)

_CONNECT = 10.0
_NOTICE = 10.0
"""Seconds for the answer to what is no request: the SDK sends nothing else meanwhile."""
_GOODBYE = 2.0
_QUOTED = 200
"""Bytes of an answer that is no message which are shown."""
_UNSENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.InvalidURL,
    SignInFailed,
)
_SESSION = "mcp-session-id"
_GATEWAY = (502, 503, 504)
_MOST_GIVEN_UP = 64
"""Notices of requests that were given up, under way at the same time."""


@asynccontextmanager
async def open_http_transport(
    endpoint: HttpEndpoint,
    bounds: McpBounds,
    inbox: McpInbox,
    *,
    auth: httpx2.Auth | None,
    on_gone: Callable[[str], None],
) -> AsyncIterator[TransportStreams]:
    """A `Transport` of the SDK's. `on_gone` hears that the server has forgotten us though nobody asked it anything."""
    redact_library_logs()
    client = _HttpClient(endpoint, bounds, inbox, auth, on_gone)
    # The limit of an event is ours, and lower; the SDK's of 1 MiB would refuse what we take.
    opened = streamable_http_client(endpoint.url, http_client=client, max_sse_event_size=bounds.message + 1024)
    async with client, opened as (incoming, outgoing):
        try:
            yield InboxWatchedStream(incoming, inbox), outgoing
        finally:
            client.stop()


class _Envelope(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None

    @property
    def kind(self) -> Literal["request", "notice", "answer"]:
        if self.method is None:
            return "answer"
        return "notice" if self.id is None else "request"


class _RefusedAnswer(Exception):
    """An answer that is not read on."""

    def __init__(self, fault: TransportFault) -> None:
        super().__init__(fault.why)
        self.fault = fault


class _HttpClient(httpx2.AsyncClient):
    def __init__(
        self,
        endpoint: HttpEndpoint,
        bounds: McpBounds,
        inbox: McpInbox,
        auth: httpx2.Auth | None,
        on_gone: Callable[[str], None],
    ) -> None:
        secure = endpoint.url.startswith("https:") or endpoint.oauth is not None
        inner = httpx2.AsyncHTTPTransport(
            verify=ssl.create_default_context() if secure else False,  # without https nothing is verified
            trust_env=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            proxy=endpoint.proxy,
        )
        super().__init__(
            auth=auth,
            # Bombs are made by compression, and messages are small.
            headers={"accept-encoding": "identity", **endpoint.headers},
            # A tool may take as long as its caller lets it.
            timeout=httpx2.Timeout(30.0, connect=min(_CONNECT, bounds.start), read=None),
            trust_env=False,
            transport=_BoundedTransport(inner, bounds.message, self._marked_message),
        )
        self._inbox = inbox
        self._on_gone = on_gone
        self._given_up: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        for task in self._given_up:
            task.cancel()

    def build_request(self, method: str, url: httpx2.URL | str, **options: Any) -> httpx2.Request:
        if (body := options.pop("json", None)) is not None:
            # Half of a surrogate pair has no UTF-8, and an error here would end the connection.
            options["content"] = json.dumps(body, separators=(",", ":")).encode()
        return super().build_request(method, url, **options)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """What the SDK calls for each message. An HTTP error of a POST is a response; nothing is raised for it."""
        match request.method:
            case "POST":
                return await self._post(request, options)
            case "DELETE":
                await self._tell(request, options, _GOODBYE)
                return httpx2.Response(204, request=request)
        return await self._get(request, options)

    async def _get(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except httpx2.ConnectError as error:
            self._on_gone(f"it cannot be reached: {failure_reason(error)}")
            raise
        if response.status_code == 404 and _SESSION in request.headers:
            self._on_gone("the server has forgotten the session")
        return response

    async def _post(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        envelope = _envelope(request)
        if envelope.method == "notifications/cancelled":
            return self._sent_on_the_side(request, options)
        attempt = ATTEMPT.get()
        before = attempt is not None and attempt.sent
        if attempt is not None:
            attempt.sent = True
        try:
            async with time_limit(None if envelope.kind == "request" else _NOTICE):
                answer = await self._answer(request, options, envelope)
        except Exception as error:  # whatever it is, in the SDK it would end every other request too
            answer, unsent = _fault_of(error), isinstance(error, _UNSENT)
        else:
            unsent = isinstance(answer, TransportFault) and answer.kind == "session"
        if attempt is not None and unsent:
            attempt.sent = before
        if isinstance(answer, httpx2.Response):
            return answer
        # Of what is no request the SDK reads no answer, so nothing is kept for it either.
        return self._refusal(request, answer) if envelope.kind == "request" else httpx2.Response(502, request=request)

    async def _answer(
        self, request: httpx2.Request, options: dict[str, Any], envelope: _Envelope
    ) -> httpx2.Response | TransportFault:
        response = await super().send(request, **options)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        status = response.status_code
        if status >= 400 or _says_nothing(status, kind, envelope):
            return await _explained(response, request, kind)
        if kind == "application/json" and status < 300:
            return await _read(response, request, envelope)
        return response

    def _refusal(self, request: httpx2.Request, fault: TransportFault) -> httpx2.Response:
        """The SDK takes the id of the request for the one of an error that came with such a status."""
        code = METHOD_NOT_FOUND if fault.why.startswith("HTTP 404") else CONNECTION_CLOSED
        content = self._marked_message(fault, code)
        return httpx2.Response(502, headers={"content-type": "application/json"}, content=content, request=request)

    def _marked_message(self, fault: TransportFault, code: int = CONNECTION_CLOSED) -> bytes:
        mark = secrets.token_hex(16)
        self._inbox.mark(mark, fault)
        error = {"code": code, "message": fault.why, "data": mark}
        return json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()

    def _sent_on_the_side(self, request: httpx2.Request, options: dict[str, Any]) -> httpx2.Response:
        """Sends a notice without waiting for it: a caller that gave up a request does not wait until the server has
        heard of it."""
        if len(self._given_up) < _MOST_GIVEN_UP:
            task = asyncio.get_running_loop().create_task(self._tell(request, options, _NOTICE))
            self._given_up.add(task)
            task.add_done_callback(self._given_up.discard)
        return httpx2.Response(202, request=request)

    async def _tell(self, request: httpx2.Request, options: dict[str, Any], patience: float) -> None:
        try:
            async with time_limit(patience):
                response = await super().send(request, **options)
                await response.aclose()
        except Exception as error:  # a courtesy: nobody waits for the answer
            logger.debug("an MCP server could not be told: %s", failure_reason(error))


class _BoundedTransport(httpx2.AsyncBaseTransport):
    """Every answer, those of an authorization server included: not compressed, and no longer than a message."""

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, limit: int, message: Callable[[TransportFault], bytes]
    ) -> None:
        self._inner = inner
        self._limit = limit
        self._message = message

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            await response.aclose()
            why = f"it sent a compressed answer ({clean_server_text(encoding)}) though none was asked for"
            raise _RefusedAnswer(TransportFault("unusable", why))
        if response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            response.stream = BoundedEventStream(response.stream, self._limit, self._message)
        else:
            response.stream = _CappedStream(response.stream, self._limit)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CappedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > self._limit:
                raise _RefusedAnswer(too_long(self._limit))
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def _envelope(request: httpx2.Request) -> _Envelope:
    try:
        return msgspec.json.decode(request.content, type=_Envelope)
    except (msgspec.MsgspecError, UnicodeError):
        return _Envelope()


async def _read(
    response: httpx2.Response, request: httpx2.Request, envelope: _Envelope
) -> httpx2.Response | TransportFault:
    try:
        body = await response.aread()
    finally:
        await response.aclose()
    try:
        read = mend_message(body, envelope.id if envelope.kind == "request" else None)
    except UnreadableLine as error:
        return TransportFault("unusable", f"it answered with what is not a message: {error}")
    if isinstance(read, TransportFault) or read is body:
        return read if isinstance(read, TransportFault) else response
    kept = [(name, value) for name, value in response.headers.multi_items() if name != "content-length"]
    return httpx2.Response(response.status_code, headers=kept, content=read, request=request)


def _says_nothing(status: int, kind: str, envelope: _Envelope) -> bool:
    """Whether a request is answered with what can be no message. A redirection is the SDK's to explain."""
    if envelope.kind != "request" or 300 <= status < 400:
        return False
    return status in (202, 204) or kind not in ("application/json", "text/event-stream")


async def _explained(response: httpx2.Response, request: httpx2.Request, kind: str) -> httpx2.Response | TransportFault:
    """What an answer means that is no plain result: the server's own error passes, anything else is a fault."""
    status = response.status_code
    try:
        if kind == "application/json":
            body = await response.aread()
        else:
            body = await _beginning(response)
    finally:
        await response.aclose()
    if _SESSION in request.headers and status == 404:
        return TransportFault("session", "the server has forgotten the session")
    text = clean_server_text(redact_text(" ".join(body[:_QUOTED].decode("utf-8", "replace").split())))
    if _SESSION in request.headers and status == 400 and b"session" in body.lower():
        # As many servers say it. But it may be about something else, so what changes anything is not sent again.
        return TransportFault("refused", f"HTTP 400: {text}")
    if kind == "application/json" and not too_many_values(body) and _is_error(body):
        return response
    if status in _GATEWAY:
        return TransportFault("lost", f"HTTP {status}: {text}")
    if status == 401:
        return TransportFault("unusable", "HTTP 401: it wants to know who asks; give a header or set up `oauth`")
    if status < 400:
        return TransportFault("unusable", f"it answered with {kind or f'HTTP {status}'} and not with a message: {text}")
    return TransportFault("unusable", f"HTTP {status}: {text}")


async def _beginning(response: httpx2.Response) -> bytes:
    found = b""
    async with time_limit(_GOODBYE):
        async for chunk in response.aiter_raw():
            found += chunk
            if len(found) >= _QUOTED:
                break
    return found


def _is_error(body: bytes) -> bool:
    try:
        match msgspec.json.decode(body):
            case {"error": {"code": int(), "message": str()}}:
                return True
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return False


def _fault_of(error: Exception) -> TransportFault:
    match error:
        case _RefusedAnswer(fault=fault):
            return fault
        case McpError():
            return TransportFault("unusable", failure_reason(error), error)
        case TimeoutError():
            return TransportFault("lost", "it did not take a message in time")
        case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.ProxyError():
            return TransportFault(
                "lost", f"it cannot be reached: {clean_server_text(str(error) or type(error).__name__)}"
            )
        case httpx2.TransportError():
            return TransportFault(
                "lost", f"the connection broke: {clean_server_text(str(error) or type(error).__name__)}"
            )
    return TransportFault("unusable", failure_reason(error))


_LIBRARIES = ("httpx2", "mcp.client.streamable_http")


def redact_library_logs() -> None:
    for name in _LIBRARIES:
        logging.getLogger(name).addFilter(_without_secrets)  # the same one is added once


def _without_secrets(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(map(_bare, record.args))
    return not names_a_session(str(record.msg))


def _bare(value: Any) -> Any:
    """An address without a name, a password and a query."""
    return value.copy_with(userinfo=b"", query=None) if isinstance(value, httpx2.URL) else value
