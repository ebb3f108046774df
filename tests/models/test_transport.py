"""Requests over real connections on this machine, to services that behave and services that do not."""

from __future__ import annotations

import asyncio
import email.utils
import gzip
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import (
    ModelError,
    ModelUnavailable,
    ProtocolError,
    RateLimited,
    RequestRefused,
    UsageError,
)
from handrail.core.redact import Secret
from handrail.models.api_keys import key_for
from handrail.models.codec import Framing, WireRequest
from handrail.models.service_errors import error_for_status
from handrail.models.transport import Endpoint, HttpTransport, TransportBounds
from handrail.models.wire_events import END, WireEvent
from handrail.testing.clock import FixedClock
from tests.models.raw_reply_server import (
    CUT,
    HOLD,
    ConnectionAct,
    RawReplyServer,
    Reply,
    head,
    own_certificate,
    serving,
    sse,
    streamed,
    until_closed,
    whole,
)

CANARY = "canary-5f1e9b8c7d6a"


@pytest.fixture
async def transport() -> AsyncIterator[HttpTransport]:
    made = HttpTransport(TransportBounds(frame=100_000), clock=FixedClock())
    yield made
    await made.aclose()


def asking(framing: Framing = "sse", **body: Any) -> WireRequest:
    return WireRequest(path="/v1/chat", body=body, framing=framing)


def at(server: RawReplyServer, **more: Any) -> Endpoint:
    return Endpoint(server.url, Secret(CANARY), **more)


async def exchanged(transport: HttpTransport, *replies: Reply, framing: Framing = "sse") -> list[WireEvent]:
    async with asyncio.timeout(20), serving(*replies) as server:
        return await received(transport, server, asking(framing))


async def received(
    transport: HttpTransport, server: RawReplyServer, request: WireRequest = asking(), **more: Any
) -> list[WireEvent]:
    async with aclosing(transport.send(request, at(server, **more))) as events:
        return [event async for event in events]


def everything(error: BaseException | None) -> str:
    """All that a log could show of an error, its causes included."""
    if error is None:
        return ""
    own = f"{error!s} {error!r} {error.args!r} {vars(error)!r}"
    return own + everything(error.__cause__) + everything(error.__context__)


# What is sent.


async def test_a_request_has_its_body_its_key_and_its_headers(transport: HttpTransport) -> None:
    request = WireRequest(path="/v1/chat?alt=sse", body={"model": "m", "n": 10**30}, headers={"X-Version": "1"})
    async with serving(whole({"ok": True})) as server:
        await received(transport, server, request, headers={"x-version": "2", "X-Org": "o"}, query={"v": "a b"})
    asked = server.asked[0]
    assert asked.path == "/v1/chat?alt=sse&v=a+b"
    assert asked.json == {"model": "m", "n": 10**30}
    shown = {name: asked.headers[name] for name in ("authorization", "x-version", "x-org", "content-type", "accept")}
    assert shown == {
        "authorization": f"Bearer {CANARY}",
        "x-version": "2",
        "x-org": "o",
        "content-type": "application/json",
        "accept": "text/event-stream, application/json",
    }
    assert "cookie" not in asked.headers


async def test_a_key_goes_into_the_header_that_the_service_wants(transport: HttpTransport) -> None:
    async with serving(whole({})) as server:
        await received(transport, server, key_header="x-api-key", key_prefix="")
    assert server.asked[0].headers["x-api-key"] == CANARY
    assert "authorization" not in server.asked[0].headers


async def test_a_body_with_a_large_image_is_sent_whole(transport: HttpTransport) -> None:
    async with serving(whole({})) as server:
        await received(transport, server, asking(image="x" * 3_000_000))
    assert len(server.asked[0].json["image"]) == 3_000_000


