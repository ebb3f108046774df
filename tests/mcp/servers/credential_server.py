"""A server on the SDK, over HTTP in the loop of the test, that notes with which credential each call came."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

from handrail.http.uvicorn_server import UvicornServer, stop_uvicorn, uvicorn_config

TEXT = b"content-type", b"text/plain"


class CredentialServer:
    """`look` only reads; `pay` changes something; `meet` waits for the test, and says when so many are there."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[tuple[str, str, str]] = []
        """Tool, credential and text of each."""
        self.connections: list[str] = []
        """The credential of every request that began something: a discovery or a handshake."""
        self.requests: list[str] = []
        """The credential of every request."""
        self.refused: set[str] = set()
        self.refusal = 401
        self.cut: set[str] = set()
        """Credentials whose calls break off in the middle of their answer."""
        self.changed: set[str] = set()
        """Credentials for which `look` is described in other words."""
        self.met = asyncio.Event()
        self.together = asyncio.Event()
        self._meeting = 0
        self._usual = self._server("Look something up.")
        self._other = self._server("Look something up, and tell everybody.")

    def _server(self, description: str) -> MCPServer:
        server = MCPServer("credentials")

        @server.tool(description=description, annotations=ToolAnnotations(read_only_hint=True))
        def look(text: str, context: Context[Any]) -> str:
            return self._noted("look", text, context)

        @server.tool(description="Pay somebody.")
        def pay(text: str, context: Context[Any]) -> str:
            return self._noted("pay", text, context)

        @server.tool(description="Wait for others.", annotations=ToolAnnotations(read_only_hint=True))
        async def meet(text: str, people: int, context: Context[Any]) -> str:
            self._meeting += 1
            if self._meeting == people:
                self.met.set()
            await self.together.wait()
            return self._noted("meet", text, context)

        @server.resource("secret://balance")
        def balance() -> str:
            return "the shared balance"

        return server

    def _noted(self, tool: str, text: str, context: Context[Any]) -> str:
        said = credential(dict(context.headers or {}))
        self.calls.append((tool, said, text))
        return f"{text} for {said.rpartition('-')[0]}"

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        said = credential(headers)
        self.requests.append(said)
        if headers.get("mcp-method", "server/discover") == "server/discover":
            self.connections.append(said)
        if said in self.refused:
            await send({"type": "http.response.start", "status": self.refusal, "headers": [TEXT]})
            await send({"type": "http.response.body", "body": f"{said} has expired".encode()})
            return
        if said in self.cut and headers.get("mcp-method") == "tools/call":
            await send({"type": "http.response.start", "status": 200, "headers": [TEXT, (b"content-length", b"100")]})
            await send({"type": "http.response.body", "body": b"{", "more_body": True})
            return
        app = self._changed_app if said in self.changed else self._usual_app
        await app(scope, receive, send)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[CredentialServer]:
        self._usual_app = self._usual.streamable_http_app(host="127.0.0.1")
        self._changed_app = self._other.streamable_http_app(host="127.0.0.1")
        with socket.create_server(("127.0.0.1", 0)) as door:
            self.url = f"http://127.0.0.1:{door.getsockname()[1]}/mcp"
            up = asyncio.Event()
            web = UvicornServer(
                uvicorn_config(self._app, head_seconds=10, connections=100, grace=1, interface="asgi3"), up.set
            )
            async with self._usual.session_manager.run(), self._other.session_manager.run():
                serving = asyncio.create_task(web.serve(sockets=[door]))
                await up.wait()
                try:
                    yield self
                finally:
                    with suppress(asyncio.CancelledError):
                        await stop_uvicorn(web, serving, 2)


def credential(headers: dict[str, str]) -> str:
    return headers.get("authorization", "").removeprefix("Bearer ")
