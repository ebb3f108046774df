"""What is served of a node: each caller has their own conversations and proofs, and rights that nothing widens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from handrail.app.mcp_serving import open_served
from handrail.config.load import load_config
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.messages import ResultMessage
from handrail.mcp.server.definition import McpCaller, McpServerDefinition
from handrail.mcp.values import ResourceBody
from handrail.sessions.store.conversations import ConversationStore
from tests.app.app_folder import AppFolder

SCRIPT = """
[[reply]]
when = "look"
calls = [{ name = "dedent", arguments = { text = "  seen" } }]
[[reply]]
when = "look"
error = "model_unavailable"
text = "out of order"
[[reply]]
when = "hello"
text = "Hello!"
"""
BOX = """
[ensemble]
name = "box"
[[invokers]]
name = "dedent"
python = "textwrap:dedent"
side_effects = false
arguments = { text = { type = "string" } }
"""
CONFIG = """
ensembles = ["box.toml"]
[models.demo]
provider = "scripted"
model = "script.toml"
[serve]
converse = true
conversations = true
proofs = true
"""


@asynccontextmanager
async def serving(place: AppFolder, config: str = CONFIG) -> AsyncIterator[McpServerDefinition]:
    (place.folder / "script.toml").write_text(SCRIPT)
    (place.folder / "box.toml").write_text(BOX)
    journal = place.folder / ".handrail" / "journal.db"
    async with open_served(load_config(place.config(config)), journal, person=place.person, version="1") as served:
        yield served


async def say(
    served: McpServerDefinition, subject: str | None, message: str, conversation: str = "", **more: Any
) -> ToolResult:
    principal = served.principal(McpCaller(protocol="x", subject=subject))
    arguments = {"message": message} | ({"conversation": conversation} if conversation else {})
    return await served.invoker.invoke(ToolCall("", "converse", arguments), Context(principal=principal, **more))


async def readable(served: McpServerDefinition, subject: str | None) -> set[str]:
    served.principal(McpCaller(protocol="x", subject=subject))
    return {each.uri for source in served.resources for each in await source.list() if not each.template}


async def read(served: McpServerDefinition, subject: str | None, uri: str) -> Sequence[ResourceBody] | None:
    served.principal(McpCaller(protocol="x", subject=subject))
    bodies = [await source.read(uri) for source in served.resources]
    return next(filter(None, bodies), None)


@pytest.mark.parametrize(("owner", "others"), [("ada", ("eve", None)), (None, ("ada",))])
async def test_a_conversation_and_its_proof_are_the_callers_and_nobody_else_finds_them(
    place: AppFolder, owner: str | None, others: tuple[str | None, ...]
) -> None:
    async with serving(place) as served:
        begun = await say(served, owner, "hello")
        data = json.loads(begun.text)
        ours = {f"conversation://{data['conversation']}", f"proof://{data['run']}"}
        again = await say(served, owner, "hello", data["conversation"])
        own = await readable(served, owner)
        texts = [await read(served, owner, uri) for uri in ours]
        for other in others:
            refused = await say(served, other, "hello", data["conversation"])
            assert refused.outcome == "failed"
            assert "there is no conversation" in refused.text
            assert not ours & await readable(served, other)
            assert [await read(served, other, uri) for uri in ours] == [None, None]

    assert (begun.outcome, again.outcome) == ("ok", "ok")
    assert ours <= own
    assert all(texts)


async def test_what_was_done_before_a_model_failed_is_in_the_conversation_that_goes_on(place: AppFolder) -> None:
    async with serving(place) as served:
        first = json.loads((await say(served, None, "hello")).text)
        failed = await say(served, None, "look", first["conversation"])
        again = await say(served, None, "hello", first["conversation"])
    store = ConversationStore(place.folder / ".handrail")
    results = [each for each in store.load(first["conversation"]).messages if isinstance(each, ResultMessage)]

    assert (failed.outcome, again.outcome) == ("failed", "ok")
    assert first["conversation"] in failed.text
    assert [each.result.text for each in results] == ["seen"]


async def test_a_model_has_no_more_rights_than_the_call_that_asks_it(place: AppFolder) -> None:
    async with serving(place) as served:
        first = json.loads((await say(served, None, "hello")).text)
        await say(served, None, "look", first["conversation"], scopes=("converse",))
    store = ConversationStore(place.folder / ".handrail")
    results = [each for each in store.load(first["conversation"]).messages if isinstance(each, ResultMessage)]

    assert [each.result.outcome for each in results] == ["forbidden"]
