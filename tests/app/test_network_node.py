"""A node put together from its configuration: what it offers, to whom, and with whose rights its models call."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from handrail.app.app import AppAdditions
from handrail.app.network_node import NetworkNode, open_node
from handrail.app.person import Person
from handrail.config.load import load_config
from handrail.config.values import STANDARD_SET
from handrail.core.errors import BusError, UsageError
from handrail.core.redact import Secret
from handrail.journal import JournalReader
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import NOBODY, Caller, RouteRequest
from handrail.node.chat.builtin_tools import BUILTIN
from handrail.node.http.bus import HttpBus
from handrail.node.server.serving import serve
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import issue, parse_token

TOOL = """
[ensemble]
name = "sums"

[[invokers]]
name = "add"
description = "Add two numbers."
python = "sums:add"
"""
CODE = "def add(a: int, b: int) -> int:\n    return a + b\n"
REPLIES = """
[[reply]]
calls = [{ name = "search_corpus", arguments = { query = "rain", corpus = "docs" } }]
[[reply]]
text = "Filter it."
"""
CONFIG = """
default_model = "scripted"
ensembles = []
[models.scripted]
provider = "scripted"
model = "replies.toml"
[services]
market = false
rag = true
"""
RAIN = {"params": {"corpus": "docs"}, "input": {"text": "Rainwater must be filtered.", "title": "Rain"}}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name, text in (("handrail.toml", CONFIG), ("replies.toml", REPLIES), ("sums.toml", TOOL), ("sums.py", CODE)):
        (tmp_path / name).write_text(text)
    yield tmp_path
    sys.modules.pop("sums", None)  # another test has a module of that name


@asynccontextmanager
async def opened(folder: Path, **options: Any) -> AsyncIterator[NetworkNode]:
    config = load_config(folder / "handrail.toml")
    journal = folder / ".handrail" / "journal.db"
    async with open_node(config, journal, person=Person(tell=lambda line: None), **options) as node:
        yield node


@asynccontextmanager
async def served(node: NetworkNode) -> AsyncIterator[str]:
    """The address of its HTTP server."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(serve(node.server(), ready=address.set_result))
    try:
        task.add_done_callback(lambda _: address.cancel())
        yield await address
    finally:
        task.cancel()
        await asyncio.wait({task})


async def names(node: NetworkNode) -> set[str]:
    return {offer.descriptor.full_name for offer in await node.bus.discover()}


def lent(node: NetworkNode, *capabilities: str) -> Secret:
    _, text = issue(node.identity, node.tokens, Scope.of(capabilities), audience="home")
    return text


async def chat(url: str, token: str, **more: str) -> dict[str, Any]:
    asked = {"model": "scripted", "messages": [{"role": "user", "content": "May I drink rain?"}]}
    headers = {"authorization": f"Bearer {token}", **more}
    path = f"{url}/v1/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(path, json=asked, headers=headers) as answer:
        said: dict[str, Any] = await answer.json()
        return said


async def results(node: NetworkNode, url: str) -> list[tuple[str, str]]:
    """What became of the calls of models, of every run in the record, as the node shows it."""
    headers = {"authorization": f"Bearer {node.session_token()}"}
    async with aiohttp.ClientSession(headers=headers) as session, session.get(f"{url}/telemetry") as answer:
        shown = (await answer.json())["tools"]
    return [(each["tool"], ",".join(each["failed"]) or "ok") for each in shown if each["picked"]]


async def test_a_node_offers_its_services_and_leaves_out_what_is_switched_off(folder: Path) -> None:
    async with opened(folder) as node:
        there = await names(node)

    assert {"llm.chat@1.0", "llm.chat@2.0", "llm.tools.call@1.0", "rag.query@1.0", "chat.send@1.0"} <= there
    assert {"auth.token.issue@1.0", "peers.list@1.0", "stt.transcribe@1.0", "img.describe@1.0"} <= there
    assert "market.list@1.0" not in there
    assert set(STANDARD_SET) <= set(BUILTIN)


