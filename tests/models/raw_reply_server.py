"""A service on this machine that says exactly the bytes a test wrote, and then what it was told to do with the line.

It speaks just enough HTTP to be asked. Every reply is a list of pieces: bytes that
are sent at once, `CUT` to drop the connection there, `HOLD` to wait until the client hangs up, an `asyncio.Event` to
wait until the test sets it.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class ConnectionAct(Enum):
    CUT = "cut"
    HOLD = "hold"


CUT, HOLD = ConnectionAct.CUT, ConnectionAct.HOLD
Reply = Sequence[bytes | ConnectionAct | asyncio.Event]


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request as it came in."""

    path: str
    headers: dict[str, str]
    body: bytes
    method: str = "POST"

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


@dataclass(slots=True)
class RawReplyServer:
    replies: list[Reply]
    url: str = ""
    asked: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    """The client closed a connection that was held."""
    holding: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.add(asyncio.ensure_future(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (asked := await _read(reader)) is not None:
                self.asked.append(asked)
                reply = self.replies.pop(0) if self.replies else whole(b"the script is over", status=500)
                if not await self._say(reply, reader, writer):
                    return
        except ConnectionError:
            self.hung_up.set()
        finally:
            writer.close()

    async def _say(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection goes on."""
        for piece in reply:
            match piece:
                case bytes():
                    writer.write(piece)
                    await writer.drain()
                case asyncio.Event():
                    await piece.wait()
                case ConnectionAct.CUT:
                    return False
                case ConnectionAct.HOLD:
                    self.holding.set()
                    await reader.read(1)
                    self.hung_up.set()
                    return False
        return True


async def _read(reader: asyncio.StreamReader) -> ReceivedRequest | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    method, path, _ = first.split(" ")
    return ReceivedRequest(path, headers, body, method)


@asynccontextmanager
async def serving(
    *replies: Reply, unix_socket: str | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawReplyServer]:
    server = RawReplyServer(list(replies))
    if unix_socket is None:
        listener = await asyncio.start_server(server.connected, "127.0.0.1", 0, ssl=tls)
        server.url = f"{'https' if tls else 'http'}://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    else:
        listener = await asyncio.start_unix_server(server.connected, unix_socket)
        server.url = "http://localhost"
    try:
        yield server
    finally:
        listener.close()
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)
        await listener.wait_closed()


def head(status: int = 200, kind: str | None = "text/event-stream", **headers: str) -> bytes:
    """The head of a reply; `retry_after="1"` is the header `retry-after: 1`."""
    named = {} if kind is None else {"content-type": kind}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode()


def whole(
    body: bytes | Any = b"", *, status: int = 200, kind: str | None = "application/json", **headers: str
) -> Reply:
    """A reply with its length; anything but bytes is sent as JSON."""
    body = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return [head(status, kind, content_length=str(len(body)), **headers), body]


def streamed(
    *pieces: bytes | ConnectionAct | asyncio.Event, kind: str | None = "text/event-stream", **headers: str
) -> Reply:
    """A reply in chunks; ended properly unless the last piece says otherwise."""
    # An empty chunk is the end of all.
    chunks = [_chunk(piece) if isinstance(piece, bytes) else piece for piece in pieces if piece]
    ends = [] if pieces and isinstance(pieces[-1], ConnectionAct) else [b"0\r\n\r\n"]
    return [head(200, kind, transfer_encoding="chunked", **headers), *chunks, *ends]


def until_closed(*pieces: bytes, kind: str | None = "text/event-stream") -> Reply:
    """A reply that ends when the connection does, so that a cut cannot be told from an end."""
    return [head(200, kind, connection="close"), *pieces, CUT]


def sse(*values: Any) -> bytes:
    """Events of OpenAI's kind; bytes go as they are."""
    texts = (value if isinstance(value, bytes) else msgspec.json.encode(value) for value in values)
    return b"".join(b"data: " + text + b"\n\n" for text in texts)


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


class Certificate(NamedTuple):
    server: ssl.SSLContext
    client: ssl.SSLContext
    """Trusts the server, and nobody else."""


def own_certificate(*hosts: str) -> Certificate:
    """For 127.0.0.1 and these hosts, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "handrail test")])
    here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([here, *map(x509.DNSName, hosts)]), False)
        .sign(key, hashes.SHA256())
    )
    public = made.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.NamedTemporaryFile() as file:
        file.write(private + public)
        file.flush()
        server.load_cert_chain(file.name)
    return Certificate(server, ssl.create_default_context(cadata=public.decode()))
