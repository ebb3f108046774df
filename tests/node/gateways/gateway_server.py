"""A gateway on a real socket, the official clients that speak to it, and models that say what a test wrote."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import uvicorn
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI
from starlette.applications import Starlette
from starlette.requests import Request

from handrail import Executor, tool
from handrail.core.context import Principal
from handrail.core.errors import BusError, UsageError
from handrail.core.events import ModelEvent, ReplyFinished
from handrail.core.messages import Usage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.core.redact import Secret
from handrail.node.bus.request import Caller
from handrail.node.gateways.gateway import Gateway, GatewayModel

KEY = "hntoken://v1/a.b.c"
ALICE = Caller(principal=Principal("alice"), trust="member")


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(side_effects=True)
async def post(words: str) -> str:
    """Put something on the wall."""
    return f"posted: {words}"


def finished(stop: Any = "end", read: int = 10, written: int = 3, **more: int) -> ReplyFinished:
    return ReplyFinished(stop=stop, model="m", usage=Usage(input_tokens=read, output_tokens=written, **more))


async def caller_by_bearer_token(request: Request) -> tuple[Caller, Secret | None]:
    """A door that knows two tokens."""
    said = request.headers.get("authorization", "").removeprefix("Bearer ") or request.headers.get("x-api-key", "")
    match said:
        case "hntoken://v1/a.b.c":
            return ALICE, Secret(said)
        case "bob":
            return Caller(principal=Principal("bob"), trust="member"), Secret(said)
        case "narrow":
            scopes = ("llm.chat@2.0", "add")
            return Caller(principal=Principal("narrow", scopes), trust="member"), Secret(said)
        case "nothing":
            return Caller(principal=Principal("nothing", ("rag.query@1.0",)), trust="member"), Secret(said)
    raise BusError("token_invalid", "that token is not known here", outcome="forbidden")


def gateway_of(model: Model, executor: Executor, **more: Any) -> Gateway:
    def models(name: str | None) -> GatewayModel:
        if name not in (None, "m"):
            raise UsageError(f"there is no model {name!r} here")
        return GatewayModel(name="m", model=model)

    return Gateway(
        **{"models": models, "names": lambda: ["m"], "executor": executor, "caller_of": caller_by_bearer_token, **more}
    )


class ServedGateway:
    """Where a gateway listens. The clients of its own loop are closed with it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clients: list[AsyncOpenAI | AsyncAnthropic] = []

    def openai(self, key: str = KEY) -> AsyncOpenAI:
        client = AsyncOpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=20)
        self.clients.append(client)
        return client

    def openai_sync(self) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=KEY, max_retries=0, timeout=20)

    def anthropic(self, key: str = KEY) -> AsyncAnthropic:
        client = AsyncAnthropic(base_url=self.url, api_key=key, max_retries=0, timeout=20)
        self.clients.append(client)
        return client

    def anthropic_sync(self) -> Anthropic:
        return Anthropic(base_url=self.url, api_key=KEY, max_retries=0, timeout=20)

    def http(self, key: str = KEY) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, headers={"authorization": f"Bearer {key}"}, timeout=20)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()


@asynccontextmanager
async def served(gateway: Gateway) -> AsyncIterator[ServedGateway]:
    app = Starlette(routes=gateway.routes())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer waits 40 ms for an ACK
        config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=5)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup(sockets=[listener])  # without its loop, which looks only ten times a second
        there = ServedGateway(f"http://127.0.0.1:{listener.getsockname()[1]}")
        try:
            yield there
        finally:
            await there.close()
            await server.shutdown(sockets=[listener])


@asynccontextmanager
async def scene(model: Model, tools: Sequence[Any] = (add, post), **more: Any) -> AsyncIterator[ServedGateway]:
    given = {key: more.pop(key) for key in ("journal", "approver", "policy") if key in more}
    async with Executor(tools, **given) as executor, served(gateway_of(model, executor, **more)) as there:
        yield there


class HeldModel:
    """A model that says something and then waits until it is told to go on; it knows when it was let go of."""

    name = "m"

    def __init__(self, *first: ModelEvent) -> None:
        self.first = first
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        self.dropped = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        try:
            for event in self.first:
                yield event
            self.reached.set()
            await self.go_on.wait()
            yield finished()
        except asyncio.CancelledError:
            self.dropped.set()
            raise
