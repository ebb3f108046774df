"""Tools in whatever form a program has them, as definitions: functions, tools, ensembles, and dicts of any provider."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from handrail.core.errors import DuplicateTool, UsageError
from handrail.core.model_request import NamedTool, ToolChoice, ToolOffer
from handrail.tools.definition import ToolDefinition
from handrail.tools.ensemble import Ensemble
from handrail.tools.registry import RegisteredTools, flattened_tools
from handrail.tools.tool import Tool, as_tool


def definitions_of(tools: Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """Definitions of tools in whatever form they are given.

    Raises:
        InvalidDefinition: Something is not a tool.
        DuplicateTool: Two have one name.
    """
    found = tuple(definition for item in flattened_tools(tools) for definition in _definitions(item))
    names: set[str] = set()
    for definition in found:
        if definition.name in names:
            raise DuplicateTool(definition.name)
        names.add(definition.name)
    return found


def offers_of(tools: Iterable[Any]) -> tuple[ToolOffer, ...]:
    return tuple(ToolOffer(each.name, each.description, each.input_schema) for each in definitions_of(tools))


def choice_of(choice: ToolChoice | Mapping[str, Any] | str) -> ToolChoice:
    """A tool choice in our form or a provider's; any other word is the name of a tool.

    Raises:
        UsageError: It is neither.
    """
    match choice:
        case NamedTool() | "auto" | "none" | "required":
            return choice
        case "any":
            return "required"
        case str():
            return NamedTool(choice)
        case {"type": "function", "function": {"name": str(name)}} | {"type": "tool" | "function", "name": str(name)}:
            return NamedTool(name)
        case {"type": str(word)}:
            return choice_of(word)
    raise UsageError(f"{choice!r} is not a tool choice; give 'auto', 'none', 'required', or the name of a tool")


def _definitions(item: Any) -> Iterator[ToolDefinition]:
    match item:
        case ToolDefinition():
            yield item
        case Tool():
            yield item.definition
        case Ensemble() | RegisteredTools():
            yield from (tool.definition for tool in (item.tools if isinstance(item, Ensemble) else item))
        case Mapping():
            yield from map(ToolDefinition.from_dict, _unwrapped(item))
        case _:
            yield as_tool(item).definition


def _unwrapped(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The wrappers of Gemini and Bedrock; `ToolDefinition.from_dict` reads everything else."""
    for wrapper, unwrap in _WRAPPERS.items():
        if isinstance(data.get(wrapper), Mapping | list):
            yield from unwrap(data[wrapper])
            return
    yield data


def _from_gemini(declarations: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    spellings = {"parametersJsonSchema": "input_schema", "responseJsonSchema": "output_schema"}
    for each in declarations:
        yield {spellings.get(key, key): value for key, value in each.items() if key not in ("response", "behavior")}


def _from_bedrock(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    schema = spec.get("inputSchema", {})
    yield {**spec, "inputSchema": schema.get("json", schema)}


_WRAPPERS: Mapping[str, Callable[[Any], Iterator[Mapping[str, Any]]]] = {
    "functionDeclarations": _from_gemini,
    "function_declarations": _from_gemini,
    "toolSpec": _from_bedrock,
}
