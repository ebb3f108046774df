"""Sentences of hearthnet-tool-calls.md that are about every way to a node at once: errors, progress, depth, a word."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
import pytest_asyncio

from handrail import CapabilityBus, ToolCall, ToolDefinition, ToolExecutor
from handrail.core.errors import BusError
from handrail.core.ids import new_id
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import CallStream, Handler
from handrail.node.bus.request import NOBODY, RouteRequest
from handrail.node.bus.wire_codes import WIRE
from handrail.node.capability_tools import wire_error
from handrail.node.http import HttpBus
from handrail.node.nats.bus import NatsBus
from handrail.node.nats.door import NatsDoor
from handrail.node.nats.link import NatsLink
from handrail.node.server.node import NodeServer, ServerLimits
from handrail.node.services.event_log import EventLog
from handrail.node.services.llm import LlmService
from handrail.node.services.market import MarketService
from handrail.node.tokens.admission import TokenAdmission
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.signatures import Authenticator
from handrail.node.tokens.token import issue
from handrail.node.tokens.token_store import TokenStore
from handrail.testing.model import ScriptedModel, call, text
from tests.contracts.bus_contract import body_schema
from tests.node.bus.transports import TRANSPORTS, Transport, TrustingAuthenticator
from tests.node.http.loopback_node import served
from tests.node.nats.nats_fixtures import CALM, QUICK, bank_workers, effects, nats_server
from tests.node.server.http_node import CALL, call_headers, client
from tests.node.server.websocket_client import receive_until_closed, send_message, socket_to

ANY = {"type": "object"}


def ask(question: str = "?", **input: Any) -> dict[str, Any]:
    return {"params": {"model": "m"}, "input": {"messages": [{"role": "user", "content": question}], **input}}


@pytest.fixture(params=list(TRANSPORTS))
def way(request: pytest.FixtureRequest) -> Transport:
    return TRANSPORTS[request.param]


# ── §7: the table of errors ──────────────────────────────────────────────────────────────

ADD = {"name": "add", "parameters_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
TABLE: dict[str, tuple[str, str, dict[str, Any]]] = {
    # condition                    the wire code, and what is called with what
    "a call of a tool not in declared set": ("bad_request", "test.dispatch@1.0", {"input": {"name": "gone"}}),
    "a chat with a tool not in declared set": ("bad_request", "test.chat@1.0", ask(tools=[{**ADD, "name": "gone"}])),
    "a choice of a tool not in declared set": (
        "bad_request",
        "llm.chat@2.0",
        ask(tools=[ADD], tool_choice={"name": "gone"}),
    ),
    "arguments fail schema": ("bad_request", "test.work@1.0", {"input": {"how": 7}}),
    "execution timed out": ("timeout", "test.slow@1.0", {"input": {"how": "hang"}}),
    "the tool broke": ("internal_error", "test.work@1.0", {"input": {"how": "break"}}),
    "the tool said internal_error": ("internal_error", "test.work@1.0", {"input": {"how": "tell"}}),
    "token does not cover it": ("token_scope_insufficient", "test.secret@1.0", {"input": {"how": "tell"}}),
}


async def work(request: RouteRequest) -> dict[str, Any]:
    match request.input["how"]:
        case "hang":
            await asyncio.Event().wait()
        case "tell":
            raise BusError("internal_error", "out of paper")
    raise ValueError("of the swordfish")


class Orchestrator:
    """A service of the node that declares one tool, and uses it for whoever asks: in one call, or in a chat."""

    def __init__(self, bus: CapabilityBus) -> None:
        self._bus = bus

    def capabilities(self) -> Iterator[tuple[CapabilityDescriptor, Handler]]:
        yield CapabilityDescriptor(name="test.dispatch", stream_schema={"token": ANY}), self.dispatch
        yield CapabilityDescriptor(name="test.chat", stream_schema={"token": ANY}), self.chat

    async def dispatch(self, request: RouteRequest) -> dict[str, Any]:
        async with self._executor(request) as executor:
            result = await executor.dispatch(ToolCall("tc_1", request.input["name"], {"a": 1}))
        if result.is_error:
            raise wire_error(result)
        return {"output": {"content": result.content}}

    async def chat(self, request: RouteRequest) -> dict[str, Any]:
        async with self._executor(request) as executor:
            return {"output": await executor.run_chat_with_tools(request.body)}

    def _executor(self, request: RouteRequest) -> ToolExecutor:
        return ToolExecutor(self._bus, [ADD], handlers={"add": lambda a: a}, how=request.passed_on())


class Node(NamedTuple):
    bus: CapabilityBus
    url: str
    nats: NatsBus
    token: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node() -> AsyncIterator[Node]:
    """One that knows tokens, with a socket and a place on NATS; and a token that is good for most of what it has."""
    identity, store = Identity.new(), TokenStore()
    admission = TokenAdmission(node_id=identity.node_id, store=store, community="home")
    _, token = issue(
        identity,
        store,
        Scope.of(["llm.*", "test.work@1.0", "test.slow@1.0", "test.dispatch@1.0", "test.chat@1.0"]),
        audience="home",
    )
    check = Authenticator(community="home")
    with nats_server() as server:
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(CapabilityBus(node_id=identity.node_id, admission=admission))
            bus.register_service(LlmService({"m": ScriptedModel()}))
            bus.register_service(Orchestrator(bus))
            link = await stack.enter_async_context(NatsLink(server.url, pace=CALM))
            await stack.enter_async_context(NatsDoor(bus, link, community="home", authenticator=check))
            caller = await stack.enter_async_context(NatsBus(server.url, community="home", pace=CALM, token=str(token)))
            doors: dict[str, Any] = {"token_required": True, "check": check, "identify": admission.identify}
            url = await stack.enter_async_context(served(bus, **doors))
            yield Node(bus, url, caller, str(token))


@pytest.fixture
def fresh(node: Node) -> Node:
    """With tools that never failed before: who fails too often is left alone for a while."""
    schema, stream = body_schema(how={"type": "string"}), {"token": ANY}
    for name, seconds in (("test.work", 60.0), ("test.secret", 60.0), ("test.slow", 0.1)):
        descriptor = CapabilityDescriptor(
            name=name, request_schema=schema, stream_schema=stream, timeout_seconds=seconds
        )
        if name in {each.descriptor.name for each in node.bus.registry}:
            node.bus.unregister(name, (1, 0))
        node.bus.register(descriptor, work)
    return node


async def in_process(node: Node, name: str, version: str, body: dict[str, Any]) -> Any:
    with pytest.raises(BusError) as failed:
        await node.bus.call(name, version, body, caller=NOBODY, token=node.token)
    return failed.value.to_dict()


async def in_process_streamed(node: Node, name: str, version: str, body: dict[str, Any]) -> Any:
    return await _last(node.bus.stream(name, version, body, caller=NOBODY, token=node.token))


async def over_http(node: Node, name: str, version: str, body: dict[str, Any]) -> Any:
    async with client(node.url, node.token) as http:
        said = await http.post(CALL, json=body, headers=call_headers(name, capability_version=version))
    assert said.status_code == WIRE[said.json()["error"]].http
    return said.json()


async def over_events(node: Node, name: str, version: str, body: dict[str, Any]) -> Any:
    async with client(node.url, node.token) as http:
        headers = {**call_headers(name, capability_version=version), "accept": "text/event-stream"}
        async with http.stream("POST", CALL, json=body, headers=headers) as said:
            return _event(said, await said.aread())


def _event(said: httpx2.Response, raw: bytes) -> Any:
    """A stream that fails has status 200 all the same; what is refused before it begins may be in one piece."""
    if not said.headers["content-type"].startswith("text/event-stream"):
        return json.loads(raw)
    assert said.status_code == 200
    block = raw.decode().strip().split("\n\n")[-1]
    fields = dict(line.split(": ", 1) for line in block.split("\n"))
    assert fields["event"] == "error"
    return json.loads(fields["data"])


async def over_websocket(node: Node, name: str, version: str, body: dict[str, Any]) -> Any:
    async with socket_to(node.url) as connection:
        envelope = {"capability": name, "version": version, "request_id": new_id("call"), "token": node.token}
        await send_message(connection, {"type": "call", "envelope": {**envelope, "body": body}})
        heard = await receive_until_closed(connection)
    assert [each["event"] for each in heard] == ["error"]
    return heard[-1]["data"]


async def over_nats(node: Node, name: str, version: str, body: dict[str, Any]) -> Any:
    with pytest.raises(BusError) as failed:
        await node.nats.call(name, version, body)
    return failed.value.to_dict()


async def over_nats_streamed(node: Node, name: str, version: str, body: dict[str, Any]) -> Any:
    return await _last(node.nats.stream(name, version, body))


async def _last(stream: CallStream) -> dict[str, Any]:
    async with stream:
        frames = [frame async for frame in stream]
    assert [frame.event for frame in frames] == ["error"]
    return frames[-1].data


WAYS: dict[str, Callable[[Node, str, str, dict[str, Any]], Awaitable[Any]]] = {
    "in process": in_process,
    "in process, streamed": in_process_streamed,
    "http": over_http,
    "sse": over_events,
    "websocket": over_websocket,
    "nats": over_nats,
    "nats, streamed": over_nats_streamed,
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.requirement("hearthnet.errors", "hearthnet.authority", "nrv.timeout-code")
@pytest.mark.parametrize("condition", TABLE)
@pytest.mark.parametrize("asked", WAYS)
async def test_each_condition_of_the_table_has_its_code_on_every_way(fresh: Node, asked: str, condition: str) -> None:
    code, capability, body = TABLE[condition]
    name, _, version = capability.partition("@")

    async with asyncio.timeout(60):
        errors = [await WAYS[asked](fresh, name, version, body)]
        if asked != "websocket":  # llm.tools.call streams nothing
            wrapped = {"input": {"tool_call_id": "tc_1", "target_capability": capability, "target_body": body}}
            errors.append(await WAYS[asked](fresh, "llm.tools.call", "1.0", wrapped))

    assert [error["error"] for error in errors] == [code] * len(errors)
    assert all(error["message"] for error in errors)
    assert "swordfish" not in str(errors) and fresh.token not in str(errors)


# ── §10.1: progress ──────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("hearthnet.progress")
@pytest.mark.parametrize("interactive", [False, True])
async def test_progress_of_a_tool_is_read_on_every_way_while_the_model_waits(way: Transport, interactive: bool) -> None:
    heard, seen = asyncio.Event(), list[Any]()
    model = ScriptedModel([call("dig", "tc_1")], [text("Dug.")])

    async def dig(request: RouteRequest) -> dict[str, Any]:
        await request.send("progress", {"current": 1, "total": 2, "stage": "half"})
        await asyncio.wait_for(heard.wait(), 30)
        return {"output": {"deep": True}}

    async def page(frame: dict[str, Any]) -> None:
        if frame["event"] == "progress":
            seen.append((frame["data"], len(model.requests)))
            heard.set()

    definition = {"name": "dig", "parameters_schema": ANY, "bound_capability": "test.dig"}
    async with CapabilityBus() as node:
        node.register(CapabilityDescriptor(name="test.dig", timeout_seconds=60), dig)
        node.register_service(LlmService({"m": model}))
        async with way(node) as bus:
            executor = ToolExecutor(bus, [definition], interactive=interactive)
            answer = await executor.run_chat_with_tools(ask(), stream_to=page)

    assert answer["content"] == "Dug."
    assert seen == [({"current": 1, "total": 2, "stage": "half", "tool_call_id": "tc_1"}, 1)]


# ── §4.5: a person at the other end of the wire ──────────────────────────────────────────


@pytest.mark.requirement("hearthnet.confirmation")
@pytest.mark.parametrize("interactive", [False, True])
async def test_a_person_on_another_machine_is_asked_and_lets_exactly_that_call_run_once(
    way: Transport, interactive: bool
) -> None:
    """The node has the chat and the tools; whoever asked has the page, and says yes by another call."""
    arguments = {"category": "offer", "title": "Eggs", "body": "Six."}
    model = ScriptedModel([call("post_to_marketplace", "tc_1", **arguments)], [text("Posted.")])
    frames: list[Any] = []
    async with CapabilityBus() as node:
        executor = ToolExecutor(node, ["post_to_marketplace"], interactive=interactive)

        async def chat(request: RouteRequest) -> dict[str, Any]:
            async def upstream(frame: dict[str, Any]) -> None:
                if frame["event"] not in ("done", "error"):  # the stream has its own end
                    await request.send(frame["event"], frame["data"])

            return {"output": await executor.run_chat_with_tools(request.body, stream_to=upstream)}

        async def confirm(request: RouteRequest) -> dict[str, Any]:
            shown = ToolCall(request.input["id"], request.input["name"], request.input["arguments"])
            return {"output": (await executor.dispatch_confirmed(shown)).to_dict()}

        said = dict.fromkeys(("token", "tool_call", "tool_call_delta", "confirmation_required"), ANY)
        node.register(CapabilityDescriptor(name="assistant.chat", stream_schema=said, timeout_seconds=60), chat)
        node.register(CapabilityDescriptor(name="assistant.confirm", side_effects=True), confirm)
        node.register_service(LlmService({"m": model}))
        node.register_service(MarketService(EventLog()))
        answers: list[dict[str, Any]] = []
        async with (
            way(node) as bus,
            asyncio.timeout(60),
            bus.stream("assistant.chat", (1, 0), ask("Sell my eggs."), interactive=interactive) as stream,
        ):
            async for frame in stream:
                frames.append(frame)
                if frame.event == "confirmation_required":
                    question = {key: frame.data[key] for key in ("id", "name", "arguments")}
                    changed = {**question, "arguments": {**arguments, "body": "Twelve."}}
                    for given in (changed, question, question):
                        said_yes = await bus.call("assistant.confirm", (1, 0), {"input": given})
                        answers.append(said_yes["output"])
            listed = await bus.call("market.list", (1, 0), {"input": {}})

    asked = [frame.data for frame in frames if frame.event == "confirmation_required"]
    assert [(each["id"], each["name"], each["arguments"], each["side_effects"]) for each in asked] == [
        ("tc_1", "post_to_marketplace", arguments, True)
    ]
    assert frames[-1].event == "done"
    assert [answer.get("is_error", False) for answer in answers] == [True, False, True]
    assert [post["body"] for post in listed["output"]["posts"]] == ["Six."]


@pytest.mark.requirement("hearthnet.confirmation")
async def test_a_tool_that_does_not_declare_what_its_capability_changes_is_refused(way: Transport) -> None:
    """Else a model would post without anybody's word."""
    post = {"category": "offer", "title": "Eggs", "body": "Six."}
    tools = [
        {"name": "post", "parameters_schema": ANY, "bound_capability": "market.post"},
        {"name": "use", "parameters_schema": ANY, "bound_capability": "llm.tools.call"},
    ]
    given = [
        ToolCall("tc_1", "post", post),
        ToolCall("tc_2", "use", {"target_capability": "market.post@1.0", "target_body": post}),
        ToolCall("tc_3", "use", {"target_capability": "market.list@1.0", "target_body": {}}),
    ]
    async with CapabilityBus() as node:
        node.register_service(MarketService(EventLog()))
        node.register_service(LlmService({"m": ScriptedModel()}))
        async with way(node) as bus:
            executor = ToolExecutor(bus, tools)
            posted, through, listed = [await executor.dispatch(each) for each in given]

    assert (posted.outcome, through.outcome) == ("forbidden", "forbidden")
    assert "declare its side_effects" in posted.text
    assert listed.content["posts"] == []


