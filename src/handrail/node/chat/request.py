"""What a model is asked, as the body of `llm.chat`, both ways."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from handrail.core.errors import BusError, InvalidDefinition
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice, ToolOffer
from handrail.node.chat.messages import Pictures, read_messages, write_messages
from handrail.node.chat.schema import MAX_TOKENS, TEMPERATURE, TOP_P
from handrail.tools.definition import ToolDefinition

_WORDS: dict[str, ToolChoice] = {"auto": "auto", "none": "none", "required": "required"}
_SET = ("max_tokens", "temperature", "top_p", "seed")


def native_tool(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A tool as `input.tools` has it."""
    return {"name": name, "description": description, "parameters_schema": schema}


def input_of(request: ModelRequest) -> dict[str, Any]:
    """The `input` of a call that asks this. What is not set is left out.

    Raises:
        BusError: The conversation has something that cannot be written (`bad_request`).
    """
    said: dict[str, Any] = {"messages": write_messages(request.messages)}
    said |= {name: value for name in _SET if (value := getattr(request, name)) is not None}
    if request.stop:
        said["stop"] = list(request.stop)
    if request.tools:
        said["tools"] = [native_tool(each.name, each.description, each.input_schema) for each in request.tools]
    choice = request.tool_choice
    if choice != "auto":
        said["tool_choice"] = {"name": choice.name} if isinstance(choice, NamedTool) else choice
    return said


def request_of(input: Mapping[str, Any], pictures: Pictures) -> ModelRequest:
    """What an `input` that fits the schema asks, with the defaults for what it leaves out.

    Raises:
        BusError: Its parts do not fit together (`bad_request`).
    """
    tools = _tools(input)
    return ModelRequest(
        messages=read_messages(input["messages"], pictures),
        tools=tools,
        tool_choice=choice_of(input.get("tool_choice", "auto"), {tool.name for tool in tools}),
        max_tokens=input.get("max_tokens", MAX_TOKENS),
        temperature=input.get("temperature", TEMPERATURE),
        top_p=input.get("top_p", TOP_P),
        stop=tuple(input.get("stop", ())),
        seed=input.get("seed"),
    )


def defaults_of(input: Mapping[str, Any]) -> ModelRequest:
    """What an `input` says about every reply: all but its messages, tools and choice. Nothing is filled in."""
    given = {name: input[name] for name in _SET if name in input}
    return ModelRequest(messages=(), stop=tuple(input.get("stop", ())), **given)


def _tools(input: Mapping[str, Any]) -> tuple[ToolOffer, ...]:
    found: dict[str, ToolOffer] = {}
    for number, each in enumerate(input.get("tools", ())):
        try:
            tool = ToolDefinition.from_dict(each)
        except InvalidDefinition as error:
            raise BusError("bad_request", f"input.tools[{number}]: {error}") from error
        if tool.name in found:
            raise BusError("bad_request", f"input.tools[{number}]: another tool is called {tool.name!r}; rename one")
        found[tool.name] = ToolOffer(tool.name, tool.description, tool.input_schema)
    return tuple(found.values())


def choice_of(said: Any, names: Set[str]) -> ToolChoice:
    """What `tool_choice` says, with these tools on offer.

    Raises:
        BusError: It is none, or asks for a tool that is not there (`bad_request`).
    """
    match said:
        case {"name": str(name)}:
            if name not in names:
                raise BusError("bad_request", f"input.tool_choice names {name[:80]!r}, which is not among the tools")
            return NamedTool(name)
        case "required" if not names:
            raise BusError("bad_request", "input.tool_choice is 'required', but there are no tools to call")
        case str() if said in _WORDS:
            return _WORDS[said]
    raise BusError("bad_request", "input.tool_choice is 'auto', 'none', 'required' or {\"name\": …}")