async def test_a_service_behind_a_unix_socket_is_reached(transport: HttpTransport, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    async with serving(streamed(sse({"n": 1})), unix_socket=path) as server:
        assert await received(transport, server, unix_socket=path) == [WireEvent({"n": 1})]


async def test_a_request_that_json_cannot_hold_is_refused_before_it_is_sent(transport: HttpTransport) -> None:
    async with serving() as server:
        with pytest.raises(UsageError, match="cannot be written as JSON"):
            await received(transport, server, asking(text="\ud800"))
    assert server.asked == []


async def test_the_proxy_of_the_environment_is_used_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, transport: HttpTransport
) -> None:
    asks_it = HttpTransport(trust_env=True)
    async with serving(whole({}), whole({}), whole({"by": "proxy"})) as server:
        monkeypatch.setenv("http_proxy", server.url.removeprefix("http://"))  # as many people write it
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        await received(transport, server)
        await received(asks_it, server)  # on this machine, where no proxy is in between
        endpoint = Endpoint("http://model.invalid/v1")
        async with aclosing(asks_it.send(asking(), endpoint)) as events:
            assert [event async for event in events] == [WireEvent({"by": "proxy"})]
        await asks_it.aclose()
    assert [asked.path for asked in server.asked] == ["/v1/chat", "/v1/chat", "http://model.invalid/v1/v1/chat"]


# What comes back.


async def test_the_events_of_a_stream_come_as_they_are_sent(transport: HttpTransport) -> None:
    async with asyncio.timeout(20), serving(streamed(sse({"n": 1}), HOLD)) as server:
        stream = transport.send(asking(), at(server))
        assert await anext(stream) == WireEvent({"n": 1})
        await stream.aclose()


@pytest.mark.parametrize(
    "framing, reply",
    [
        ("sse", streamed(sse({"n": 1}, {"n": 2}, b"[DONE]"))),
        ("sse", streamed(*(bytes([byte]) for byte in sse({"n": 1}, {"n": 2}, b"[DONE]")))),
        ("sse", until_closed(sse({"n": 1}, {"n": 2}))),
        ("sse", streamed(sse({"n": 1}, {"n": 2}), kind=None)),
        ("ndjson", streamed(b'{"n": 1}\n{"n"', b": 2}", kind="application/x-ndjson")),
        ("ndjson", whole(b'{"n": 1}\r\n\n{"n": 2}\n', kind="application/json")),
    ],
)
async def test_two_events_come_out_of_every_kind_of_stream(
    transport: HttpTransport, framing: Framing, reply: Reply
) -> None:
    events = await exchanged(transport, reply, framing=framing)
    assert [event for event in events if event is not END] == [WireEvent({"n": 1}), WireEvent({"n": 2})]


async def test_a_reply_in_one_piece_is_one_event(transport: HttpTransport) -> None:
    assert await exchanged(transport, whole({"id": "r"}), framing="json") == [WireEvent({"id": "r"})]


async def test_a_reply_that_is_compressed_all_the_same_is_read(transport: HttpTransport) -> None:
    reply = whole(gzip.compress(b'{"id": 1}'), content_encoding="gzip")
    assert await exchanged(transport, reply, framing="json") == [WireEvent({"id": 1})]


async def test_one_connection_serves_one_request_after_another(transport: HttpTransport) -> None:
    done = streamed(sse({"n": 1}, b"[DONE]"))
    async with serving(done, whole({}), whole(b"{}", status=500), done) as server:
        await received(transport, server)
        await received(transport, server)
        with pytest.raises(ModelUnavailable):
            await received(transport, server)
        await received(transport, server)
    assert (len(server.asked), server.connections) == (4, 1)


@pytest.mark.parametrize("then", [HOLD, CUT])
async def test_whatever_a_service_does_after_done_the_reply_is_whole(
    transport: HttpTransport, then: ConnectionAct
) -> None:
    assert await exchanged(transport, streamed(sse({"n": 1}, b"[DONE]"), then)) == [WireEvent({"n": 1}), END]


async def test_many_requests_at_once_get_their_own_replies(transport: HttpTransport) -> None:
    """All of them are held open until the last has come."""
    count = 150
    async with asyncio.timeout(30), serving(*[streamed(sse({"n": n}), HOLD) for n in range(count)]) as server:
        streams = [transport.send(asking(), at(server)) for _ in range(count)]
        firsts = await asyncio.gather(*(anext(stream) for stream in streams))
        assert sorted(event.data["n"] for event in firsts) == list(range(count))
        assert server.connections == count
        for stream in streams:
            await stream.aclose()


async def test_closing_a_stream_closes_its_connection_at_once(transport: HttpTransport) -> None:
    async with asyncio.timeout(20), serving(streamed(sse({"n": 1}), HOLD)) as server:
        stream = transport.send(asking(), at(server))
        await anext(stream)
        await stream.aclose()
        await server.hung_up.wait()


