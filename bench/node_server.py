"""Two servers that stream the same frames: a node of handrail, and a bare Starlette endpoint. For `bench_node.py`.

Run: python bench/node_server.py ours|bare; prints its port.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from handrail import CapabilityBus
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.server.node import NodeServer
from handrail.node.server.serving import serve

TOKEN = {"token": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}}
WORDS = [f"word{number} " for number in range(100)]


async def tokens(request: RouteRequest) -> dict[str, Any]:
    for number in range(request.input["count"]):
        await request.send("token", {"text": WORDS[number % 100]})
    return {"output": {}}


async def ours() -> None:
    bus = CapabilityBus()
    descriptor = CapabilityDescriptor(name="bench.tokens", stream_schema=TOKEN, timeout_seconds=600, max_concurrent=100)
    bus.register(descriptor, tokens)
    server = NodeServer(bus=bus, token_required=False)
    await serve(server, ready=lambda url: print(url.rpartition(":")[2], flush=True))


async def bare() -> None:
    async def endpoint(request: Request) -> StreamingResponse:
        count = (await request.json())["input"]["count"]

        async def frames() -> AsyncIterator[str]:
            for number in range(count):
                data = json.dumps({"text": WORDS[number % 100]}, separators=(",", ":"))
                yield f"event: token\nid: {number + 1}\ndata: {data}\n\n"
            yield f"event: done\nid: {count + 1}\ndata: {{}}\n\n"

        return StreamingResponse(frames(), media_type="text/event-stream")

    app = Starlette(routes=[Route("/bus/v1/call", endpoint, methods=["POST"])])
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(listener.getsockname()[1], flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False)).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run({"ours": ours, "bare": bare}[sys.argv[1]]())
