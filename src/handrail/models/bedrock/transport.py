"""How a request reaches Bedrock: botocore signs it, finds the credentials and reads the event stream.

botocore blocks, so each exchange has a thread of its own. One that nobody waits for
any more ends at the next event, or when the service has been silent for too long.
botocore's own retries are off: `CodecModel` retries.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import closing, suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from handrail.core.errors import (
    HandrailError,
    MissingExtra,
    ModelError,
    ModelUnavailable,
    ProtocolError,
    RequestRefused,
    describe_exception,
)
from handrail.models.bedrock.decode import ERRORS
from handrail.models.codec import WireRequest
from handrail.models.service_errors import SHOWN, error_for_status, masked_excerpt
from handrail.models.transport import Endpoint
from handrail.models.wire_events import WireEvent

_REGION = re.compile(r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")
_PATH = re.compile(r"/model/([^/]+)/(converse|converse-stream)")

MakeClient = Callable[[Endpoint], Any]


class BedrockTransport:
    """A `Transport`. Credentials come from where botocore looks for them; the endpoint's key is not used."""

    def __init__(
        self, make_client: MakeClient | None = None, *, silence: float = 300.0, region: str | None = None
    ) -> None:
        """`region` is for an address of one's own; Amazon's addresses name theirs."""
        self._make_client = make_client or (lambda endpoint: _client(endpoint, silence, region))
        self._clients: dict[str, Any] = {}
        self._making = threading.Lock()

    async def send(self, request: WireRequest, endpoint: Endpoint) -> AsyncGenerator[WireEvent, None]:
        exchange = _ThreadedExchange(asyncio.get_running_loop(), lambda: self._events(request, endpoint))
        try:
            while (event := await exchange.next()) is not None:
                yield event
        finally:
            exchange.abandon()

    async def aclose(self) -> None:
        clients, self._clients = self._clients, {}  # a thread may be making another at this moment
        for client in clients.values():
            client.close()

    def _events(self, request: WireRequest, endpoint: Endpoint) -> Generator[WireEvent, None, None]:
        found = _PATH.fullmatch(request.path)
        if found is None:
            raise RequestRefused(f"{request.path!r} is not a path of Converse")
        client, model = self._client(endpoint), unquote(found[1])
        if found[2] == "converse":
            yield WireEvent(client.converse(modelId=model, **request.body))
            return
        stream = client.converse_stream(modelId=model, **request.body)["stream"]
        try:
            for event in stream:
                yield WireEvent(event)
        finally:
            stream.close()

    def _client(self, endpoint: Endpoint) -> Any:
        with self._making:
            if endpoint.base_url not in self._clients:
                self._clients[endpoint.base_url] = self._make_client(endpoint)
            return self._clients[endpoint.base_url]


class _ThreadedExchange:
    """Carries events from a thread that blocks into a loop that must not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, events: Callable[[], Generator[WireEvent, None, None]]) -> None:
        self._loop = loop
        self._events = events
        self._queue: asyncio.Queue[WireEvent | Exception | None] = asyncio.Queue()
        self._abandoned = threading.Event()
        threading.Thread(target=self._run, name="handrail-bedrock", daemon=True).start()

    async def next(self) -> WireEvent | None:
        event = await self._queue.get()
        if isinstance(event, Exception):
            raise event
        return event

    def abandon(self) -> None:
        self._abandoned.set()

    def _run(self) -> None:
        try:
            with closing(self._events()) as events:
                for event in events:
                    self._put(event)
                    if self._abandoned.is_set():
                        return
            self._put(None)
        except Exception as error:  # whatever it was, whoever waits must hear of it
            self._put(_model_error_for(error))

    def _put(self, event: WireEvent | Exception | None) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)


def _client(endpoint: Endpoint, silence: float, region: str | None) -> Any:
    try:
        import botocore.session
        from botocore.config import Config
    except ImportError:
        raise MissingExtra("Bedrock", "bedrock") from None
    found = _REGION.search(urlsplit(endpoint.base_url).netloc)
    config = Config(retries={"total_max_attempts": 1}, read_timeout=silence)
    session = botocore.session.get_session()
    return session.create_client(
        "bedrock-runtime", region_name=found[1] if found else region, endpoint_url=endpoint.base_url, config=config
    )


def _model_error_for(error: Exception) -> HandrailError:
    """Maps an exception of botocore to one of ours."""
    if isinstance(error, HandrailError):
        return error
    import botocore.exceptions as known
    import urllib3.exceptions as below

    match error:
        case below.ReadTimeoutError():
            return ModelUnavailable("Bedrock has been silent for too long")
        case known.ClientError():
            return _reported(error)
        case known.NoCredentialsError() | known.PartialCredentialsError() | known.NoRegionError():
            return RequestRefused(f"{error}; set them as for any AWS tool (environment, ~/.aws, or a role)")
        case known.ParamValidationError():
            return RequestRefused(masked_excerpt(str(error), SHOWN))
        case known.ResponseStreamingError():
            return ProtocolError(f"Bedrock broke off in the middle of its reply: {masked_excerpt(str(error))}")
        case known.ConnectionError() | known.HTTPClientError():
            return ModelUnavailable(f"Bedrock cannot be reached: {masked_excerpt(str(error))}")
    return ProtocolError(f"the exchange with Bedrock broke off: {masked_excerpt(describe_exception(error))}")


def _reported(error: Any) -> ModelError:
    code = str(error.response.get("Error", {}).get("Code", ""))
    message = masked_excerpt(str(error.response.get("Error", {}).get("Message", "")), SHOWN)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    kind = ERRORS.get(code[:1].lower() + code[1:])
    if kind is None and isinstance(status, int):
        return error_for_status(status, f"{code}: {message}".encode())
    return (kind or ProtocolError)(f"Bedrock reports {code}: {message}", status=status)