@pytest.mark.requirement("hearthnet.confirmation", "hearthnet.executor.dispatch")
async def test_a_confirmed_call_whose_worker_dies_is_in_doubt_and_stays_so(tmp_path: Path) -> None:
    ledger, given = tmp_path / "ledger", {"number": 1, "fate": "dies after"}
    pay = {"name": "pay", "parameters_schema": ANY, "bound_capability": "bank.pay", "side_effects": True}
    with nats_server() as server, bank_workers(server, ledger, 2):
        async with asyncio.timeout(60), NatsBus(server.url, community="home", pace=QUICK) as bus:
            executor = ToolExecutor(bus, [pay])
            first = await executor.dispatch_confirmed(ToolCall("tc_1", "pay", given))
            again = await executor.dispatch_confirmed(ToolCall("tc_1", "pay", given))

    assert first.outcome == "in_doubt" and again.is_error
    assert effects(ledger) == ["bank.pay 1"]


# ── §4.7: depth, across the bus ──────────────────────────────────────────────────────────


@asynccontextmanager
async def by_http(*nodes: CapabilityBus) -> AsyncIterator[None]:
    """Each knows the next one, and the last the first."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(served(node)) for node in nodes]
        for node, url in zip(nodes, [*urls[1:], urls[0]], strict=True):
            remote = await stack.enter_async_context(HttpBus(url))
            await node.connect(remote)
            stack.push_async_callback(node.disconnect, remote)
        yield


@asynccontextmanager
async def by_nats(*nodes: CapabilityBus) -> AsyncIterator[None]:
    with nats_server() as server:
        async with AsyncExitStack() as stack:
            for node in nodes:
                link = await stack.enter_async_context(NatsLink(server.url, pace=CALM))
                await stack.enter_async_context(
                    NatsDoor(node, link, community="home", authenticator=TrustingAuthenticator())
                )
            for node in nodes:
                remote = await stack.enter_async_context(NatsBus(server.url, community="home", pace=CALM))
                await node.connect(remote)
                stack.push_async_callback(node.disconnect, remote)
            yield


@pytest.mark.requirement("hearthnet.composition")
@pytest.mark.parametrize("join", [by_http, by_nats])
async def test_depth_is_counted_over_every_hop_and_ends_a_chain_that_goes_round(join: Any) -> None:
    depths: list[tuple[str, int]] = []

    def asks(other: str, here: str) -> Callable[[RouteRequest], Awaitable[dict[str, Any]]]:
        async def handler(request: RouteRequest) -> dict[str, Any]:
            depths.append((here, request.context.depth))
            return await request.call(other, (1, 0), {})

        return handler

    async with CapabilityBus(node_id="near") as near, CapabilityBus(node_id="far") as far:
        near.register(
            CapabilityDescriptor(name="ping.near", timeout_seconds=60, max_concurrent=9), asks("ping.far", "near")
        )
        far.register(
            CapabilityDescriptor(name="ping.far", timeout_seconds=60, max_concurrent=9), asks("ping.near", "far")
        )
        async with join(near, far), asyncio.timeout(60):
            with pytest.raises(BusError, match="deep") as ended:
                await near.call("ping.near", (1, 0), {})

    assert ended.value.code == "bad_request"
    assert [where for where, _ in depths] == ["near", "far"] * (len(depths) // 2) + ["near"] * (len(depths) % 2)
    assert len(depths) >= 2 and [depth for _, depth in depths] == sorted({depth for _, depth in depths})
    assert depths[-1][1] <= near.max_depth


@pytest.mark.requirement("hearthnet.composition", "hearthnet.tools-call")
@pytest.mark.parametrize("join", [by_http, by_nats])
async def test_a_tool_bound_to_llm_tools_call_reaches_a_capability_of_another_node(join: Any) -> None:
    seen: list[Mapping[str, Any]] = []

    async def double(request: RouteRequest) -> dict[str, Any]:
        seen.append({"depth": request.context.depth, "caller": request.caller.id})
        return {"output": {"n": request.input["n"] * 2}}

    schema = body_schema(n={"type": "integer"})
    use = ToolDefinition.from_dict({"name": "use", "parameters_schema": ANY, "bound_capability": "llm.tools.call"})
    async with CapabilityBus(node_id="near") as near, CapabilityBus(node_id="far") as far:
        near.register_service(LlmService({"m": ScriptedModel()}))
        far.register(CapabilityDescriptor(name="math.double", request_schema=schema), double)
        async with join(near, far), asyncio.timeout(60):
            executor = ToolExecutor(near, [use], require_confirmation=False)
            results = [
                await executor.dispatch(
                    ToolCall(f"tc_{n}", "use", {"target_capability": "math.double@1.0", "target_body": {"n": n}})
                )
                for n in (2, "two")
            ]

    assert results[0].content == {"n": 4}
    assert results[1].error is not None and results[1].error.code == "bad_request"
    assert [each["depth"] for each in seen] == [2]  # for the target, and for the hop


# ── what the issue says of clients that vanish ───────────────────────────────────────────


@pytest.mark.requirement("hearthnet.websocket", "hearthnet.sse")
def test_a_call_that_nobody_listens_to_is_ended_within_a_second() -> None:
    assert ServerLimits().linger < 1
    assert NodeServer(bus=CapabilityBus()).limits == ServerLimits()