@pytest.mark.parametrize("reply", [[HOLD], [head(), HOLD], streamed(sse({"n": 1}), HOLD)])
async def test_cancelling_a_request_closes_its_connection_wherever_it_is(
    transport: HttpTransport, reply: Reply
) -> None:
    async with asyncio.timeout(20), serving(reply) as server:
        task = asyncio.create_task(received(transport, server))
        await server.holding.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.hung_up.wait()


async def test_a_slow_reader_holds_the_service_back_and_may_still_leave(transport: HttpTransport) -> None:
    """The flood is endless: it ends only because the reader leaves."""
    flood = [head(), *[sse({"x": "x" * 50_000})] * 20_000]
    async with asyncio.timeout(30), serving(flood) as server:
        stream = transport.send(asking(), at(server))
        await anext(stream)
        await stream.aclose()
        await server.hung_up.wait()


def test_a_transport_works_in_one_event_loop_after_another() -> None:
    transport = HttpTransport()

    async def once() -> list[WireEvent]:
        try:
            return await exchanged(transport, whole({"n": 1}), framing="json")
        finally:
            await transport.aclose()

    assert [asyncio.run(once()) for _ in range(2)] == [[WireEvent({"n": 1})]] * 2


# What goes wrong.

MESSAGE = {"error": {"message": "no such model", "type": "invalid_request_error"}}


@pytest.mark.parametrize(
    "status, kind",
    [(code, RequestRefused) for code in (400, 401, 403, 404, 413, 422)]
    + [(code, ModelUnavailable) for code in (408, 500, 502, 503, 504, 529)]
    + [(429, RateLimited)],
)
async def test_a_status_is_an_error_of_its_kind_in_the_words_of_the_service(
    transport: HttpTransport, status: int, kind: type[ModelError]
) -> None:
    with pytest.raises(kind, match=f"the service answered {status}: no such model") as caught:
        await exchanged(transport, whole(MESSAGE, status=status))
    assert type(caught.value) is kind
    assert caught.value.status == status


@pytest.mark.parametrize(
    "body, words",
    [
        ({"error": "model 'x' not found"}, "model 'x' not found"),
        ([{"error": {"code": 400, "message": "API key not valid"}}], "API key not valid"),
        ({"message": "forbidden"}, "forbidden"),
        ({"detail": "Not Found"}, "Not Found"),
        ({"object": "error", "other": 1}, '{"object":"error","other":1}'),
        (b"upstream   connect\n error", "upstream connect error"),
    ],
)
def test_the_words_of_an_error_are_found_in_every_form(body: Any, words: str) -> None:
    sent = body if isinstance(body, bytes) else whole(body)[1]
    assert isinstance(sent, bytes)
    assert str(error_for_status(400, sent)) == f"the service answered 400: {words}"


def test_an_error_without_words_is_its_status() -> None:
    assert str(error_for_status(503, b"")) == "the service answered 503"


