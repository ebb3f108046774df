"""The lifecycle of nrv-llm-tool-calls.md as a program: a registry, a client, a stream."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from handrail import Invocation as ToolInvocation, ToolDefinition, ToolRegistry
from handrail.compat import nrv
from handrail.core.errors import DuplicateTool
from handrail.journal.auditing import audit
from handrail.journal.journal import SqliteJournal
from handrail.testing.model import ScriptedModel, call, text

DESCRIPTOR = {
    "name": "word-count",
    "description": "Count the words of a text.",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    "returns": {"type": "integer"},
    "timeout_ms": 1000,
}


async def word_count(invocation: ToolInvocation) -> int:
    assert invocation.tool_name == "word-count"
    return len(invocation.input["text"].split())


@pytest.mark.requirement("nrv.lifecycle")
async def test_a_tool_call_of_the_stream_is_validated_executed_and_answered_and_the_proof_verifies(
    tmp_path: Path,
) -> None:
    # 1. Caller assembles ToolRegistry with descriptors + implementation handles.
    registry = ToolRegistry(names="kebab")
    registry.register(ToolDefinition.from_dict(DESCRIPTOR), word_count)
    with pytest.raises(DuplicateTool):
        registry.register(DESCRIPTOR, word_count)
    tools = registry.freeze()

    # 2. client({ tools }) registers the tool set and validates schemas.
    model = ScriptedModel([call("word-count", "inv_1", text="one two"), call("word-count", text=2)], [text("Two.")])
    sink = await SqliteJournal.open(tmp_path / "proof.db")
    client = nrv.client(tools=tools, model=model, proof_sink=sink)

    # 3. When the orchestrator streams a ToolCall event, the runtime validates, executes, emits ToolResult.
    events = [event async for event in client.stream("How many words are in 'one two'?")]

    kinds = [event.__struct_config__.tag for event in events]
    assert (kinds[0], kinds[-1]) == ("Started", "Completed")
    assert kinds.count("ToolCall") == kinds.count("ToolResult") == 2
    assert {
        json.loads(each.payload_json).get("output") for each in events if isinstance(each, nrv.ToolResultStreamEvent)
    } == {
        2,
        None,
    }

    # 4. Proof bundle records invocation request, serialized payload, result, and duration.
    await client.aclose()
    await sink.aclose()
    assert audit(tmp_path / "proof.db").ok
