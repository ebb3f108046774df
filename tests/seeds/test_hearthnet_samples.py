"""Every code block of hearthnet-tool-calls.md over `handrail.compat.hearthnet`, run or listed with the reason."""

from __future__ import annotations

import ast
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from handrail.compat import hearthnet
from handrail.compat.hearthnet import (
    CapabilityBus,
    Config,
    LlmService,
    RouteRequest,
    ToolCall,
    ToolDefinition,
    ToolError,
    ToolExecutor,
    ToolResult,
)
from handrail.core.errors import BusError
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.testing.model import ScriptedModel, call, text
from tests.seeds.document_samples import Coverage, names_of, not_offered, run

DOCUMENT = Coverage(
    "hearthnet",
    listed={
        1: "a drawing of folders and files",
        5: "a message with elided parts ([...]); tests/server holds WebSocket's tool_result",
        6: "pseudo-code with elided parts ({...}); test_the_flow_of_the_document covers asking again over SSE",
        7: "a list of steps in words; test_a_side_effect_is_confirmed_as_the_steps_say goes through them",
    },
)
GIVEN = {**names_of(hearthnet), "Awaitable": Awaitable, "Callable": Callable}
ARGUMENTS = {"query": "Regenwasser", "corpus": "niederrhein-emergency"}
CHUNKS = [{"rank": 1, "text": "Regenwasser wird in der Zisterne gesammelt."}]
QUERY = ToolDefinition(
    name="rag.query",
    description="Search a corpus (Suche in einer Sammlung).",
    parameters_schema={
        "type": "object",
        "properties": {"query": {"type": "string"}, "corpus": {"type": "string"}},
        "required": ["query", "corpus"],
    },
    bound_capability="rag.query",
    bound_version=(1, 0),
    side_effects=False,
)
POST = ToolDefinition(
    name="market.post",
    description="Post to the marketplace.",
    parameters_schema={"type": "object", "properties": {"title": {"type": "string"}}},
    bound_capability="market.post",
    bound_version=(1, 0),
    side_effects=True,
)


async def rag_query(request: RouteRequest) -> dict[str, Any]:
    assert request.body == {"input": ARGUMENTS}
    return {"output": {"chunks": CHUNKS}}


async def market_post(request: RouteRequest) -> dict[str, Any]:
    return {"output": {"event_id": "e1"}}


@pytest.fixture
async def bus() -> AsyncIterator[CapabilityBus]:
    async with CapabilityBus() as bus:
        bus.register(CapabilityDescriptor(name="rag.query"), rag_query)
        bus.register(CapabilityDescriptor(name="market.post", side_effects=True), market_post)
        yield bus


def test_every_block_of_the_document_is_run_or_listed() -> None:
    assert len(DOCUMENT.blocks) == 9
    assert DOCUMENT.problems() == []


@DOCUMENT.runs(2)
@pytest.mark.requirement("hearthnet.definition", "hearthnet.call-and-result")
async def test_the_data_types_of_the_document_are_offered_with_exactly_its_fields() -> None:
    theirs = await run(DOCUMENT.code(2), {})

    assert not_offered(DOCUMENT.code(2), hearthnet) == []
    for name in ("ToolDefinition", "ToolResult"):
        ours, shown = getattr(hearthnet, name), theirs[name]
        assert [each.name for each in dataclasses.fields(ours)] == [each.name for each in dataclasses.fields(shown)]
    for value in (QUERY, ToolCall("tc_1", "rag.query", {}), ToolResult("tc_1", "rag.query", {}, is_error=False)):
        with pytest.raises(AttributeError):
            value.name = "other"  # type: ignore[misc]  # they are frozen


