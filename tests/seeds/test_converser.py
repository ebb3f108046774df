"""The flow of converser-invocables.md as a program, import lines and names of messages aside."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from handrail import Conversation, Ensemble, ToolError, ToolResult
from handrail.compat.converser.mcp_servers import MCPClient, create_invoker_from_mcp_tool
from handrail.compat.converser.processor import Context, InvocationsProcessor
from handrail.core.messages import AssistantMessage, InvocationMessage, ResultMessage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.sessions.store.conversations import ConversationStore
from handrail.testing.model import ScriptedModel, text


def load_invoker_descriptors(ensemble: str) -> dict[str, Any]:
    assert ensemble == "io"
    path = {"type": "string", "description": "Absolute path to file"}
    return {
        "read_file": {
            "description": "Read contents of a file",
            "arguments": {"type": "object", "required": ["path"], "properties": {"path": path}},
            "command": ["cat", "{path}"],
            "side_effects": False,
            "deduplicator": "exact",
        }
    }


@pytest.mark.requirement("converser.processor")
@pytest.mark.requirement("converser.canisters")
async def test_the_invocation_flow_in_code(tmp_path: Path) -> None:
    report = tmp_path / "report.txt"
    report.write_text("All is well.")

    # 1. Setup: Register tools in ensembles
    io_ensemble = Ensemble(name="io")
    await io_ensemble.prepare_invokers(descriptors=load_invoker_descriptors("io"), defaults={"timeout": 30})

    # 2. LLM requests tool call
    assistant_message = {
        "role": "assistant",
        "tool_calls": [
            {
                "id": "call_abc123",
                "type": "function",
                "function": {"name": "read_file", "arguments": json.dumps({"path": str(report)})},
            }
        ],
    }

    # 3. InvocationsProcessor finds and executes invoker
    processor = InvocationsProcessor(ensembles=[io_ensemble])
    invoker = processor.find_invoker("read_file")

    # 4. Check for duplicates
    assert invoker.deduplicator
    assert not invoker.deduplicator.is_duplicate("read_file", {"path": str(report)})

    # 5. Execute invoker
    context = Context(auxdata={}, invoker=invoker, namespace={})
    result = await invoker(context, {"path": str(report)})
    invoker.deduplicator.record("read_file", {"path": str(report)})
    assert invoker.deduplicator.is_duplicate("read_file", {"path": str(report)})

    # 6. Create Result canister
    result_canister = ResultMessage(ToolResult("call_abc123", "read_file", result))

    # 7. Send back to LLM
    conversation = Conversation().say("What does the report say?")
    conversation = conversation.add(*processor.normalize(assistant_message, "openai"), result_canister)
    model = ScriptedModel([text("All is well, it says.")])
    response = [event async for event in model.stream(ModelRequest(messages=conversation.messages))]

    assert "All is well." in str(result)
    assert response[0] == text("All is well, it says.")
    assert [type(message) for message in conversation.messages] == [
        UserMessage,
        AssistantMessage,
        InvocationMessage,
        ResultMessage,
    ]
    store = ConversationStore(tmp_path / "conversations")
    store.save("c", conversation)
    assert ConversationStore(tmp_path / "conversations").load("c") == conversation
    await processor.aclose()
    await io_ensemble.close()


WEATHER_SERVER = """#!{python}
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("weather-server")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def get_weather(location: str) -> str:
    return f"It is sunny in {{location}}."


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def get_forecast(location: str, days: int) -> dict[str, int]:
    return {{"days": days}}


server.run()
"""


@pytest.mark.requirement("converser.mcp-client")
@pytest.mark.requirement("converser.ensemble")
async def test_tools_on_an_mcp_server_become_invokers_of_an_ensemble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "weather-server"
    program.write_text(WEATHER_SERVER.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    io_ensemble = Ensemble(name="io")

    # Connect to MCP server and discover tools
    mcp_client = MCPClient("stdio://weather-server")
    tools = await mcp_client.list_tools()

    # Create invokers from MCP tools
    for tool in tools:
        invoker = create_invoker_from_mcp_tool(tool, mcp_client)
        io_ensemble.register(invoker)

    processor = InvocationsProcessor(ensembles=[io_ensemble])
    found = processor.find_invoker("io:get_weather")
    context = Context(auxdata={}, invoker=found, namespace={})
    assert found.arguments_schema == tools[0].input_schema
    assert found.deduplicator is None, "MCP tools handle caching internally"
    assert "sunny in Lisbon" in str(await found(context, {"location": "Lisbon"}))
    assert await processor.find_invoker("get_forecast")(context, {"location": "Lisbon", "days": 3}) == {"days": 3}
    assert "sunny in Porto" in str(await mcp_client.call_tool("get_weather", {"location": "Porto"}))
    with pytest.raises(ToolError, match="location"):
        await mcp_client.call_tool("get_weather", {})
    await processor.aclose()
    await mcp_client.aclose()
