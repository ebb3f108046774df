"""What a person may ask first: prompts made of the tools that are there, for an empty conversation. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from handrail.desk.values import ExampleInput, ExamplePrompt
from handrail.tools.finder import description_line
from handrail.tools.tool import Tool

MOST = 4
_WORDS = 160
_VALUE = 60
_SENTENCE = re.compile(r".+?[.!?](?=\s|$)")


def example_prompts(tools: Iterable[Tool], most: int = MOST) -> tuple[ExamplePrompt, ...]:
    """The first sentences of some tools, with the arguments that each needs. Tools that only read come first, and of
    those the ones that need least; one that needs a secret, or is deprecated, is left out."""
    fit = [tool for tool in tools if description_line(tool) and not _is_left_out(tool)]
    fit.sort(key=lambda tool: (not tool.reads, len(_required(tool))))
    return tuple(map(_prompt, fit[:most]))


def _prompt(tool: Tool) -> ExamplePrompt:
    line = description_line(tool)
    found = _SENTENCE.match(line)
    says = (line if found is None else found[0]).rstrip(".…")[:_WORDS]
    properties = tool.definition.input_schema.get("properties", {})
    inputs = tuple(ExampleInput(name=name, value=_example(properties.get(name))) for name in _required(tool))
    return ExamplePrompt(tool=tool.scoped_name, says=says, inputs=inputs, reads=tool.reads)


def _is_left_out(tool: Tool) -> bool:
    schema = tool.definition.input_schema
    deprecated = "deprecated" in tool.definition.tags or schema.get("deprecated") is True
    return deprecated or any(name in tool.secrets for name in _required(tool))


def _required(tool: Tool) -> tuple[str, ...]:
    required = tool.definition.input_schema.get("required", ())
    return tuple(name for name in required if isinstance(name, str))


def _example(schema: Any) -> str:
    """A value that the schema itself names, or an empty text."""
    if not isinstance(schema, dict):
        return ""
    for key in ("examples", "enum"):
        if isinstance(values := schema.get(key), list) and values:
            return _written(values[0])
    return _written(schema["const"]) if "const" in schema else ""


def _written(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _VALUE else ""
