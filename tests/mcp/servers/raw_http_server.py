"""A server over HTTP that does whatever a test wants of it, in the loop of the test: real sockets, no library.

Tools are named after what they do, as in `raw.py`.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
JSON = "application/json"
EVENTS = "text/event-stream"


class ConnectionAborted(Exception):
    """The connection is cut off without another word."""


@dataclass
class RawHttpServer:
    modern: bool
    sessions: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    server: asyncio.Server | None = None
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def start(self) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)
        self.port = self.server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        """As if the process were killed: every connection breaks, and no session is remembered."""
        assert self.server is not None
        self.server.close()
        self.sessions.clear()
        serving = list(self.tasks)
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving)
        await self.server.wait_closed()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            while True:
                method, headers, body = await read_request(reader)
                self.headers.append(headers)
                await self.handle(method, headers, body, writer)
        except (ConnectionAborted, asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()
        finally:
            self.tasks.discard(task)

    async def handle(self, method: str, headers: dict[str, str], body: bytes, writer: asyncio.StreamWriter) -> None:
        session = headers.get("mcp-session-id")
        if session is not None and session not in self.sessions:
            return await send(writer, 404, JSON, error(None, -32001, "Session not found"))
        if method != "POST":
            return await send(writer, 405, "text/plain", b"no")
        message = json.loads(body)
        self.heard.append(message.get("method", "answer"))
        if "id" not in message or "method" not in message:
            return await send(writer, 202, JSON, b"")
        await self.hear(message["method"], message["id"], message.get("params") or {}, writer)

    async def hear(self, method: str, id: Any, params: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        abilities = {"tools": {"listChanged": False}}
        match method:
            case "server/discover" if self.modern:
                found = {"supportedVersions": [MODERN], "capabilities": abilities, "ttlMs": 0, "cacheScope": "private"}
                await send(writer, 200, JSON, self.result(id, found))
            case "initialize" if not self.modern:
                session = f"session-{len(self.heard)}"
                self.sessions.add(session)
                info = {"name": "web", "version": "1"}
                found = {"protocolVersion": LEGACY, "capabilities": abilities, "serverInfo": info}
                await send(writer, 200, JSON, self.result(id, found), {"mcp-session-id": session})
            case "tools/call":
                self.calls.append(params["name"])
                await getattr(self, params["name"])(id, params.get("arguments") or {}, writer)
            case _:
                await send(writer, 400, JSON, error(id, -32601, f"no {method}"))

    def result(self, id: Any, result: dict[str, Any]) -> bytes:
        kind = {"resultType": "complete"} if self.modern else {}
        return json.dumps({"jsonrpc": "2.0", "id": id, "result": {**kind, **result}}).encode()

    def text(self, id: Any, text: str) -> bytes:
        return self.result(id, {"content": [{"type": "text", "text": text}]})

    # ── what it does ─────────────────────────────────────────────────────────────────

    async def echo(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await send(writer, 200, JSON, self.text(id, json.dumps(given)))

    async def silent(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await asyncio.get_running_loop().create_future()

    async def abort(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        raise ConnectionAborted

    async def abort_once(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if self.calls.count("abort_once") == 1:
            raise ConnectionAborted
        await send(writer, 200, JSON, self.text(id, "alive"))

    async def half_a_body(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        whole = self.text(id, "x" * 1000)
        writer.write(head(200, JSON, {"content-length": str(len(whole))}) + whole[:100])
        await writer.drain()
        raise ConnectionAborted

    async def half_a_stream(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, EVENTS, {"connection": "close"}) + b"event: message\ndata: {")
        await writer.drain()
        raise ConnectionAborted

    async def events(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, EVENTS, {"connection": "close"}) + b"event: message\ndata: ")
        writer.write(self.text(id, "x" * given["size"]) + b"\n\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        raise ConnectionAborted

    async def html(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await send(writer, 200, "text/html", b"<html><h1>Please sign in to the guest network</h1></html>")

    async def status(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await send(writer, given["status"], "text/plain", b"the words of a gateway")

    async def elsewhere(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await send(writer, 307, JSON, b"", {"location": given["to"]})

    async def big(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        await send(writer, 200, JSON, self.text(id, "x" * given["size"]))

    async def endless(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, given["kind"], {"connection": "close"}) + given["first"].encode())
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async def bomb(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        packed = gzip.compress(b" " * 50_000_000, 9)
        await send(writer, 200, JSON, packed, {"content-encoding": "gzip"})

    async def say(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Whatever it was given, with its `ID` filled in."""
        body, kind = given["body"].replace("ID", json.dumps(id)).encode(), given.get("kind", JSON)
        await send(writer, given.get("status", 200), kind, b"data: " + body + b"\n\n" if kind == EVENTS else body)

    async def forget(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        """Forgets the session, in the words of many servers, when it is asked for the first time."""
        if self.calls.count("forget") == 1:
            return await send(writer, 400, JSON, error(None, -32000, "Bad Request: No valid session ID provided"))
        await send(writer, 200, JSON, self.text(id, "alive"))

    async def plain(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        body = self.text(id, "plain").replace(b'"resultType": "complete", ', b"")
        await send(writer, 200, JSON, body)

    async def half(self, id: Any, given: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        body = self.text(id, "aHALFb").replace(b"HALF", b"\\ud83d")
        await send(writer, 200, JSON, body)


@asynccontextmanager
async def served(modern: bool = True) -> AsyncIterator[RawHttpServer]:
    web = RawHttpServer(modern)
    await web.start()
    try:
        yield web
    finally:
        await web.kill()


async def read_request(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return lines[0].split()[0], headers, body


def head(status: int, kind: str, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def send(
    writer: asyncio.StreamWriter, status: int, kind: str, body: bytes, headers: dict[str, str] | None = None
) -> None:
    writer.write(head(status, kind, {"content-length": str(len(body)), **(headers or {})}) + body)
    await writer.drain()


def error(id: Any, code: int, message: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).encode()
