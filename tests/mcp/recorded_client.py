"""The official client with everything written down that it says and hears, step by step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any

import mcp.client.session
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.extension import advertise
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import TypeAdapter

from tests.polling import until

mcp.client.session.DISCOVER_TIMEOUT_SECONDS = 60.0  # a busy machine must not make the client take a server for old

UI = "io.modelcontextprotocol/ui"
SETTINGS = {"mimeTypes": ["text/html;profile=mcp-app"]}
ANY: TypeAdapter[Any] = TypeAdapter(dict[str, Any])
Message = dict[str, Any]


class Plain(types.Request[dict[str, Any], str]):
    """Any request."""


class Record:
    """What one client said and heard: by step, each message as JSON."""

    def __init__(self) -> None:
        self.steps: dict[str, list[tuple[str, Message]]] = {}
        self._now: list[tuple[str, Message]] = self.steps.setdefault("connect", [])
        self.client: Client | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        self._now = self.steps.setdefault(name, [])
        yield

    def note(self, way: str, item: Any) -> None:
        if isinstance(item, SessionMessage):
            self._now.append((way, item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)))

    def heard(self, method: str) -> list[Message]:
        return [each for way, each in self._now if way == "heard" and each.get("method") == method]


class _Reading:
    def __init__(self, inner: Any, record: Record) -> None:
        self._inner = inner
        self._record = record

    @property
    def last_context(self) -> Any:
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Any:
        item = await self._inner.receive()
        self._record.note("heard", item)
        return item

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        item = await self._inner.__anext__()
        self._record.note("heard", item)
        return item

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Any:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *given: Any) -> Any:
        return await self._inner.__aexit__(*given)


class _Writing(_Reading):
    async def send(self, item: Any) -> None:
        self._record.note("said", item)
        await self._inner.send(item)


@asynccontextmanager
async def _recorded(transport: AbstractAsyncContextManager[Any], record: Record) -> AsyncIterator[Any]:
    async with transport as (read, write, *_):
        yield _Reading(read, record), _Writing(write, record)


@asynccontextmanager
async def recorded_client(where: str | StdioServerParameters, era: str) -> AsyncIterator[Record]:
    """A client that can do everything, connected."""
    record = Record()
    transport = streamable_http_client(where) if isinstance(where, str) else stdio_client(where)
    async with Client(
        _recorded(transport, record),
        mode=era,
        cache=None,
        read_timeout_seconds=60,
        elicitation_callback=_elicit,
        sampling_callback=_sample,
        list_roots_callback=_roots,
        extensions=[advertise(UI, SETTINGS)],
        client_info=types.Implementation(name="judge", version="1"),
    ) as client:
        record.client = client
        yield record


async def _elicit(context: Any, params: Any) -> types.ElicitResult:
    if isinstance(params, types.ElicitRequestURLParams):
        return types.ElicitResult(action="decline", _meta={"judge": "no"})
    return types.ElicitResult(action="accept", content={"size": 42})


async def _sample(context: Any, params: Any) -> types.CreateMessageResult:
    words = types.TextContent(text="green")
    return types.CreateMessageResult(role="assistant", content=words, model="tiny", stop_reason="endTurn")


async def _roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult.model_validate({"roots": [{"uri": "file:///work", "name": "work"}]})


# ── what is done ─────────────────────────────────────────────────────────────────────


async def play(record: Record) -> None:
    """Everything, once, each under its name. What is refused is an answer too."""
    client = record.client
    assert client is not None
    for name, act in STEPS.items():
        with record.step(name), suppress(MCPError, TimeoutError):
            await act(client, record)


Step = Callable[[Client, Record], Awaitable[object]]


def _is_modern(client: Client) -> bool:
    return client.protocol_version >= "2026"


def _request(method: str, **params: Any) -> Step:
    async def ask(client: Client, record: Record) -> object:
        return await client.session.send_request(Plain(method=method, params=params), ANY)

    return ask


def _call(name: str, meta: dict[str, Any] | None = None, progress: bool = False, **arguments: Any) -> Step:
    async def told(progress: float, total: float | None, message: str | None) -> None:
        """Written down already."""

    async def call(client: Client, record: Record) -> object:
        given: Any = meta
        return await client.call_tool(name, arguments, meta=given, progress_callback=told if progress else None)

    return call


async def _pages(client: Client, record: Record) -> None:
    cursor = None
    while True:
        page = await client.list_resources(cursor=cursor)
        if (cursor := page.next_cursor) is None:
            return


async def _level(client: Client, record: Record) -> None:
    if not _is_modern(client):
        await client.set_logging_level("warning")


async def _logs(client: Client, record: Record) -> None:
    meta: Any = {types.LOG_LEVEL_META_KEY: "warning"} if _is_modern(client) else None
    await client.call_tool("logs", {}, meta=meta)
    await until(lambda: len(record.heard("notifications/message")) >= 2, seconds=20)


async def _changes(client: Client, record: Record) -> None:
    """Told of what changed, in the way of the era."""
    kinds = ("resources/list_changed", "prompts/list_changed", "resources/updated")

    def told() -> bool:
        return all(record.heard(f"notifications/{kind}") for kind in kinds)

    if _is_modern(client):
        async with client.listen(
            resources_list_changed=True, prompts_list_changed=True, resource_subscriptions=("note://1",)
        ) as stream:
            listening = asyncio.create_task(_drained(stream))
            await client.call_tool("changes", {})
            await until(told, seconds=20)
            listening.cancel()
    else:
        await client.subscribe_resource("note://1")
        await client.call_tool("changes", {})
        await until(told, seconds=20)
        await client.unsubscribe_resource("note://1")


async def _drained(stream: Any) -> None:
    async for _ in stream:
        pass


async def _cancelled(client: Client, record: Record) -> None:
    going = asyncio.create_task(client.call_tool("waits", {}))
    await until(lambda: bool(record.steps["a call given up"]))
    await asyncio.sleep(0)
    going.cancel()
    await asyncio.wait({going})
    await client.call_tool("plain", {})


async def _roots_changed(client: Client, record: Record) -> None:
    if not _is_modern(client):
        await client.send_roots_list_changed()


STEPS: dict[str, Step] = {
    "tools/list": lambda client, record: client.list_tools(),
    **{f"call {name}": _call(name) for name in ("plain", "structure", "blocks", "fails", "refuses")},
    "call sums": _call("sums", a=40),
    "call with progress": _call("progresses", progress=True),
    "call with _meta": _call("echoes_meta", {"shop.example/order": 7}),
    **{f"call {name}": _call(name) for name in ("asks_elicit", "asks_visit", "asks_sample", "asks_roots")},
    "call nothing": _call("nothing"),
    "call with bad arguments": _call("sums", a="many"),
    "a call given up": _cancelled,
    "resources/list": _pages,
    "resources/templates/list": lambda client, record: client.list_resource_templates(),
    **{
        f"read {uri}": _request("resources/read", uri=uri)
        for uri in ("note://1", "note://picture", "ui://shop/sum.html", "skill://sums/SKILL.md", "note://none")
    },
    "read with progress": _request("resources/read", uri="note://1", _meta={"progressToken": 99, "judge": 1}),
    "prompts/list": lambda client, record: client.list_prompts(),
    "prompts/get": _request("prompts/get", name="greet", arguments={"style": "warmly"}),
    "prompts/get asks": lambda client, record: client.get_prompt("asks"),
    "prompts/get none": _request("prompts/get", name="none"),
    "complete a prompt": _request(
        "completion/complete",
        ref={"type": "ref/prompt", "name": "greet"},
        argument={"name": "style", "value": "wa"},
        context={"arguments": {"other": "1"}},
    ),
    "complete a template": _request(
        "completion/complete", ref={"type": "ref/resource", "uri": "note://{id}"}, argument={"name": "id", "value": "1"}
    ),
    "skills/list": _request("skills/list"),
    "skills/get": _request("skills/get", uri="skill://sums/SKILL.md"),
    "an unknown method": _request("shop/close"),
    "logging/setLevel": _level,
    "call logs": _logs,
    "changes": _changes,
    "roots change": _roots_changed,
    "ping": lambda client, record: client.send_ping() if not _is_modern(client) else asyncio.sleep(0),
}


# ── what differs ─────────────────────────────────────────────────────────────────────


def differences(direct: list[Message], through: list[Message]) -> set[str]:
    """Where two lists of messages are not the same, as paths into them; ids and tokens are anybody's."""
    left, right = [_plain(each) for each in direct], [_plain(each) for each in through]
    if left == right:
        return set()
    if sorted(map(_written, left)) == sorted(map(_written, right)):
        return {"order"}
    if len(left) != len(right):
        more = [each for each in left if each not in right]
        return {f"without {each.get('method', 'an answer')}" for each in more} or {"more messages"}
    return {path for one, two in zip(left, right, strict=True) for path in _paths(one, two, "")}