@DOCUMENT.runs(3)
@pytest.mark.requirement("hearthnet.executor.construct", "hearthnet.executor.dispatch")
async def test_the_executor_of_the_document_is_offered_and_dispatches_its_definitions(bus: CapabilityBus) -> None:
    listing = DOCUMENT.code(3)
    await run(listing, GIVEN)
    assert not_offered(listing, hearthnet) == []

    executor = ToolExecutor(bus, [QUERY, POST], max_iterations=6, per_tool_timeout_seconds=30)
    found = await executor.dispatch(ToolCall("tc_1", "rag.query", ARGUMENTS))
    wrong = await executor.dispatch(ToolCall("tc_2", "rag.query", {"query": 7}))

    assert found == ToolResult("tc_1", "rag.query", {"chunks": CHUNKS}, is_error=False)
    assert isinstance(wrong, ToolResult) and wrong.is_error and wrong.content.startswith("invalid_arguments:")
    assert [each["name"] for each in executor.native_definitions] == ["rag.query", "market.post"]


@DOCUMENT.runs(4)
@pytest.mark.requirement("hearthnet.frames", "hearthnet.executor.run")
async def test_the_flow_of_the_document_gives_its_frames(bus: CapabilityBus) -> None:
    """The deltas of the document stop in the middle of the arguments; their fields are compared, not their pieces."""
    lines = [line for line in DOCUMENT.code(4).splitlines() if line]
    shown = [
        {"event": event.removeprefix("event: "), "data": json.loads(data.removeprefix("data: "))}
        for event, data in zip(lines[::2], lines[1::2], strict=True)
    ]
    script = [text("I'll search "), call("rag.query", "tc_1", **ARGUMENTS)]
    bus.register_service(LlmService({"any": ScriptedModel(script, [text("Ja.")])}))
    frames: list[dict[str, Any]] = []

    async def stream_to(frame: dict[str, Any]) -> None:
        frames.append(frame)

    body = {"input": {"messages": [{"role": "user", "content": "Regenwasser?"}]}}
    message = await ToolExecutor(bus, [QUERY, POST]).run_chat_with_tools(body, stream_to=stream_to)

    assert message == {"role": "assistant", "content": "Ja."}
    assert (frames[0], frames[2]) == (shown[0], shown[3])
    assert frames[1]["event"] == "tool_call_delta" and frames[1]["data"].keys() == shown[1]["data"].keys()
    assert [frame["event"] for frame in frames].count("done") == 1


@pytest.mark.requirement("hearthnet.confirmation")
async def test_a_side_effect_is_confirmed_as_the_steps_say(bus: CapabilityBus) -> None:
    executor = ToolExecutor(bus, [POST])
    post = ToolCall("tc_1", "market.post", {"title": "Eier"})

    with pytest.raises(ToolError, match=r"^requires_confirmation$"):
        await executor.dispatch(post)
    done = await executor.dispatch_confirmed(post)

    assert done == ToolResult("tc_1", "market.post", {"event_id": "e1"}, is_error=False)


@DOCUMENT.runs(8)
@pytest.mark.requirement("hearthnet.tools-call")
async def test_the_handler_of_llm_tools_call_is_offered_and_takes_a_target_version(bus: CapabilityBus) -> None:
    (listed,) = ast.parse(DOCUMENT.code(8)).body
    assert isinstance(listed, ast.AsyncFunctionDef)
    assert hasattr(LlmService, listed.name)

    bus.register_service(LlmService({"m": ScriptedModel()}))
    said = {"target_capability": "rag.query", "target_version": [1, 0], "target_body": ARGUMENTS}
    answer = await bus.call("llm.tools.call", (1, 0), {"input": said})
    with pytest.raises(BusError) as gone:
        await bus.call("llm.tools.call", (1, 0), {"input": {**said, "target_version": "2.0"}})

    assert answer["output"] == {"chunks": CHUNKS}
    assert gone.value.code == "schema_mismatch", "there is no version 2 of it"


@DOCUMENT.runs(9)
@pytest.mark.requirement("hearthnet.config")
async def test_the_settings_of_the_document_are_those_that_an_executor_is_made_of(bus: CapabilityBus) -> None:
    ran = await run(DOCUMENT.code(9), {"config": Config()})

    config = ran["config"]
    assert config.llm == dataclasses.replace(Config().llm, tools_default_set=config.llm.tools_default_set)
    executor = ToolExecutor.from_config(bus, config.llm, [POST])
    offered = [each["name"] for each in executor.native_definitions]
    assert offered == ["search_corpus", "list_corpora", "translate", "list_marketplace", "market.post"]
