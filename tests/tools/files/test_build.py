"""Descriptors become tools: their facts, and bodies in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handrail.core.invocation import Invocation
from handrail.tools.ensemble import ToolDefaults
from handrail.tools.files.build import build_tool, read_defaults
from handrail.tools.sandbox_access import SandboxAccess
from handrail.tools.tool import Retry
from tests.tools.files.tool_file_calls import call, texts

SAMPLES = "tests.tools.files.sample_functions"


def test_every_fact_of_a_descriptor_reaches_the_tool() -> None:
    tool = build_tool(
        {
            "name": "write",
            "enabled": True,
            "description": "Write it.",
            "arguments": texts("path"),
            "returns": {"type": "string"},
            "side_effects": True,
            "idempotent": True,
            "timeout": 5,
            "max_retries": 0,
            "deduplicator": {"kind": "window", "seconds": 60},
            "concurrency": 2,
            "max_output": 100,
            "repair": True,
            "tags": ["files"],
            "models": ["local"],
            "resource": "path",
        }
    )
    assert tool.definition.to_dict() == {
        "name": "write",
        "description": "Write it.",
        "input_schema": texts("path"),
        "output_schema": {"type": "string"},
        "side_effects": True,
        "idempotent": True,
        "timeout": 5.0,
        "tags": ("files",),
        "models": ("local",),
    }
    assert (tool.retry, tool.concurrency, tool.max_output, tool.repair) == (Retry(attempts=1), 2, 100, True)
    assert tool.deduplicator == {"kind": "window", "seconds": 60}
    assert tool.resource is not None
    assert tool.resource({"path": "a"}) == tool.resource({"path": "a"}) == "a"
    assert hash(tool.resource({"path": ["a"]})) != hash(tool.resource({"path": ["b"]}))


def test_what_a_sandboxed_tool_may_use_is_read_and_its_paths_begin_at_the_file(tmp_path: Path) -> None:
    descriptor = {"name": "shout", "python": f"{SAMPLES}:shout", "isolation": "sandbox"}
    access = {"read": ["data"], "memory_bytes": 1000, "cpu_seconds": 2, "disk_bytes": 10, "reuse": False}
    assert build_tool(descriptor, base=tmp_path).sandbox is None
    assert build_tool({**descriptor, "sandbox": access}, base=tmp_path).sandbox == SandboxAccess(
        read=(tmp_path / "data",), memory_bytes=1000, cpu_seconds=2.0, disk_bytes=10, reuse=False
    )


def test_defaults_are_read_and_kept_as_given() -> None:
    assert read_defaults({}) == ToolDefaults()
    assert read_defaults({"timeout": 30, "max_retries": 3, "deduplicator": "exact", "max_output": 9}) == ToolDefaults(
        timeout=30.0, max_retries=3, deduplicator="exact", max_output=9
    )


async def test_the_signature_is_the_schema_unless_the_descriptor_has_one() -> None:
    tool = build_tool({"name": "loud", "python": f"{SAMPLES}:shout"})
    assert tool.definition.input_schema["properties"]["text"]["description"] == "What to say."
    assert tool.definition.description == "Say it loudly."
    assert not tool.definition.side_effects
    assert await call(tool, text="a") == "A"
    told = build_tool({"name": "loud", "python": f"{SAMPLES}:shout", "arguments": texts("text")})
    assert told.definition.input_schema == texts("text")
    assert await call(told, text="b") == "B"


async def test_arguments_are_converted_to_the_types_of_the_function() -> None:
    assert await call(build_tool({"name": "stem", "python": f"{SAMPLES}:stem"}), path="a/b.txt") == "b"


async def test_a_function_of_context_and_arguments_takes_what_the_schema_says() -> None:
    tool = build_tool({"name": "echo", "python": f"{SAMPLES}:echo", "arguments": texts("word")})
    assert await call(tool, word="hi") == {"tool": "echo", "word": "hi"}
    bare = build_tool({"name": "echo", "python": f"{SAMPLES}:echo"})
    assert bare.definition.input_schema == {"type": "object", "properties": {}}


async def test_the_facts_of_a_tool_hold_where_the_descriptor_says_nothing() -> None:
    tool = build_tool({"name": "post", "python": f"{SAMPLES}:send", "timeout": 3})
    assert (tool.name, tool.definition.timeout, tool.definition.side_effects) == ("post", 3.0, True)
    assert (tool.definition.description, tool.definition.tags) == ("Send a letter.", ("mail",))
    assert await call(tool, to="you") == "sent to you"
    assert not build_tool({"name": "post", "python": f"{SAMPLES}:send", "side_effects": False}).definition.side_effects


async def test_an_attribute_of_an_attribute_can_be_the_body() -> None:
    assert await call(build_tool({"name": "size", "python": f"{SAMPLES}:Box.size"})) == 3


async def test_handlers_of_every_style_are_called_in_theirs() -> None:
    def by_context(context: Invocation, arguments: dict[str, Any]) -> Any:
        return arguments["path"]

    def by_name(name: str, args: dict[str, Any]) -> Any:
        return f"{name} {args['path']}"

    async def by_invocation(invocation: Invocation) -> Any:
        return invocation.arguments["path"]

    answers = [
        await call(build_tool({"name": "t", "arguments": texts("path")}, handlers={"t": handler}), path="p")
        for handler in (by_context, by_name, by_invocation, lambda path: path)
    ]
    assert answers == ["p", "t p", "p", "p"]


@pytest.mark.parametrize(
    ("body", "effects"),
    [
        ({"command": ["true"]}, True),
        ({"command": ["true"], "side_effects": False}, False),
        ({"http": {"url": "http://h/"}}, False),
        ({"http": {"url": "http://h/", "method": "HEAD"}}, False),
        ({"http": {"url": "http://h/", "method": "POST"}}, True),
        ({"http": {"url": "http://h/", "method": "POST"}, "side_effects": False}, False),
        ({}, False),
    ],
)
def test_what_may_change_something_counts_as_a_side_effect_until_the_file_says_otherwise(
    body: dict[str, Any], effects: bool
) -> None:
    assert build_tool({"name": "t", **body}).definition.side_effects is effects
