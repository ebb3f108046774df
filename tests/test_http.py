"""The HTTP client against real sockets. What models need of it is in providers/test_transport.py."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings, strategies as st

from handrail.http import BadHttpAnswer, HttpAddress, HttpClient, HttpNotConnected, request_head
from handrail.http.connection import HttpConnection
from tests.examples import examples
from tests.models.raw_reply_server import HOLD, own_certificate, serving, whole


async def asked(client: HttpClient, url: str, body: bytes = b"{}", *, method: str = "POST", **more: str) -> bytes:
    address = HttpAddress.of(url)
    answer = await client.ask(address, request_head(method, address, {"x": "1"}), body, **more)
    try:
        found = b""
        while chunk := await answer.read():
            found += chunk
        return found
    finally:
        answer.close()


@asynccontextmanager
async def raw(*pieces: bytes) -> AsyncIterator[str]:
    """A server that says these bytes to whoever asks, and hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            for _ in range(3):  # turns of the loop in which the client reads this piece and no other
                await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def pieces(whole_answer: bytes, cut: int) -> list[bytes]:
    """So many bytes each, and at most about 500 pieces."""
    cut = max(cut, len(whole_answer) // 500)
    return [whole_answer[at : at + cut] for at in range(0, len(whole_answer), cut)]


@pytest.mark.parametrize(
    ("bytes_", "body"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", b"hi"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;a=b\r\nhi\r\n0\r\nx: trailer\r\n\r\n", b"hi"),
        (b"HTTP/1.1 200 OK\r\n\r\nhi", b"hi"),
        (b"HTTP/1.0 200 OK\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", b"hi"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"hi" * 3_000_000, mtime=0),
            b"hi" * 3_000_000,
        ),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n", b""),
    ],
)
@pytest.mark.parametrize("cut", [1, 7, 1_000_000])
async def test_an_answer_is_read_however_it_is_framed_and_cut(bytes_: bytes, body: bytes, cut: int) -> None:
    async with raw(*pieces(bytes_, cut)) as url:
        assert await asked(HttpClient(), url) == body


@pytest.mark.parametrize("cut", [1, 7, 1_000_000])
async def test_status_and_reason_are_of_the_answer_itself_and_whole(cut: int) -> None:
    answers = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
    async with raw(*pieces(answers, cut)) as url:
        address = HttpAddress.of(url)
        answer = await HttpClient().ask(address, request_head("GET", address, {}))
        assert (answer.status, answer.reason) == (404, "Not Found")
        answer.close()


@pytest.mark.parametrize(
    ("method", "body", "length"), [("POST", b"", "0"), ("POST", b"{}", "2"), ("GET", b"", None), ("GET", b"{}", "2")]
)
async def test_the_length_of_a_body_is_told_where_one_may_be(method: str, body: bytes, length: str | None) -> None:
    async with serving(whole({})) as server:
        client = HttpClient()
        assert await asked(client, server.url, body, method=method) == b"{}"
        await client.aclose()
    assert (server.asked[0].headers.get("content-length"), server.asked[0].body) == (length, body)


async def test_the_answer_to_a_head_has_no_body_whatever_it_says_of_one() -> None:
    said = b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\ncontent-encoding: gzip\r\n\r\n"
    async with asyncio.timeout(10), serving([said, HOLD]) as server:
        assert await asked(HttpClient(), server.url, b"", method="HEAD") == b""
        await server.hung_up.wait()


@pytest.mark.parametrize(
    "endless", [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 300_000, b"HTTP/1.1 100 Continue\r\n\r\n" * 9_000]
)
async def test_a_head_without_an_end_is_given_up(endless: bytes) -> None:
    async with asyncio.timeout(10), serving([endless, HOLD]) as server:
        with pytest.raises(BadHttpAnswer, match="endless"):
            await asked(HttpClient(), server.url)


@pytest.mark.parametrize(
    "bytes_",
    [
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhi\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nnot gzip",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"hi" * 99, mtime=0)[:-9],
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000,
    ],
)
async def test_what_is_not_an_answer_is_an_error(bytes_: bytes) -> None:
    async with raw(bytes_) as url:
        with pytest.raises((BadHttpAnswer, ConnectionError)):
            await asked(HttpClient(), url)


@pytest.mark.parametrize("length", [0, 10, 60, 70])
async def test_an_answer_that_is_cut_off_is_an_error(length: int) -> None:
    whole_answer = b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\nx: y\r\n\r\n" + b"z" * 40
    async with raw(whole_answer[:length]) as url:
        with pytest.raises(ConnectionError, match="closed the connection"):
            await asked(HttpClient(), url)


async def test_a_service_that_speaks_without_being_asked_is_not_asked_again_on_that_line() -> None:
    twice = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhiHTTP/1.1 500 NO\r\ncontent-length: 2\r\n\r\nho"
    async with serving([twice], whole({})) as server:
        client = HttpClient()
        assert await asked(client, server.url) == b"hi"
        assert await asked(client, server.url) == b"{}"
        await client.aclose()
    assert server.connections == 2


async def test_a_connection_that_the_service_closed_is_not_used_again() -> None:
    async with serving(whole({}), whole({})) as server:
        client = HttpClient()
        for _ in range(2):
            assert await asked(client, server.url) == b"{}"
        await client.aclose()
        assert await asked(client, server.url) != b""
        await client.aclose()
    assert server.connections == 2


