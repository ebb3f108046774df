"""What MCP clients send to our server: lines over pipes, requests over HTTP, states from earlier rounds.

The laws: whatever came before, the next good request is answered, once, and the server ends in order;
nobody gets in who goes by the wrong name or brings no token; and no side effect runs that nobody allowed.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st

from fuzz.law import Target
from fuzz.mutate import WRONG, data, texts, values
from handrail.core.invocation import Invocation
from handrail.http.request_guard import (
    AccessKeys,
    AccessMiddleware,
    AccessRequirements,
    BodyLimitMiddleware,
    Message,
    Receive,
    Scope,
    Send,
    header,
    refuse_with_text,
)
from handrail.mcp.server.deciders import CallAwaitingConfirmation, CallAwaitingInput
from handrail.mcp.server.definition import PromptArgument, PromptMessage, ServedPrompt
from handrail.mcp.server.stdio import StdioWire
from handrail.mcp.values import RemoteResource, ResourceBody
from handrail.tools.tool import Tool, tool
from tests.mcp.server.server_setup import scene

SECONDS = 20.0
MODERN = "2026-07-28"
LAST = "the last one"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}


# ── over pipes ───────────────────────────────────────────────────────────────────────

DONE: list[str] = []
"""What the tool with a side effect was called with."""


@tool
def echo(text: str, times: int = 1) -> dict[str, Any]:
    """Say it again."""
    return {"said": text * min(times, 9)}


@tool(side_effects=True)
def put(thing: str) -> str:
    """Put a thing somewhere."""
    DONE.append(thing)
    return "done"


@tool(tags=("long",))
async def slow(text: str) -> str:
    """Say it later."""
    await asyncio.sleep(0)
    return text


async def count(invocation: Invocation) -> str:
    """Say how far it is."""
    invocation.progress(1, 2, "half")
    return "2"


class _Shelf:
    async def list(self) -> Sequence[RemoteResource]:
        return [RemoteResource(uri="shelf://1", name="one"), RemoteResource(uri="shelf://{n}", template=True, name="n")]

    async def read(self, uri: str) -> Sequence[ResourceBody] | None:
        return [ResourceBody(uri=uri, text="x")] if uri.startswith("shelf://") else None


async def _greeting(arguments: Any) -> list[PromptMessage]:
    return [PromptMessage(f"Greet {arguments['who']}.")]


GREET = ServedPrompt(name="greet", render=_greeting, arguments=(PromptArgument("who", required=True),))


def _request(id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


HANDSHAKE = [
    _request(
        0,
        "initialize",
        protocolVersion="2025-11-25",
        capabilities={"elicitation": {}},
        clientInfo={"name": "x", "version": "1"},
    ),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
]
ASKED: list[dict[str, Any]] = [
    _request(1, "tools/list"),
    _request(2, "tools/call", name="echo", arguments={"text": "é", "times": 2}),
    _request(3, "tools/call", name="put", arguments={"thing": "pen"}),
    _request(4, "tools/call", name="count", arguments={}, _meta={"progressToken": 9}),
    _request(5, "tools/call", name="slow", arguments={"text": "x"}),
    _request(6, "resources/read", uri="shelf://1"),
    _request(7, "resources/subscribe", uri="shelf://1"),
    _request(8, "prompts/get", name="greet", arguments={"who": "Ada"}),
    _request(
        9, "completion/complete", ref={"type": "ref/prompt", "name": "greet"}, argument={"name": "who", "value": ""}
    ),
    _request(10, "tools/call", name="put", arguments={"thing": "x"}, requestState="x", inputResponses={"a": {}}),
    _request(11, "tasks/get", taskId="x"),
    _request(12, "logging/setLevel", level="info"),
    _request(13, "server/discover"),
    _request(14, "subscriptions/listen", notifications={"toolsListChanged": True}),
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}},
    {"jsonrpc": "2.0", "id": 0, "result": {"action": "decline"}},
    {"jsonrpc": "2.0", "id": 0, "error": {"code": -1, "message": "no"}},
]


def _modern(message: dict[str, Any]) -> dict[str, Any]:
    params = message.get("params", {})
    return (
        {**message, "params": {**params, "_meta": {**META, **params.get("_meta", {})}}}
        if "method" in message
        else message
    )


def _bytes(messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


LEGACY_SEEDS = [[message] for message in ASKED]
MODERN_SEEDS = [[_modern(message)] for message in ASKED]


async def _served(sent: bytes) -> list[dict[str, Any]]:
    """All that the server says to these bytes, until it has ended."""
    counting = Tool.from_function(count, style="invocation", schema={"type": "object"})
    stage = scene(echo, put, slow, counting, resources=(_Shelf(),), prompts=(GREET,))
    with _pipe() as (source, to_server), _pipe() as (from_server, sink):
        writing = threading.Thread(target=_write, args=(to_server[0], sent), daemon=True)
        said = asyncio.get_running_loop().create_task(asyncio.to_thread(_read, from_server[0], LAST, to_server))
        writing.start()
        async with asyncio.timeout(SECONDS):
            await StdioWire(source[0], sink[0]).serve_to_end(stage.served)
            _shut(sink)
            return [json.loads(line) for line in (await said).splitlines()]


@contextmanager
def _pipe() -> Iterator[tuple[list[int], list[int]]]:
    """Both ends, each in a list that is empty once it was closed."""
    ends = tuple([descriptor] for descriptor in os.pipe())
    try:
        yield ends[0], ends[1]
    finally:
        for end in ends:
            _shut(end)


def _shut(end: list[int]) -> None:
    if end:
        os.close(end.pop())


def _write(descriptor: int, sent: bytes) -> None:
    while sent:
        sent = sent[os.write(descriptor, sent) :]


def _read(descriptor: int, last: str, to_server: list[int]) -> bytes:
    """Until the end; when the last request is answered, the client goes."""
    found = b""
    while chunk := os.read(descriptor, 65536):
        found += chunk
        if json.dumps(last).encode() in found:
            _shut(to_server)
    return found


def _pipes(value: tuple[str, bytes]) -> None:
    era, nonsense = value
    DONE.clear()
    last = _request(LAST, "tools/list")
    # The first request decides for which era a connection is.
    begin, end = ([_modern(_request(0, "server/discover"))], _modern(last)) if era == "modern" else (HANDSHAKE, last)
    said = asyncio.run(_served(_bytes(begin) + nonsense + b"\n" + _bytes([end])))
    answers = [message for message in said if message.get("id") == LAST and "method" not in message]
    assert len(answers) == 1, "the next good request is answered, once"
    assert "tools" in answers[0].get("result", {}), answers[0]
    assert not DONE, "a side effect ran that nobody allowed"


# ── over HTTP ────────────────────────────────────────────────────────────────────────

DOORS = AccessRequirements.of("127.0.0.1", ["node.example:8443"], ["https://app.example"])
KEYS = AccessKeys({"ada": "secret"})
GOOD = [[b"host", b"localhost:80"], [b"authorization", b"Bearer secret"], [b"content-length", b"2"]]
WORDS: dict[bytes, tuple[bytes, ...]] = {
    b"host": (
        b"localhost", b"LOCALHOST:1", b"127.0.0.1", b"[::1]:80", b"node.example", b"node.example:8443", b"evil.example",
        b"localhost.evil.example", b"localhost@evil.example", b"localhost:", b"localhost:80:80", b"", b"localhost:\xb2",
    ),
    b"origin": (
        b"null", b"", b"https://app.example", b"http://localhost:3", b"https://app.example.evil", b"file://localhost",
        b"http://localhost@evil", b"http://localhost.evil:80", b"//localhost",
    ),
    b"authorization": (b"Bearer secret", b"bearer  secret ", b"Bearer", b"Basic secret", b"secret", b"Bearer \xff"),
    b"content-length": (b"2", b"-1", b"9" * 5000, b"\xb2", b"1e9", b"0x10", b" 2", b"99999999", b""),
}  # fmt: skip


async def _asked(headers: list[list[bytes]], body: list[bytes]) -> tuple[int, bool]:
    """The status, and whether it got as far as the app."""
    reached, status = False, 0
    left = [{"type": "http.request", "body": piece, "more_body": True} for piece in body]
    left.append({"type": "http.request", "body": b"", "more_body": False})

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal reached
        reached = True
        assert (await receive())["body"] == b"".join(body)
        await refuse_with_text(send, 200, "ok")

    async def keyed(scope: Scope, receive: Receive, send: Send) -> None:
        if KEYS.holder(header(scope, b"authorization")) is None:
            return await refuse_with_text(send, 401, "who?")
        return await BodyLimitMiddleware(app, size=1000, seconds=10)(scope, receive, send)

    async def receive() -> Message:
        return left.pop(0) if left else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)

    await AccessMiddleware(keyed, DOORS)({"type": "http", "method": "POST", "headers": headers}, receive, send)
    return status, reached


def _guard(value: tuple[list[list[bytes]], list[bytes]]) -> None:
    headers, body = value
    status, reached = asyncio.run(_asked(headers, body))
    assert status in (200, 401, 403, 413, 421) and reached == (status == 200)
    if reached:
        given = {name: [other for each, other in headers if each == name] for name in WORDS}
        assert len(given[b"host"]) == 1 and len(given[b"authorization"]) == 1 and len(given[b"origin"]) < 2
        assert b"evil" not in given[b"host"][0] and b"evil" not in b"".join(given[b"origin"])
        assert b"secret" in given[b"authorization"][0]
        assert len(b"".join(body)) <= 1000


@st.composite
def _headers(draw: st.DrawFn) -> list[list[bytes]]:
    """Good ones, with some left out, exchanged or added."""
    found = [list(pair) for pair in GOOD]
    for _ in range(draw(st.integers(0, 4))):
        name = draw(st.sampled_from(sorted(WORDS)))
        if draw(st.booleans()):
            found = [pair for pair in found if pair[0] != name]
        found.append([name, draw(st.sampled_from(WORDS[name]) | data(WORDS[name]))])
    return found


# ── states ───────────────────────────────────────────────────────────────────────────

ROUNDS = [CallAwaitingConfirmation("run", "call", "question").written(), CallAwaitingInput("run", "call").written()]


def _state(text: str) -> None:
    for kind in (CallAwaitingConfirmation, CallAwaitingInput):
        found = kind.read(text)
        assert found is None or kind.read(found.written()) == found


_PIPED = (
    b'"id": 1',
    b'"method": "tools/call"',
    b'"put"',
    b"\xff",
    b"\\ud800",
    b"[" * 200,
    b"NaN",
    *map(str.encode, map(repr, WRONG)),
)
TARGETS = (
    Target(
        "mcp-served",
        st.tuples(st.just("modern"), values(MODERN_SEEDS).map(_bytes) | data([*map(_bytes, MODERN_SEEDS)], _PIPED))
        | st.tuples(st.just("legacy"), values(LEGACY_SEEDS).map(_bytes) | data([*map(_bytes, LEGACY_SEEDS)], _PIPED)),
        _pipes,
        cost=8,
    ),
    Target(
        "mcp-guard", st.tuples(_headers(), st.lists(st.binary(max_size=20) | st.just(b"x" * 600), max_size=3)), _guard
    ),
    Target("mcp-state", texts(ROUNDS), _state),
)
