"""What to put into a request so that a server holds the model to a schema: each kind of server has its own fields."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct, field

from handrail.core.model_request import ModelRequest, NamedTool, ToolOffer
from handrail.models.grammar.call_grammar import call_begins_with_mark, call_schema, tool_call_grammar
from handrail.models.prompted.formats import CallFormat

Server = Literal["llama.cpp", "vllm", "ollama", "openai"]
"""Kinds of server by how they take constraints; `openai` is any that takes `response_format`."""
Fields = dict[str, Any]


class ConstraintFields(Struct, frozen=True):
    """Fields for the wire body, and what they do not enforce."""

    fields: Fields = field(default_factory=dict)
    notices: tuple[str, ...] = ()


def schema_fields(schema: dict[str, Any], server: Server, *, name: str = "reply") -> Fields:
    """Fields that hold the whole reply to a schema. These servers read schemas themselves."""
    return _SCHEMA[server](schema, name)


_SCHEMA: dict[Server, Callable[[dict[str, Any], str], Fields]] = {
    "llama.cpp": lambda schema, name: {"json_schema": schema},
    "vllm": lambda schema, name: {"structured_outputs": {"json": schema}},
    "ollama": lambda schema, name: {"format": schema},
    "openai": lambda schema, name: {
        "response_format": {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}
    },
}


def tool_call_fields(request: ModelRequest, format: CallFormat, server: Server | None) -> ConstraintFields:
    """The fields that hold the model to the tools of a request, as calls of a format.

    Raises:
        InvalidSchema: No grammar can be made of a tool's schema.
    """
    choice = request.tool_choice
    must = choice == "required" or isinstance(choice, NamedTool)
    tools = tuple(tool for tool in request.tools if not isinstance(choice, NamedTool) or tool.name == choice.name)
    if not tools or choice == "none":
        return ConstraintFields(notices=("no tools are offered; tool_choice has no effect",) if must else ())
    match server:
        case "llama.cpp":
            return _by_grammar(tools, format, lambda text: {"grammar": text}, parallel=request.parallel, must=must)
        case "vllm" if not must:
            return (
                ConstraintFields(structural_tag(tools, format)) if call_begins_with_mark(format) else ConstraintFields()
            )
        case "vllm":
            return _by_grammar(
                tools,
                format,
                lambda text: {"structured_outputs": {"grammar": text}},
                parallel=request.parallel,
                must=True,
            )
        case "ollama" | "openai" if must and format.name == "json":
            return ConstraintFields(schema_fields(call_schema(tools), server, name="tool_call"))
    return ConstraintFields(notices=("tool_choice is asked for in the prompt, not enforced",) if must else ())


def structural_tag(tools: tuple[ToolOffer, ...], format: CallFormat) -> Fields:
    """vLLM: free text, and after what opens a call nothing but one that fits."""
    frame = format.frame
    structures = [{"begin": frame.begin(tool.name), "schema": tool.input_schema, "end": frame.closes} for tool in tools]
    tag = {"type": "structural_tag", "structures": structures, "triggers": [frame.opens]}
    return {"structured_outputs": {"structural_tag": json.dumps(tag, ensure_ascii=False)}}


def _by_grammar(
    tools: tuple[ToolOffer, ...], format: CallFormat, fields: Callable[[str], Fields], *, parallel: bool, must: bool
) -> ConstraintFields:
    if not must and not call_begins_with_mark(format):
        return ConstraintFields()
    grammar = tool_call_grammar(tools, format.name, parallel=parallel, words=not must)
    lost = f"the grammar does not enforce {', '.join(grammar.lost)}; the arguments are checked for it afterwards"
    return ConstraintFields(fields(grammar.text), (lost,) if grammar.lost else ())
