"""The API of nrv-llm-tool-calls.md over `handrail.compat.nrv`. The document has no code blocks, only inline code."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import json
import re
from typing import Any

import pytest

from handrail.compat import nrv
from handrail.compat.nrv import (
    DuplicateTool,
    InvalidSchema,
    ToolCallStreamEvent,
    ToolDescriptor,
    ToolError,
    ToolInvocation,
    ToolRegistry,
    ToolResult,
    ToolResultStreamEvent,
)
from handrail.core.context import Context
from handrail.core.errors import InvalidDefinition
from handrail.testing.model import ScriptedModel, call, text
from tests.seeds.document_samples import FOLDER

SPANS = re.findall(r"^`(.+)`$", (FOLDER / "nrv.md").read_text(), re.MULTILINE)
OFFERED = {
    "ToolDescriptor": nrv.ToolDescriptor,
    "ToolRegistry": nrv.ToolRegistry,
    "nrv_rs::llm::ToolDescriptor": nrv.ToolDescriptor,
    "nrv_rs::llm::ToolRegistry": nrv.ToolRegistry,
    "ToolRegistry::new()": nrv.ToolRegistry.new,
    ".register(descriptor: ToolDescriptor, handler: ToolHandler)": nrv.ToolRegistry.register,
    ".register()": nrv.ToolRegistry.register,
    ".freeze()": nrv.ToolRegistry.freeze,
    "RegisteredTools": nrv.RegisteredTools,
    "client()": nrv.client,
    "nrv.llm.client({ tools })": nrv.client,
    "ToolHandler = Arc<dyn Fn(ToolInvocation) -> ToolFuture + Send + Sync>": nrv.ToolHandler,
    "type ToolHandler = (invocation: ToolInvocation) => Promise<ToolResult>": nrv.ToolHandler,
    "async fn(&ToolInvocation) -> ToolResult": nrv.ToolHandler,
    "async (invocation: ToolInvocation) => ToolResult": nrv.ToolHandler,
    "ToolInvocation": nrv.ToolInvocation,
    "tool_name": nrv.ToolInvocation.tool_name,
    "input": nrv.ToolInvocation.input,
    "context": nrv.ToolInvocation.__slots__.index("context"),
    "ToolResult": nrv.ToolResult,
    "{ output, warnings?, attachments? }": nrv.ToolResult,
    "ToolError { code, message }": nrv.ToolError,
    'ToolError { code: "TIMEOUT" }': nrv.ToolError,
    "ToolCallStreamEvent": nrv.ToolCallStreamEvent,
    "ToolCall": nrv.ToolCallStreamEvent,
    "createToolRegistry()": nrv.create_tool_registry,
}
"""Where our module has what a span of the document names."""
FIELDS = {
    "name: String": "name",
    "description: String": "description",
    "input_schema: JsonSchema": "input_schema",
    "returns: JsonSchema": "returns",
    "timeout_ms: Option<u32>": "timeout_ms",
}
LISTED = {
    "@nrv/core": "the name of a package for JavaScript",
    "type ToolDescriptor = { name: string; description: string; inputSchema: JsonSchema; "
    "returns?: JsonSchema; timeoutMs?: number }": "JavaScript's spelling, which to_json writes and from_json reads",
}

COUNT = ToolDescriptor(
    name="word-count",
    description="Count the words of a text.",
    input_schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    returns={"type": "integer"},
    timeout_ms=60_000,
)


async def word_count(inv: ToolInvocation) -> ToolResult:
    """Its parameter has a name of its own."""
    assert inv.tool_name == "word-count"
    return ToolResult(len(inv.input["text"].split()), warnings=("counted by spaces",))


def test_every_span_of_the_document_is_offered_or_listed() -> None:
    known = OFFERED.keys() | FIELDS.keys() | LISTED.keys()
    assert [span for span in SPANS if span not in known] == []
    assert [span for span in known if span not in SPANS] == []


@pytest.mark.requirement("nrv.descriptor")
def test_a_descriptor_has_the_documents_fields_and_survives_json_in_both_spellings() -> None:
    assert [each.name for each in dataclasses.fields(ToolDescriptor)] == list(FIELDS.values())
    assert json.loads(COUNT.to_json()).keys() == {"name", "description", "inputSchema", "returns", "timeoutMs"}
    assert ToolDescriptor.from_json(COUNT.to_json()) == COUNT
    assert ToolDescriptor.from_json(json.dumps(dataclasses.asdict(COUNT))) == COUNT


@pytest.mark.requirement("nrv.registry", "nrv.handler")
def test_a_registry_refuses_duplicates_wrong_schemas_and_names_that_are_not_kebab_case() -> None:
    registry = ToolRegistry.new().register(COUNT, word_count)

    with pytest.raises(DuplicateTool):
        registry.register(COUNT, word_count)
    with pytest.raises(InvalidSchema):
        registry.register(dataclasses.replace(COUNT, name="other", input_schema={"properties": 7}), word_count)
    with pytest.raises(InvalidDefinition):
        registry.register(dataclasses.replace(COUNT, name="wordCount"), word_count)
    assert "handler" in inspect.signature(registry.register).parameters
    assert len(registry.freeze()) == 1


@pytest.mark.requirement("nrv.lifecycle", "nrv.handler", "nrv.result")
async def test_a_handler_with_a_parameter_of_any_name_answers_the_calls_of_a_stream() -> None:
    seen: list[Any] = []

    async def refuse(request: ToolInvocation) -> Any:
        seen.append(request.context.auxdata["tenant"])
        return ToolError("NOT_FOUND", "no such text")

    async def hang(i: ToolInvocation) -> None:
        await asyncio.Event().wait()

    registry = nrv.create_tool_registry()
    registry.register(COUNT, word_count)
    registry.register(dataclasses.replace(COUNT, name="refuse", returns=None), refuse)
    registry.register(dataclasses.replace(COUNT, name="hang", returns=None, timeout_ms=10), hang)
    calls = [call(name, f"inv_{name}", text="one two") for name in ("word-count", "refuse", "hang")]
    client = nrv.client(tools=registry.freeze(), model=ScriptedModel(calls, [text("Two.")]))
    events = [event async for event in client.stream("How many?", Context(auxdata={"tenant": "t1"}))]
    await client.aclose()

    asked = [event.descriptor_name for event in events if isinstance(event, ToolCallStreamEvent)]
    answers = {
        event.invocation_id: json.loads(event.payload_json)
        for event in events
        if isinstance(event, ToolResultStreamEvent)
    }
    assert asked == ["word-count", "refuse", "hang"]
    assert answers["inv_word-count"] == {"output": 2, "warnings": ["counted by spaces"]}
    assert answers["inv_refuse"] == {"error": {"code": "NOT_FOUND", "message": "no such text"}}
    assert answers["inv_hang"]["error"]["code"] == "TIMEOUT"
    assert seen == ["t1"]
