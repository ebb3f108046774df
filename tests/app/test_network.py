"""A node put together from its configuration: what it offers, to whom, and with whose rights its models call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from handrail.app.network import NetworkNode, open_node
from handrail.app.person import Person
from handrail.bus.http.bus import HttpBus
from handrail.bus.tokens.scope import Scope
from handrail.bus.tokens.token import issue
from handrail.config.load import load_config
from handrail.config.values import STANDARD_SET
from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.faces.builtin import BUILTIN
from handrail.server.serving import serve

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
"""
RAIN = {"params": {"corpus": "docs"}, "input": {"text": "Rainwater must be filtered.", "title": "Rain"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("handrail.toml", CONFIG), ("replies.toml", REPLIES), ("sums.toml", TOOL), ("sums.py", CODE)):
        (tmp_path / name).write_text(text)
    return tmp_path


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


async def chat(url: str, token: str) -> dict[str, Any]:
    asked = {"model": "scripted", "messages": [{"role": "user", "content": "May I drink rain?"}]}
    headers = {"authorization": f"Bearer {token}"}
    path = f"{url}/v1/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(path, json=asked, headers=headers) as answer:
        said: dict[str, Any] = await answer.json()
        return said


async def results(node: NetworkNode) -> list[tuple[str, str]]:
    """What became of the calls of models, of every run in the record."""
    telemetry = node.server().telemetry
    assert telemetry is not None
    return [(each["tool"], ",".join(each["failed"]) or "ok") for each in telemetry() if each["picked"]]


async def test_a_node_offers_its_services_and_leaves_out_what_is_switched_off(folder: Path) -> None:
    async with opened(folder) as node:
        there = await names(node)

    assert {"llm.chat@1.0", "llm.chat@2.0", "llm.tools.call@1.0", "rag.query@1.0", "chat.send@1.0"} <= there
    assert {"auth.token.issue@1.0", "peers.list@1.0", "stt.transcribe@1.0", "img.describe@1.0"} <= there
    assert "market.list@1.0" not in there
    assert set(STANDARD_SET) <= set(BUILTIN)


@pytest.mark.requirement("hearthnet.authority")
async def test_a_model_of_the_gateway_searches_with_the_rights_of_whoever_asks(folder: Path) -> None:
    async with opened(folder) as node, served(node) as url:
        await node.bus.call("rag.ingest", (1, 0), RAIN)
        allowed = await chat(url, lent(node, "llm.chat@2.0", "rag.query@1.0"))
        first = await results(node)
        refused = await chat(url, lent(node, "llm.chat@2.0"))
        second = await results(node)

    assert allowed["choices"][0]["message"]["content"] == "Filter it."
    assert ("search_corpus", "ok") in first
    assert refused["choices"][0]["message"]["content"] == "Filter it."
    assert ("search_corpus", "forbidden") in second


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