def _written(message: Message) -> str:
    return json.dumps(message, sort_keys=True)


def _plain(message: Message) -> Message:
    kept: Message = json.loads(json.dumps(message))
    kept.pop("id", None)
    params = kept.get("params")
    if isinstance(params, dict):
        params.pop("requestId", None)
        params.pop("progressToken", None)
        meta = params.get("_meta") or {}
        meta.pop("progressToken", None)
        meta.pop("io.modelcontextprotocol/subscriptionId", None)
        if not meta:
            params.pop("_meta", None)
        if not params:
            kept.pop("params")
    return kept


def _paths(one: Any, two: Any, path: str) -> Iterator[str]:
    if path.endswith(("params", "_meta")):  # what is missing is empty
        one, two = ({} if each is ... else each for each in (one, two))
    if path.endswith(_WHOLE) and one != two:
        yield path
    elif isinstance(one, dict) and isinstance(two, dict):
        for key in sorted({*one, *two}):
            yield from _paths(one.get(key, ...), two.get(key, ...), f"{path}.{key}" if path else key)
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for left, right in zip(one, two, strict=True):
            yield from _paths(left, right, f"{path}[]")
    elif one != two or (one is ...) != (two is ...):
        yield path


_WHOLE = ("serverInfo", "clientInfo", "clientCapabilities", "inputRequests", "inputResponses")
"""Where it is enough to say that something is another."""