@pytest.mark.requirement("hearthnet.authority", "hearthnet.telemetry")
async def test_a_model_of_the_gateway_searches_with_the_rights_of_whoever_asks(folder: Path) -> None:
    async with opened(folder) as node, served(node) as url:
        await node.bus.call("rag.ingest", (1, 0), RAIN)
        allowed = await chat(url, lent(node, "llm.chat@2.0", "rag.query@1.0"))
        first = await results(node, url)
        refused = await chat(url, lent(node, "llm.chat@2.0"))
        second = await results(node, url)

    assert allowed["choices"][0]["message"]["content"] == "Filter it."
    assert ("search_corpus", "ok") in first
    assert refused["choices"][0]["message"]["content"] == "Filter it."
    assert ("search_corpus", "forbidden") in second


async def test_a_response_outlives_a_restart_of_its_node(folder: Path) -> None:
    asked = {"model": "scripted", "input": "May I drink rain?"}
    async with opened(folder) as node, served(node) as url:
        await node.bus.call("rag.ingest", (1, 0), RAIN)
        headers = {"authorization": f"Bearer {lent(node, 'llm.chat@2.0', 'rag.query@1.0')}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            async with session.post(f"{url}/v1/responses", json=asked) as answer:
                first = await answer.json()
            async with session.get(f"{url}/v1/responses/{first['id']}") as answer:
                again = await answer.json()
    async with opened(folder) as node, served(node) as url, aiohttp.ClientSession() as session:
        path = f"{url}/v1/responses/{first['id']}"
        async with session.get(path, headers=headers) as answer:
            after = await answer.json()
        less = {"authorization": f"Bearer {lent(node, 'llm.chat@2.0')}"}
        async with session.get(path, headers=less) as answer:
            refused = answer.status

    assert [item["type"] for item in first["output"]] == ["mcp_call", "message"]
    assert again == first
    assert (after["output"], after["status"]) == (first["output"], "completed")
    assert refused == 404


@pytest.mark.requirement("hearthnet.config", "hearthnet.composition")
async def test_the_settings_of_tools_hold_for_the_models_and_the_bus_of_a_node(folder: Path) -> None:
    tool = {"name": "look", "parameters_schema": {"type": "object"}}
    body = {"input": {"messages": [{"role": "user", "content": "?"}], "tools": [tool]}}
    look = 'calls = [{ name = "look", arguments = {} }]\n'
    (folder / "replies.toml").write_text(f"[[reply]]\n{look}" * 2 + f'[[reply]]\ntext = "So be it."\n{look}')
    (folder / "handrail.toml").write_text(
        f'{CONFIG}[llm]\ntools_max_iterations = 2\ntools_default_set = ["translate"]\n'
    )
    deeper: dict[str, Any] = {"target_capability": "peers.list@1.0", "target_body": {}}
    for _ in range(3):
        deeper = {"target_capability": "llm.tools.call@1.0", "target_body": {"input": deeper}}
    async with opened(folder) as node:
        calls, last = 0, None
        async with node.bus.stream("llm.chat", (2, 0), body, interactive=True) as stream:
            async for last in stream:
                if last.event == "tool_call":
                    calls += 1
                    await stream.tool_result(last.data["id"], str(calls))
        with pytest.raises(BusError, match="the limit is 2"):
            await node.bus.call("llm.tools.call", (1, 0), {"input": deeper})
        builtin = [name for name in BUILTIN if name in node.app.tools]

    assert last is not None and (calls, last.event, last.data["message"]["content"]) == (2, "done", "So be it.")
    assert builtin == ["translate"]


async def test_a_new_tool_in_the_files_is_offered_without_a_new_start(folder: Path) -> None:
    async with opened(folder, look=None) as node:
        before = await names(node)
        (folder / "handrail.toml").write_text(CONFIG.replace("ensembles = []", 'ensembles = ["sums.toml"]'))
        await node.app.reload()
        sums = await node.bus.call("sums.add", (1, 0), {"input": {"a": 1, "b": 2}})
        (folder / "handrail.toml").write_text(CONFIG)
        await node.app.reload()
        after = await names(node)

    assert sums["output"] == {"content": 3}
    assert (after, "sums.add@1.0" in after) == (before, False)


async def test_a_new_tool_with_the_name_of_a_service_holds_up_no_other(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "rag.toml").write_text(TOOL.replace('"sums"', '"rag"').replace('name = "add"', 'name = "query"'))
    async with opened(folder, look=None) as node:
        config = CONFIG.replace("ensembles = []", 'ensembles = ["rag.toml", "sums.toml"]')
        (folder / "handrail.toml").write_text(config)
        await node.app.reload()
        sums = await node.bus.call("sums.add", (1, 0), {"input": {"a": 1, "b": 2}})

    assert sums["output"] == {"content": 3}
    assert "rag.query@1.0 is registered already" in caplog.text
    with pytest.raises(UsageError, match="registered already"):
        async with opened(folder, look=None):
            pass


async def test_only_the_named_tools_are_given_to_others(folder: Path) -> None:
    config = CONFIG.replace("ensembles = []", 'ensembles = ["sums.toml"]') + '\n[node]\ntools = ["io:*"]\n'
    (folder / "handrail.toml").write_text(config)
    async with opened(folder) as node:
        assert "sums.add@1.0" not in await names(node)
        assert "add" in node.app.tools


async def test_the_capabilities_of_another_node_join_and_are_called_with_the_callers_rights(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    async with opened(folder) as attic, served(attic) as url:
        await attic.bus.call("rag.ingest", (1, 0), RAIN)
        token = lent(attic, "rag.*@1.*")
        settings = f'[node]\nname = "kitchen"\npeers.attic = {{ url = "{url}", token = "env:ATTIC" }}\n'
        (other / "handrail.toml").write_text(f"{settings}[services]\nrag = false\n")
        async with opened(other, environ={"ATTIC": str(token)}) as kitchen:
            found = await kitchen.bus.call(
                "rag.query", (1, 0), {"params": {"corpus": "docs"}, "input": {"query": "rain"}}
            )
            with pytest.raises(BusError) as beyond:
                await kitchen.bus.call("stt.transcribe", (1, 0), {"input": {}}, token=str(token))

    assert found["output"]["chunks"][0]["metadata"]["doc_title"] == "Rain"
    assert beyond.value.code in ("token_invalid", "unauthorized")


async def test_another_node_is_asked_for_a_caller_in_this_nodes_name_and_never_sees_the_callers_token(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    kitchens = Identity.create(other / ".handrail" / "identity.key").node_id
    (folder / "handrail.toml").write_text(f'{CONFIG}\n[node.trust]\n"{kitchens}" = "anchor"\n')
    seen: list[Caller] = []

    async def spy(request: RouteRequest) -> dict[str, Any]:
        seen.append(request.caller)
        nested = await request.call("rag.list_corpora", (1, 0), {})
        return {"output": nested["output"]}

    async with opened(folder) as attic, served(attic) as url:
        attic.bus.register(CapabilityDescriptor(name="spy.look"), spy)
        settings = f'[node]\nname = "kitchen"\npeers.attic = {{ url = "{url}", token = "env:ATTIC" }}\n'
        (other / "handrail.toml").write_text(f"{settings}[services]\nrag = false\n")
        async with opened(other, environ={"ATTIC": str(lent(attic, "spy.*", "rag.*"))}) as kitchen:
            token = lent(kitchen, "spy.*", "rag.*")
            await kitchen.bus.call("spy.look", (1, 0), {}, caller=NOBODY, token=token)
            with pytest.raises(BusError) as nested:
                await kitchen.bus.call("spy.look", (1, 0), {}, caller=NOBODY, token=lent(kitchen, "spy.*"))
            with pytest.raises(BusError) as stolen:
                await kitchen.bus.call("spy.look", (1, 0), {}, caller=NOBODY, token=seen[0].token)
            offered = await kitchen.bus.discover("auth.token.issue")

    assert seen[0].id == f"{kitchens}#{parse_token(token).id}", "not the node, with whose trust it would be an anchor"
    assert seen[0].trust == "member" and seen[0].token != token
    assert (nested.value.code, stolen.value.code) == ("token_scope_insufficient", "invalid_signature")
    assert [each.local for each in offered] == [True]


async def test_a_model_of_the_gateway_gets_no_tool_whose_arguments_or_calls_the_token_bounds(folder: Path) -> None:
    config = CONFIG.replace("ensembles = []", 'ensembles = ["sums.toml"]')
    (folder / "handrail.toml").write_text(config)
    call = '{ name = "add", arguments = { a = 1, b = 2 } }'
    (folder / "replies.toml").write_text(f'[[reply]]\ncalls = [{call}]\n[[reply]]\ntext = "It is 3."\n')
    rights = ["llm.chat@2.0", "sums.*"]
    bounds: list[dict[str, Any]] = [{}, {"params_constraints": {"sums.*:a": [5]}}, {"max_calls_total": 9}]
    became: list[set[str]] = []
    async with opened(folder) as node, served(node) as url:
        for bound in bounds:
            _, text = issue(node.identity, node.tokens, Scope.of(rights, **bound), audience="home")
            assert (await chat(url, text))["choices"][0]["message"]["content"] == "It is 3."
            became.append({how for tool, how in await results(node, url) if tool.endswith("add")})

    assert became == [{"ok"}, {"forbidden"}, {"forbidden"}]


async def test_a_node_tells_the_opentelemetry_of_its_program_what_it_calls(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: provider)
    async with opened(folder) as node, served(node) as url:
        await node.bus.call("rag.ingest", (1, 0), RAIN)
        await chat(url, node.session_token())
    traces = {span.name: span.context.trace_id for span in spans.get_finished_spans()}

    assert "execute_tool rag.ingest-1.0" in traces
    assert traces["execute_tool search_corpus"] == traces["execute_tool rag.query-1.0"] == traces["chat scripted"]


async def test_a_session_token_may_do_everything_and_no_token_nothing(folder: Path) -> None:
    async with opened(folder) as node, served(node) as url:
        for token, code in ((node.session_token(), None), (None, "unauthorized")):
            bus = HttpBus(url, token=token)
            try:
                if code is None:
                    assert (await bus.call("rag.ingest", (1, 0), RAIN))["output"]["chunks_indexed"] == 1
                else:
                    with pytest.raises(BusError) as seen:
                        await bus.call("rag.list_corpora", (1, 0), {})
                    assert seen.value.code == code
            finally:
                await bus.aclose()


async def test_whoever_starts_the_node_again_is_who_asked_before(folder: Path) -> None:
    """A payment with a key is not made a second time because its client has the token of a newer start."""
    replies = []
    for _ in range(2):
        async with opened(folder) as node, served(node) as url:
            token = node.session_token()
            await chat(url, token, **{"Idempotency-Key": "order-17"})
            with JournalReader(folder / ".handrail" / "journal.db") as reader:
                replies.append([entry.type for entry in reader.entries()].count("reply.given"))
            others = (node.session_token("llm.*"), node.session_token("llm.*", "rag.*"))
    assert replies[0] == replies[1] == 2
    assert len({parse_token(str(each)).holder for each in (token, *others)}) == 3


async def test_a_session_token_that_was_revoked_is_not_renewed(folder: Path) -> None:
    ids = []
    for _ in range(3):
        async with opened(folder) as node:
            token = parse_token(str(node.session_token()))
            ids.append(token.id)
            if len(ids) == 1:
                node.tokens.revoke(token.id)
    assert ids[0] != ids[1] == ids[2]


async def test_what_a_rule_denies_is_denied_on_the_bus_too_also_one_that_comes_later(folder: Path) -> None:
    (folder / "sums.toml").write_text(TOOL + "side_effects = true\n")
    config = CONFIG.replace("ensembles = []", 'ensembles = ["sums.toml"]')
    (folder / "handrail.toml").write_text(config)
    stated = AppAdditions(rules=("deny add a=7",))
    async with open_node(load_config(folder / "handrail.toml"), folder / "j" / "journal.db", stated, look=None) as node:

        async def add(a: int) -> str:
            try:
                return str((await node.bus.call("sums.add", (1, 0), {"input": {"a": a, "b": 1}}))["output"]["content"])
            except BusError as error:
                return error.outcome

        before = [await add(1), await add(7)]
        (folder / "handrail.toml").write_text(
            config.replace("default_model", 'rules = ["deny add a=1"]\ndefault_model')
        )
        await node.app.reload()
        after = [await add(1), await add(2), await add(7)]
    assert (before, after) == (["2", "denied"], ["denied", "3", "denied"])
