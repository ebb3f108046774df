"""A client that vanishes at any frame, without a word, leaves nothing behind: no call, no task, no tool."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection

from handrail import CapabilityBus
from handrail.core.events import CallDelta, ModelEvent, ReplyFinished, TextDelta
from handrail.core.model_request import ModelRequest
from handrail.node.services.llm import LlmService
from handrail.testing.model import call as called
from tests.node.bus.scripted_models import results
from tests.node.http.loopback_node import ServerLimits, served
from tests.node.server.http_node import eventually
from tests.node.server.websocket_client import receive_message, reset_connection, send_message, socket_to

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOOL = {"name": "add", "description": "Add.", "parameters_schema": {"type": "object"}}
BODY: dict[str, Any] = {
    "params": {"model": "m"},
    "input": {"messages": [{"role": "user", "content": "?"}], "tools": [TOOL]},
}
FRAMES = 15
"""Before `done`, over a socket: a turn with two calls, one with one, and an answer."""


class Chatty:
    """Calls tools until it has been told enough, speaks in pieces, and takes a breath before its last word."""

    def __init__(self) -> None:
        self.name = "m"
        self.speaking = 0
        self.go = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.speaking += 1
        try:
            told = len(results(request))
            for word in ("Let", " me", " see"):
                yield TextDelta(text=word)
            for number in range({0: 2, 2: 1}.get(told, 0)):
                yield CallDelta(call_id=f"tc_{told + number}", name="add", arguments="{}")
                yield called("add", f"tc_{told + number}")
            if told == 3:
                await self.go.wait()
            yield ReplyFinished(stop="tool_calls" if told < 3 else "end")
        finally:
            self.speaking -= 1


class Scene:
    def __init__(self, url: str, node: CapabilityBus, model: Chatty) -> None:
        self.url, self.node, self.model = url, node, model

    async def settled(self, before: set[asyncio.Task[Any]]) -> None:
        """Wait until nothing is left that was not there before."""
        async with asyncio.timeout(20):
            while left := [task for task in asyncio.all_tasks() - before if not task.done()]:
                await asyncio.wait(left)
        assert (self.node.under_way, self.model.speaking) == (0, 0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene() -> AsyncIterator[Scene]:
    model = Chatty()
    async with CapabilityBus() as node:
        node.register_service(LlmService({"m": model}))
        limits = ServerLimits(linger=0.02, kept_seconds=0.01, grace=0.2)
        async with served(node, limits=limits) as url:
            yield Scene(url, node, model)


@pytest.mark.requirement("hearthnet.websocket")
@pytest.mark.parametrize("after", range(FRAMES + 1))
async def test_a_client_on_a_socket_that_vanishes_leaves_nothing_running(scene: Scene, after: int) -> None:
    before = asyncio.all_tasks()
    async with socket_to(scene.url) as client:
        await _heard(client, after)
        reset_connection(client)
    await scene.settled(before)


@pytest.mark.requirement("hearthnet.sse")
@pytest.mark.parametrize("after", range(8))
async def test_a_client_of_events_that_vanishes_leaves_nothing_running(scene: Scene, after: int) -> None:
    before = asyncio.all_tasks()
    told = [{"role": "assistant", "content": "", "tool_calls": [_call(n) for n in range(3)]}]
    told += [{"role": "tool", "tool_call_id": f"tc_{n}", "content": "3"} for n in range(3)]
    messages = [*BODY["input"]["messages"], *(told if after < 4 else [])]
    body = {**BODY, "input": {**BODY["input"], "messages": messages}}
    reader, writer = await _asked(scene.url, body)
    await _read(reader, after)
    _reset(writer)
    await scene.settled(before)


@pytest.mark.requirement("hearthnet.websocket", "hearthnet.sse")
async def test_a_second_after_its_client_vanished_nothing_runs_by_default() -> None:
    """All of them at once: at the start, in mid-turn, after the last word that was heard."""
    model = Chatty()
    async with CapabilityBus() as node, AsyncExitStack() as clients:
        node.register_service(LlmService({"m": model}))
        async with served(node, limits=ServerLimits()) as url:
            before = asyncio.all_tasks()
            sockets = [await clients.enter_async_context(socket_to(url)) for _ in range(4)]
            for client, after in zip(sockets, (0, 1, 7, FRAMES), strict=True):
                await _heard(client, after)
            streams = [await _asked(url, BODY) for _ in range(3)]
            for (reader, _), after in zip(streams, (0, 1, 4), strict=True):
                await _read(reader, after)
            for client in sockets:
                reset_connection(client)
            for _, writer in streams:
                _reset(writer)
            assert ServerLimits().linger < 1
            await eventually(lambda: (node.under_way, model.speaking) == (0, 0))
            await eventually(lambda: not [task for task in asyncio.all_tasks() - before if not task.done()])


def _call(number: int) -> dict[str, Any]:
    return {"id": f"tc_{number}", "name": "add", "arguments": {}}


async def _heard(client: ClientConnection, frames: int) -> None:
    """Call, and hear so many frames, answering the calls among them."""
    await send_message(client, {"type": "call", "envelope": {"capability": "llm.chat", "version": "2.0", "body": BODY}})
    for _ in range(frames):
        frame = await receive_message(client)
        assert frame["event"] not in ("done", "error")
        if frame["event"] == "tool_call":
            await send_message(client, {"type": "tool_result", "tool_call_id": frame["data"]["id"], "body": "3"})


async def _read(reader: asyncio.StreamReader, blocks: int) -> None:
    """The head, and then so many events but one."""
    for _ in range(blocks):
        while (line := await asyncio.wait_for(reader.readline(), 20)).strip():
            assert line


async def _asked(url: str, body: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    raw = json.dumps({"capability": "llm.chat", "version": "2.0", "body": body}).encode()
    head = f"POST /bus/v1/call HTTP/1.1\r\nhost: {host}\r\naccept: text/event-stream\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n".encode() + raw)
    return reader, writer


def _reset(writer: asyncio.StreamWriter) -> None:
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def test_a_socket_that_is_opened_and_says_nothing_leaves_nothing_when_it_vanishes(scene: Scene) -> None:
    before = asyncio.all_tasks()
    async with socket_to(scene.url) as client:
        reset_connection(client)
    await scene.settled(before)


async def test_the_chat_that_is_cut_in_these_tests_has_an_end_when_nobody_cuts_it(scene: Scene) -> None:
    scene.model.go.set()
    events: list[str] = []
    async with socket_to(scene.url) as client:
        await send_message(
            client, {"type": "call", "envelope": {"capability": "llm.chat", "version": "2.0", "body": BODY}}
        )
        while not events or events[-1] != "done":
            frame = await receive_message(client)
            events.append(frame["event"])
            if frame["event"] == "tool_call":
                await send_message(client, {"type": "tool_result", "tool_call_id": frame["data"]["id"], "body": "3"})
    scene.model.go.clear()
    assert len(events) == FRAMES + 1
    assert events.count("tool_call") == 3
