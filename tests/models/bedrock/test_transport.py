"""botocore carries requests and replies, over a real connection to a server on this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.models.bedrock import BedrockCodec
from handrail.models.bedrock.transport import BedrockTransport
from handrail.models.codec import WireRequest
from handrail.models.codec_model import CodecModel
from handrail.models.retry_policy import RetryPolicy
from handrail.models.transport import Endpoint
from tests.models.bedrock.botocore_checks import event_bytes
from tests.models.bedrock.streams import BEGIN, STREAM, WHOLE
from tests.models.reply_rounds import CLOCK, WEATHER, asked, calls_of, decoded

Answer = Callable[[BaseHTTPRequestHandler], None]


@pytest.fixture(autouse=True)
def of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that name no account; nothing of this machine's is read."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[Endpoint, list[tuple[str, Any]]]]:
    asked: list[tuple[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            asked.append((self.path, msgspec.json.decode(data)))
            answer(self)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Endpoint(f"http://127.0.0.1:{server.server_port}"), asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def sends(data: bytes, kind: str, status: int = 200, length: int | None = None, error: str = "") -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("content-type", kind)
        handler.send_header("content-length", str(len(data) if length is None else length))
        handler.send_header("connection", "close")
        if error:
            handler.send_header("x-amzn-errortype", error)
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def streams(*events: dict[str, Any], length: int | None = None) -> Answer:
    data = b"".join(map(event_bytes, events))
    return sends(data, "application/vnd.amazon.eventstream", length=length)


async def replied(endpoint: Endpoint, *, stream: bool = True) -> list[Any]:
    transport = BedrockTransport(silence=10)
    model = CodecModel(BedrockCodec(), transport, endpoint, "eu.m:0", stream=stream, retry=RetryPolicy(attempts=1))
    try:
        return [event async for event in model.stream(asked(tools=(WEATHER, CLOCK)))]
    finally:
        await transport.aclose()


async def test_a_stream_arrives_as_events() -> None:
    with serving(streams(*STREAM)) as (endpoint, requests):
        events = await replied(endpoint)
    assert events == decoded(BedrockCodec(), STREAM)
    ((path, sent),) = requests
    assert path == "/model/eu.m%3A0/converse-stream"
    assert sent["messages"] == [{"role": "user", "content": [{"text": "Weather in Lisbon?"}]}]


async def test_a_whole_reply_arrives_as_events() -> None:
    with serving(sends(msgspec.json.encode(WHOLE), "application/json")) as (endpoint, _):
        assert calls_of(await replied(endpoint, stream=False)) == calls_of(decoded(BedrockCodec(), [WHOLE]))


@pytest.mark.parametrize(
    ("status", "code", "error"),
    [
        (429, "ThrottlingException", RateLimited),
        (503, "ServiceUnavailableException", ModelUnavailable),
        (403, "AccessDeniedException", RequestRefused),
        (418, "TeapotException", RequestRefused),
    ],
)
async def test_a_refusal_is_raised_as_what_it_is(status: int, code: str, error: type[ModelError]) -> None:
    refusal = sends(b'{"message": "not now"}', "application/json", status, error=code)
    with serving(refusal) as (endpoint, requests), pytest.raises(error, match="not now") as caught:
        await replied(endpoint)
    assert caught.value.status == status
    assert len(requests) == 1


async def test_an_exception_in_the_stream_is_raised_as_what_it_is() -> None:
    answer = streams(BEGIN, {"throttlingException": {"message": "too fast"}})
    with serving(answer) as (endpoint, _), pytest.raises(RateLimited, match="too fast"):
        await replied(endpoint)


@pytest.mark.parametrize("missing", [0, 1000])
async def test_a_stream_that_breaks_off_is_an_error(missing: int) -> None:
    data = b"".join(map(event_bytes, STREAM[:12]))
    answer = sends(data[:-7], "application/vnd.amazon.eventstream", length=len(data) - 7 + missing)
    with serving(answer) as (endpoint, _), pytest.raises(ProtocolError):
        await replied(endpoint)


async def test_a_service_that_is_not_there_is_unavailable() -> None:
    with serving(streams()) as (endpoint, _):
        pass
    with pytest.raises(ModelUnavailable):
        await replied(endpoint)


async def test_without_credentials_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with serving(streams()) as (endpoint, requests), pytest.raises(RequestRefused, match="as for any AWS tool"):
        await replied(endpoint)
    assert requests == []


def begins(go_on: threading.Event) -> Answer:
    """Sends one event, then nothing until it is told to go on."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        data = event_bytes(BEGIN)
        handler.send_response(200)
        handler.send_header("content-type", "application/vnd.amazon.eventstream")
        handler.send_header("transfer-encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        go_on.wait(10)
        handler.wfile.write(b"0\r\n\r\n")

    return answer


async def test_a_reply_that_nobody_reads_on_is_let_go_at_once() -> None:
    go_on = threading.Event()
    transport = BedrockTransport(silence=10)
    with serving(begins(go_on)) as (endpoint, _):
        wire = BedrockCodec().encode(asked(), "m", stream=True)
        async with aclosing(transport.send(wire, endpoint)) as events:
            assert (await anext(events)).data == BEGIN
            assert not go_on.is_set()
        go_on.set()
    await transport.aclose()


async def test_a_service_that_falls_silent_is_unavailable() -> None:
    go_on = threading.Event()
    transport = BedrockTransport(silence=0.1)
    with serving(begins(go_on)) as (endpoint, _):
        wire = BedrockCodec().encode(asked(), "m", stream=True)
        async with aclosing(transport.send(wire, endpoint)) as events:
            await anext(events)
            with pytest.raises(ModelUnavailable):
                await anext(events)
        go_on.set()
    await transport.aclose()


async def test_a_request_of_another_service_is_refused() -> None:
    wire = WireRequest(path="/v1/messages", body={})
    with pytest.raises(RequestRefused):
        async for _ in BedrockTransport().send(wire, Endpoint("http://127.0.0.1:9")):
            raise NotImplementedError