@pytest.mark.parametrize(
    "headers, seconds",
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after": email.utils.formatdate(1_700_000_060, usegmt=True)}, 60.0),
        ({"retry-after": email.utils.formatdate(1_600_000_000, usegmt=True)}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
async def test_the_pause_that_a_service_asks_for_is_in_the_error(
    transport: HttpTransport, headers: dict[str, str], seconds: float | None
) -> None:
    named = {name.replace("-", "_"): value for name, value in headers.items()}
    with pytest.raises(RateLimited) as caught:
        await exchanged(transport, whole({}, status=429, **named))
    assert caught.value.retry_after == seconds


def test_the_pause_may_be_in_the_body() -> None:
    details = [{"@type": "Help"}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}]
    reply = whole([{"error": {"message": "quota", "details": details}}])[1]
    assert isinstance(reply, bytes)
    assert error_for_status(429, reply).retry_after == 34.5


@pytest.mark.parametrize("delay", [5, None, "soon", ["1s"], "9" * 400 + "s"])
def test_a_pause_that_cannot_be_read_is_none(delay: Any) -> None:
    reply = whole({"error": {"message": "quota", "details": ["no", {"retryDelay": delay}]}})[1]
    assert isinstance(reply, bytes)
    assert error_for_status(429, reply).retry_after is None


def test_a_spent_account_is_refused_and_not_merely_limited() -> None:
    body = b'{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}'
    assert type(error_for_status(429, body)) is RequestRefused


async def test_a_redirect_is_not_followed(transport: HttpTransport) -> None:
    with pytest.raises(RequestRefused, match=r"leads to https://elsewhere.invalid/, which is not followed"):
        await exchanged(transport, whole(status=307, location="https://elsewhere.invalid/"))


async def test_an_error_with_endless_words_is_shown_in_part(transport: HttpTransport) -> None:
    with pytest.raises(RequestRefused) as caught:
        await exchanged(transport, [head(400, "text/plain"), b"x" * 100_000, HOLD])
    assert len(str(caught.value)) < 1100


async def test_an_error_whose_words_are_cut_off_is_still_that_error(transport: HttpTransport) -> None:
    with pytest.raises(RateLimited, match="slow down"):
        await exchanged(transport, [head(429, "text/plain", content_length="100"), b"slow down", CUT])


async def test_nobody_there_is_unavailable(transport: HttpTransport) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(ModelUnavailable, match=f"http://127.0.0.1:{port} cannot be reached"):
            async with aclosing(transport.send(asking(), Endpoint(f"http://127.0.0.1:{port}"))) as events:
                await anext(events)


async def test_a_missing_unix_socket_is_unavailable(transport: HttpTransport, tmp_path: Path) -> None:
    endpoint = Endpoint("http://localhost", unix_socket=str(tmp_path / "none"))
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        async with aclosing(transport.send(asking(), endpoint)) as events:
            await anext(events)


@pytest.mark.parametrize("reply", [[HOLD], [head(), HOLD], streamed(sse({"n": 1}), HOLD)])
@pytest.mark.parametrize("bounds", [TransportBounds(silence=0.05), TransportBounds(total=0.05)])
async def test_a_service_that_falls_silent_is_unavailable(reply: Reply, bounds: TransportBounds) -> None:
    transport = HttpTransport(bounds)
    with pytest.raises(ModelUnavailable, match="took too long"):
        await exchanged(transport, reply)
    await transport.aclose()


async def test_a_service_that_hangs_up_without_an_answer_is_unavailable(transport: HttpTransport) -> None:
    with pytest.raises(ModelUnavailable):
        await exchanged(transport, [CUT])


async def test_a_certificate_that_nobody_vouches_for_is_not_trusted_unless_it_is_given() -> None:
    certificate = own_certificate()
    careful, told = HttpTransport(), HttpTransport(tls=certificate.client)
    async with serving(whole({"n": 1}), tls=certificate.server) as server:
        with pytest.raises(ModelError, match="is not trusted") as caught:
            await received(careful, server)
        assert await received(told, server) == [WireEvent({"n": 1})]
    assert type(caught.value) is ModelError
    await careful.aclose()
    await told.aclose()


GOOD = sse({"n": 1}, {"text": "grüß 🌍"}, b"[DONE]")


@pytest.mark.parametrize("place", range(1, GOOD.index(b"[DONE]") + 6, 3))
async def test_a_stream_cut_at_any_place_before_done_is_an_error(transport: HttpTransport, place: int) -> None:
    with pytest.raises(ProtocolError):
        await exchanged(transport, streamed(GOOD[:place], CUT))


async def test_events_before_a_cut_are_given_out_and_half_an_event_is_not(transport: HttpTransport) -> None:
    got: list[WireEvent] = []
    async with serving(until_closed(sse({"n": 1}) + b'data: {"n": 2')) as server:
        with pytest.raises(ProtocolError, match="not JSON"):
            async with aclosing(transport.send(asking(), at(server))) as events:
                async for event in events:
                    got.append(event)
    assert got == [WireEvent({"n": 1})]


@pytest.mark.parametrize(
    "reply, words",
    [
        (whole(b"<html>Sign in</html>", kind="text/html"), "begins: <html>Sign in</html>"),
        (whole(b"<html>Sign in</html>", kind="text/plain"), "begins: <html>Sign in</html>"),
        (whole(b"", kind="application/json"), "application/json, empty"),
        (whole(b"", kind="text/event-stream"), "text/event-stream, empty"),
        (whole(b"", status=204, kind=None), "no media type, empty"),
        (whole(b"{broken", kind="application/json"), "begins: {broken"),
        (whole(b"[]", kind="application/json"), "not a JSON object but array"),
        (streamed(b": keep-alive\n\n"), "begins: : keep-alive"),
        ([head(200, "application/json", content_length="50"), b'{"cut": ', CUT], "broke off"),
        ([head(), b"data: " + b"x" * 200_000, HOLD], "larger than 100000 bytes"),
        ([b"SSH-2.0-OpenSSH_9.2\r\n\r\n", HOLD], "does not speak HTTP"),
        ([b"\x16\x03\x01\x00\xff\r\n\r\n", HOLD], "does not speak HTTP"),
        ([head(transfer_encoding="chunked"), b"zz\r\ngarbage\r\n", HOLD], "http://127.0.0.1"),
    ],
)
async def test_a_reply_that_cannot_be_read_is_an_error_that_shows_it(
    transport: HttpTransport, reply: Reply, words: str
) -> None:
    with pytest.raises(ProtocolError) as caught:
        await exchanged(transport, reply)
    assert words in str(caught.value)


# Secrets.


@pytest.mark.parametrize(
    "reply",
    [
        whole({"error": {"message": f"bad key {CANARY}"}}, status=401),
        whole(f"bad key {CANARY}".encode(), status=500, kind="text/plain"),
        whole(b"x" * 990 + CANARY.encode(), status=400, kind="text/plain"),
        whole(f"<html>{CANARY}".encode(), kind="text/html"),
        whole(b"", status=302, location=f"https://elsewhere.invalid/?key={CANARY}"),
        [f"{CANARY} HTTP\r\n\r\n".encode(), HOLD],
        [f"HTTP/1.1 {CANARY}\r\n\r\n".encode(), HOLD],
        streamed(f"data: {CANARY}\n\n".encode()),
        streamed(b"data: {}", CUT),
        [CUT],
        [HOLD],
    ],
)
async def test_no_error_shows_the_key_or_a_part_of_it(reply: Reply) -> None:
    transport = HttpTransport(TransportBounds(silence=0.2))
    with pytest.raises(ModelError) as caught:
        await exchanged(transport, reply)
    await transport.aclose()
    assert "canary" not in everything(caught.value)


def test_the_repr_of_an_endpoint_shows_neither_key_nor_headers() -> None:
    endpoint = Endpoint("https://host/v1", Secret(CANARY), headers={"x-token": "t-1234567"}, query={"sig": "s-1234567"})
    assert repr(endpoint) == (
        "Endpoint(base_url='https://host/v1', key_header='authorization', key_prefix='Bearer ', unix_socket=None)"
    )


@pytest.mark.parametrize(
    "base_url", ["host/v1", "ftp://host", "https://", "https://u:pw-12345@host", "https://host?key=pw-12345", "//host"]
)
def test_a_base_url_that_cannot_be_right_is_refused_without_showing_a_password(base_url: str) -> None:
    with pytest.raises(UsageError, match="base_url") as caught:
        Endpoint(base_url)
    assert "pw-12345" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{"key": Secret(f"{CANARY}\r\nx: y")}, {"headers": {"a": f"{CANARY}\n"}}])