async def test_a_connection_is_closed_as_soon_as_the_other_end_says_so() -> None:
    connection = HttpConnection(None, None)
    connection.eof_received()
    assert connection.closed


async def test_closing_the_client_ends_what_waits() -> None:
    async with serving([HOLD]) as server:
        client = HttpClient()
        waiting = asyncio.create_task(asked(client, server.url))
        await server.holding.wait()
        await client.aclose()
        with pytest.raises(ConnectionAbortedError):
            await waiting


async def test_nothing_is_sent_where_nobody_listens() -> None:
    with pytest.raises(HttpNotConnected):
        await asked(HttpClient(), "http://127.0.0.1:1/")


async def test_a_proxy_leads_to_a_host_with_a_certificate() -> None:
    """The proxy sees where to, and nothing of what is said."""
    certificate = own_certificate()
    seen: list[bytes] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(65536):
            seen.append(chunk)
            writer.write(chunk)
        writer.close()

    async with serving(whole({"by": "goal"}), tls=certificate.server) as server:
        port = int(server.url.rpartition(":")[2])

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await reader.readuntil(b"\r\n\r\n"))
            goal_reader, goal_writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(pump(reader, goal_writer), pump(goal_reader, writer))

        proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with proxy:
            client = HttpClient(tls=certificate.client)
            address = f"http://me:word@127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
            assert await asked(client, f"{server.url}/v1", proxy=address) == b'{"by":"goal"}'
            await client.aclose()
    assert seen[0].startswith(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n".encode())
    assert b"proxy-authorization: Basic bWU6d29yZA==\r\n" in seen[0]
    assert b"goal" not in b"".join(seen)


async def test_a_proxy_that_refuses_is_not_a_connection() -> None:
    async with raw(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n") as proxy:
        with pytest.raises(HttpNotConnected, match="403 No"):
            await asked(HttpClient(tls=ssl.create_default_context()), "https://model.invalid/", proxy=proxy)


async def test_a_proxy_that_says_nothing_is_not_a_connection() -> None:
    async with serving([HOLD]) as proxy:
        with pytest.raises(HttpNotConnected, match="nothing came"):
            await asked(HttpClient(connect=None, silence=0.01), "https://model.invalid/", proxy=proxy.url)


@pytest.mark.parametrize(
    ("url", "target", "authority"),
    [
        ("http://h", "/", "h"),
        ("http://h:80/a", "/a", "h"),
        ("https://h:8443/a/b?c=d&e=%20", "/a/b?c=d&e=%20", "h:8443"),
        ("http://[::1]:81/ä b", "/%C3%A4%20b", "[::1]:81"),
        ("http://bücher.example/", "/", "xn--bcher-kva.example"),
    ],
)
def test_a_url_is_read(url: str, target: str, authority: str) -> None:
    address = HttpAddress.of(url)
    assert (address.target, address.authority) == (target, authority)


def test_a_login_is_read_without_its_percent_signs() -> None:
    assert HttpAddress.of("http://me:p%40ss%3A@h/").login == "me:p@ss:"
    assert HttpAddress.of("http://me@h/").login == "me:"
    assert HttpAddress.of("http://h/").login == ""


@pytest.mark.parametrize("url", ["ftp://h/", "h", "http://", "http:///x", "http://h:99999/"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        HttpAddress.of(url)


@pytest.mark.parametrize("headers", [{"a": "b\r\nc: d"}, {"a\n": "b"}, {"a": "b\0"}, {"": "x"}, {"a b": "c"}])
def test_a_header_cannot_end_itself(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="no header takes"):
        request_head("GET", HttpAddress.of("http://h/"), headers)


# ── any bytes ─────────────────────────────────────────────────────────────────────────

ANSWERS = (
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx: y\r\n\r\n",
    b"HTTP/1.0 404 Not Found\r\nconnection: close\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"hi", mtime=0),
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\n\r\n",
)


class Line(asyncio.Transport):
    """A transport that leads nowhere."""

    def write(self, data: object) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def abort(self) -> None: ...


async def made_of(parts: list[bytes]) -> tuple[int, str, bytes] | str:
    """Status, reason and body of what comes in these parts before the line is closed; or the name of the error."""
    connection = HttpConnection(None, None)
    connection.connection_made(Line())
    asking = asyncio.create_task(connection.ask(b"GET / HTTP/1.1\r\n\r\n", b""))
    await asyncio.sleep(0)
    for part in parts:
        if not connection.closed:
            connection.data_received(part)
    connection.eof_received()
    connection.connection_lost(None)
    try:
        await asking
        body = b""
        while chunk := await connection.read():
            body += chunk
    except (OSError, BadHttpAnswer) as error:
        return type(error).__name__
    return connection.status, connection.reason, body


@settings(max_examples=examples(300))
@given(st.data())
def test_any_bytes_are_an_answer_or_an_error_and_the_same_however_they_are_cut(data: st.DataObject) -> None:
    said = data.draw(st.sampled_from(ANSWERS)) + data.draw(st.sampled_from((b"", *ANSWERS)))
    at = data.draw(st.integers(0, len(said)))
    said = said[:at] + data.draw(st.binary(max_size=4)) + said[at + data.draw(st.integers(0, 4)) :]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(said)), max_size=6)))
    parts = [said[start:end] for start, end in zip([0, *cuts], [*cuts, len(said)], strict=True)]

    assert asyncio.run(made_of(parts)) == asyncio.run(made_of([said]))
