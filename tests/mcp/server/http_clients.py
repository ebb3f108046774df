"""A handrail server on a real socket, and a client that says exactly what it is told to, over plain HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import httpx2

from handrail.mcp.server.definition import McpServerDefinition
from handrail.mcp.server.http import serve_http

MODERN = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
ALL: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}, "extensions": {TASKS: {}}}
ACCEPT = "application/json, text/event-stream"


@asynccontextmanager
async def serving(served: McpServerDefinition, **options: Any) -> AsyncIterator[str]:
    """Serve while the block runs; gives the address."""
    async with asyncio.timeout(60):
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve_http(served, ready=address.set_result, **options))
        await asyncio.wait((task, address), return_when=asyncio.FIRST_COMPLETED)
        try:
            if task.done():
                task.result()
            yield address.result()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


class ModernHttpClient:
    """A modern client without an opinion."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        self.url = url
        self._ids = count(1)
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self.http = httpx2.AsyncClient(timeout=30)

    async def __aenter__(self) -> ModernHttpClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.http.aclose()

    async def send(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        able: Mapping[str, Any] = ALL,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        body, fields = self.request(method, params or {}, able)
        return await self.http.post(self.url, json=body, headers={**fields, **(headers or {})})

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """The JSON-RPC response, whichever way it came."""
        return read(await self.send(method, params, **options))

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """The result of a call; `more` goes into its params."""
        more = options.pop("more", {})
        said = await self.ask("tools/call", {"name": name, "arguments": dict(arguments or {}), **more}, **options)
        assert "result" in said, said
        result: dict[str, Any] = said["result"]
        return result

    def request(
        self, method: str, params: Mapping[str, Any], able: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, str]]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": dict(able),
            **params.get("_meta", {}),
        }
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": {**params, "_meta": meta}}
        fields = {"accept": ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": method, **self._headers}
        name = params.get("name") or params.get("uri") or params.get("taskId")
        return body, {**fields, "mcp-name": name} if name else fields


class HandshakeHttpClient:
    """A client of the handshake era without an opinion."""

    def __init__(self, url: str, *, token: str | None = None) -> None:
        self.url = url
        self.session = ""
        self._headers = {"accept": ACCEPT, **({"authorization": f"Bearer {token}"} if token else {})}
        self.http = httpx2.AsyncClient(timeout=30)

    async def __aenter__(self) -> HandshakeHttpClient:
        about = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        response = await self.http.post(self.url, json=rpc("initialize", about), headers=self._headers)
        self.session = response.headers["mcp-session-id"]
        notice = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self.http.post(self.url, json=notice, headers=self.headers)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.http.aclose()

    @property
    def headers(self) -> dict[str, str]:
        return {**self._headers, "mcp-session-id": self.session, "mcp-protocol-version": "2025-11-25"}

    async def send(self, method: str, params: Mapping[str, Any], id: int = 2) -> httpx2.Response:
        return await self.http.post(self.url, json=rpc(method, params, id), headers=self.headers)


def rpc(method: str, params: Mapping[str, Any], id: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def messages(text: str) -> list[dict[str, Any]]:
    """What a stream of events carried."""
    lines = [line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line]


def read(response: httpx2.Response) -> dict[str, Any]:
    if response.headers["content-type"].startswith("text/event-stream"):
        return next(each for each in messages(response.text) if "id" in each and "method" not in each)
    said: dict[str, Any] = response.json()
    return said


def words(result: Mapping[str, Any]) -> str:
    return "\n".join(block.get("text", "") for block in result["content"])
