"""The HTTP client against real sockets. What models need of it is in providers/test_transport.py."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from handrail.http import Address, BadAnswer, Client, NotConnected, head
from tests.providers.server import HOLD, own_certificate, serving, whole


async def asked(client: Client, url: str, body: bytes = b"{}", **more: str) -> bytes:
    address = Address.of(url)
    answer = await client.ask(address, head("POST", address, {"x": "1"}), body, **more)
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
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


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
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"hi" * 3_000_000), b"hi" * 3_000_000),
    ],
)
@pytest.mark.parametrize("cut", [1, 7, 1_000_000])
async def test_an_answer_is_read_however_it_is_framed_and_cut(bytes_: bytes, body: bytes, cut: int) -> None:
    cut = max(cut, len(bytes_) // 500)
    async with raw(*(bytes_[at : at + cut] for at in range(0, len(bytes_), cut))) as url:
        assert await asked(Client(), url) == body


@pytest.mark.parametrize(
    "bytes_",
    [
        b"SSH-2.0-OpenSSH_9\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhi\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nnot gzip",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"hi" * 99)[:-9],
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000,
    ],
)
async def test_what_is_not_an_answer_is_an_error(bytes_: bytes) -> None:
    async with raw(bytes_) as url:
        with pytest.raises((BadAnswer, ConnectionError)):
            await asked(Client(), url)


@pytest.mark.parametrize("length", [0, 10, 60, 70])
async def test_an_answer_that_is_cut_off_is_an_error(length: int) -> None:
    whole_answer = b"HTTP/1.1 200 OK\r\ncontent-length: 40\r\nx: y\r\n\r\n" + b"z" * 40
    async with raw(whole_answer[:length]) as url:
        with pytest.raises(ConnectionError, match="closed the connection"):
            await asked(Client(), url)


async def test_a_service_that_speaks_without_being_asked_is_not_asked_again_on_that_line() -> None:
    twice = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhiHTTP/1.1 500 NO\r\ncontent-length: 2\r\n\r\nho"
    async with serving([twice], whole({})) as server:
        client = Client()
        assert await asked(client, server.url) == b"hi"
        assert await asked(client, server.url) == b"{}"
        await client.aclose()
    assert server.connections == 2


async def test_a_connection_that_the_service_closed_is_not_used_again() -> None:
    async with serving(whole({}), whole({})) as server:
        client = Client()
        for _ in range(2):
            assert await asked(client, server.url) == b"{}"
        await client.aclose()
        assert await asked(client, server.url) != b""
        await client.aclose()
    assert server.connections == 2


async def test_closing_the_client_ends_what_waits() -> None:
    async with serving([HOLD]) as server:
        client = Client()
        waiting = asyncio.create_task(asked(client, server.url))
        await server.holding.wait()
        await client.aclose()
        with pytest.raises(ConnectionAbortedError):
            await waiting


async def test_nothing_is_sent_where_nobody_listens() -> None:
    with pytest.raises(NotConnected):
        await asked(Client(), "http://127.0.0.1:1/")


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
            client = Client(tls=certificate.client)
            address = f"http://me:word@127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
            assert await asked(client, f"{server.url}/v1", proxy=address) == b'{"by":"goal"}'
            await client.aclose()
    assert seen[0].startswith(f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n".encode())
    assert b"proxy-authorization: Basic bWU6d29yZA==\r\n" in seen[0]
    assert b"goal" not in b"".join(seen)


async def test_a_proxy_that_refuses_is_not_a_connection() -> None:
    async with raw(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n") as proxy:
        with pytest.raises(NotConnected, match="403 No"):
            await asked(Client(tls=ssl.create_default_context()), "https://model.invalid/", proxy=proxy)


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
    address = Address.of(url)
    assert (address.target, address.authority) == (target, authority)


@pytest.mark.parametrize("url", ["ftp://h/", "h", "http://", "http:///x", "http://h:99999/"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        Address.of(url)


@pytest.mark.parametrize("headers", [{"a": "b\r\nc: d"}, {"a\n": "b"}, {"a": "b\0"}, {"": "x"}, {"a b": "c"}])
def test_a_header_cannot_end_itself(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="no header takes"):
        head("GET", Address.of("http://h/"), headers)
