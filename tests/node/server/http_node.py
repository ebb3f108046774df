"""A node on a real socket with capabilities of every kind, and clients that say exactly what they are told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx2

from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.node.server.node import NodeFacts, NodeServer, ServerLimits
from handrail.node.server.serving import serve
from handrail.node.tokens.admission import TokenAdmission
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.signatures import Authenticator
from handrail.node.tokens.token import issue
from handrail.node.tokens.token_store import TokenStore
from tests.polling import until

CALL = "/bus/v1/call"
COUNTED = {"item": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}


class NodeCapabilities:
    """The capabilities of the scene, and what became of their calls."""

    def __init__(self) -> None:
        self.runs = 0
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.sent = 0
        self.heard: list[RouteRequest] = []

    async def say(self, request: RouteRequest) -> dict[str, Any]:
        self.runs += 1
        self.heard.append(request)
        return {"output": {"said": request.input.get("text", "")}}

    async def count(self, request: RouteRequest) -> dict[str, Any]:
        self.runs += 1
        for number in range(1, request.input.get("to", 3) + 1):
            await request.send("item", {"n": number})
            self.sent = number
            if number == request.input.get("stop_at"):
                await self._wait()
        return {"output": {}, "meta": {"counted": request.input.get("to", 3)}}

    async def hang(self, request: RouteRequest) -> dict[str, Any]:
        self.runs += 1
        await self._wait()
        return {"output": {"done": True}}

    async def fail(self, request: RouteRequest) -> dict[str, Any]:
        code = request.input.get("code", "internal_error")
        raise BusError(code, "as you wish", retry_after_ms=request.input.get("after"))

    async def _wait(self) -> None:
        self.started.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    def capabilities(self) -> Sequence[Any]:
        return [
            (CapabilityDescriptor(name="test.say"), self.say),
            (CapabilityDescriptor(name="test.write", side_effects=True, trust_required="anchor"), self.say),
            (CapabilityDescriptor(name="test.count", stream_schema=COUNTED, timeout_seconds=60), self.count),
            (CapabilityDescriptor(name="test.hang", timeout_seconds=60), self.hang),
            (CapabilityDescriptor(name="test.pay", timeout_seconds=60, side_effects=True), self.hang),
            (CapabilityDescriptor(name="test.fail"), self.fail),
        ]


class NodeFixture:
    """A node and those who may use it."""

    def __init__(self, *, limits: ServerLimits | None = None, **options: Any) -> None:
        self.works = NodeCapabilities()
        self.identity = Identity.from_seed(bytes(32))
        self.store = TokenStore()
        self.friend = Identity.from_seed(bytes([1]) * 32)
        admission = TokenAdmission(
            node_id=self.identity.node_id, store=self.store, directory={self.friend.node_id: "member"}
        )
        self.bus = CapabilityBus(node_id=self.identity.node_id, admission=admission)
        self.bus.register_service(self.works)
        self.server = NodeServer(
            bus=self.bus,
            node=NodeFacts(name="here", node_id=self.identity.node_id, community="us", version="1"),
            check=Authenticator(community="us", node_id=self.identity.node_id),
            identify=admission.identify,
            sign=self.identity.sign,
            limits=limits or ServerLimits(grace=0.2),
            **options,
        )
        self.token = self.token_for("*")

    def token_for(self, *capabilities: str) -> Secret:
        return issue(self.identity, self.store, Scope.of(capabilities))[1]


@asynccontextmanager
async def serving(scene: NodeFixture, **options: Any) -> AsyncIterator[str]:
    """Serve while the block runs; gives the address."""
    async with asyncio.timeout(250):
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve(scene.server, ready=address.set_result, **options))
        await asyncio.wait((task, address), return_when=asyncio.FIRST_COMPLETED)
        try:
            if task.done():
                task.result()
            yield address.result()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await scene.bus.aclose()


@asynccontextmanager
async def client(url: str, token: str | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=30) as http:
        yield http


async def ask(
    http: httpx2.AsyncClient, name: str, input: Mapping[str, Any] | None = None, **headers: str
) -> httpx2.Response:
    return await http.post(CALL, json={"input": dict(input or {})}, headers=call_headers(name, **headers))


def call_headers(name: str, **headers: str) -> dict[str, str]:
    """The headers of a call: `request_id="1"` is X-HearthNet-Request-Id."""
    return {
        "x-hearthnet-capability": name,
        **{f"x-hearthnet-{key.replace('_', '-')}": value for key, value in headers.items()},
    }


def events(text: str) -> list[dict[str, str]]:
    """The fields of each event of a stream; comments are left out."""
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    return [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks]


async def open_connection(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A bare connection."""
    return await asyncio.open_connection("127.0.0.1", httpx2.URL(url).port)


async def eventually(happens: Callable[[], bool]) -> None:
    """Wait for what has no event of its own."""
    await until(happens)