def test_a_key_or_header_with_a_line_end_is_refused_without_showing_it(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="no header takes") as caught:
        Endpoint("https://host", **wrong)
    assert "canary" not in everything(caught.value)


# Keys.


def test_a_key_comes_from_the_environment_variable_of_its_service() -> None:
    environ = {"OPENAI_API_KEY": "k-openai\n", "GOOGLE_API_KEY": "k-google", "MY_SERVER_API_KEY": "k-own"}
    found = {name: key_for(name, None, environ) for name in ("openai", "gemini", "my-server", "ollama")}
    assert found == {"openai": "k-openai", "gemini": "k-google", "my-server": "k-own", "ollama": None}
    assert all(isinstance(key, Secret) for key in found.values() if key is not None)


def test_a_key_may_be_given_or_its_variable_named() -> None:
    assert key_for("openai", "k-given", {"OPENAI_API_KEY": "k-other"}) == "k-given"
    assert key_for("openai", "env:WORK_KEY", {"WORK_KEY": "k-work"}) == "k-work"


@pytest.mark.parametrize(
    "provider, given, names",
    [
        ("anthropic", None, "ANTHROPIC_API_KEY"),
        ("gemini", None, "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("ollama", "env:WORK_KEY", "WORK_KEY"),
    ],
)
def test_a_missing_key_is_an_error_that_names_its_variable(provider: str, given: str | None, names: str) -> None:
    with pytest.raises(UsageError, match=f"no key for {provider}: set the environment variable {names}$"):
        key_for(provider, given, {"ANTHROPIC_API_KEY": " "})


@pytest.mark.parametrize("text", ["", "two words", "grüße", "a\x00b"])
def test_what_cannot_be_a_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        key_for("openai", text, {})
    assert not text or text not in str(caught.value)
