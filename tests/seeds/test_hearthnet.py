"""The flow of hearthnet-tool-calls.md as a program: definitions, an executor on a bus, a chat, and a confirmation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from handrail import CapabilityBus, ToolCall, ToolDefinition, ToolError, ToolExecutor, ToolResult
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import RouteRequest
from handrail.node.services.llm import LlmService
from handrail.testing.model import ScriptedModel, call, text

CHUNKS = [{"rank": 1, "text": "Regenwasser wird in der Zisterne gesammelt."}]


async def rag_query(request: RouteRequest) -> dict[str, Any]:
    assert request.body == {"params": {"corpus": "niederrhein-emergency"}, "input": {"query": "Regenwasser"}}
    return {"output": {"chunks": CHUNKS}}


async def market_post(request: RouteRequest) -> dict[str, Any]:
    return {"output": {"event_id": "e1", "lamport": 1}}


@pytest.fixture
async def bus() -> AsyncIterator[CapabilityBus]:
    async with CapabilityBus() as bus:
        bus.register(CapabilityDescriptor(name="rag.query"), rag_query)
        bus.register(CapabilityDescriptor(name="market.post", side_effects=True), market_post)
        yield bus


# ToolDefinition: what the document calls a tool the caller offers to the LLM.
QUERY = ToolDefinition.from_dict(
    {
        "name": "rag.query",
        "description": "Search a corpus (Suche in einer Sammlung).",
        "parameters_schema": {
            "type": "object",
            "properties": {"query": {"type": "string"}, "corpus": {"type": "string"}},
            "required": ["query", "corpus"],
        },
        "binding": {"capability": "rag.query", "version": [1, 0], "params": ["corpus"]},
        "side_effects": False,
    }
)
POST = ToolDefinition.from_dict(
    {
        "name": "market.post",
        "description": "Post to the marketplace.",
        "parameters_schema": {"type": "object", "properties": {"title": {"type": "string"}}},
        "bound_capability": "market.post",
        "bound_version": [1, 0],
        "side_effects": True,
    }
)


@pytest.mark.requirement("hearthnet.executor.construct", "hearthnet.executor.run", "hearthnet.frames")
async def test_the_flow_of_the_document_runs_as_it_is_shown(bus: CapabilityBus) -> None:
    arguments = {"query": "Regenwasser", "corpus": "niederrhein-emergency"}
    bus.register_service(
        LlmService(
            {"any": ScriptedModel([text("I'll search "), call("rag.query", "tc_1", **arguments)], [text("Ja.")])}
        )
    )
    executor = ToolExecutor(bus, [QUERY, POST], max_iterations=6, per_tool_timeout_seconds=30)
    frames: list[dict[str, Any]] = []

    async def stream_to(frame: dict[str, Any]) -> None:
        frames.append(frame)

    message = await executor.run_chat_with_tools(
        {"input": {"messages": [{"role": "user", "content": "Regenwasser?"}]}}, stream_to=stream_to
    )

    assert message == {"role": "assistant", "content": "Ja."}
    assert frames[0] == {"event": "token", "data": {"text": "I'll search "}}
    assert frames[2] == {"event": "tool_call", "data": {"id": "tc_1", "name": "rag.query", "arguments": arguments}}
    assert [frame["event"] for frame in frames].count("done") == 1

    result = await executor.dispatch(ToolCall(id="tc_2", name="rag.query", arguments=arguments))
    assert isinstance(result, ToolResult)
    assert (result.tool_call_id, result.name, result.content, result.is_error) == (
        "tc_2",
        "rag.query",
        {"chunks": CHUNKS},
        False,
    )


@pytest.mark.requirement("hearthnet.confirmation")
async def test_a_side_effect_is_confirmed_as_it_is_shown(bus: CapabilityBus) -> None:
    executor = ToolExecutor(bus, [QUERY, POST])
    post = ToolCall(id="tc_1", name="market.post", arguments={"title": "Eier"})

    try:
        await executor.dispatch(post)
    except ToolError as error:
        assert str(error) == "requires_confirmation"
        result = await executor.dispatch_confirmed(post)  # user clicks yes

    assert result.content == {"event_id": "e1", "lamport": 1}
