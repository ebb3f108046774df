"""`find_tools`: the tool by which a model asks for tools that it was not shown.

It is a tool like any other: checked, bounded, recorded. It tells of tools and calls
none; the names in its result are offered in the next turn.
"""

from __future__ import annotations

from typing import Any

from handrail.core.calls import ToolResult
from handrail.core.invocation import Invocation
from handrail.tools.registry import RegisteredTools, is_open_to_model
from handrail.tools.tool import Tool

FIND_TOOLS = "find_tools"
ALWAYS = "always"
"""The tag of a tool that every turn offers, so that nobody has to find it."""
DEFAULT, MOST = 5, 20
"""How many tools are found unless the model says, and at most."""
_LINE = 160
"""Characters of a description in the result."""
_ROOM = 8_000
"""Characters of a result, so that twenty tools are never cut."""

_DESCRIPTION = (
    "Find tools by what they do. Only some of the tools that there are have been shown to you. If none of them fits, "
    "say here what you need; the tools that are found can be called in your next turn. Search again in other words if "
    "they do not fit."
)
_FIND_AND_CALL = (
    "Find tools by what they do. There are many tools here, and none of them is shown to you before you look for it. "
    "Say in a few words what you need. Each tool that is found comes with its description and the JSON schema of its "
    "arguments; call it with call_tool. Search again in other words if none fits."
)
_ROOM_FOR_SCHEMAS = 60_000
"""Characters of a result that tells schemas too."""
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "minLength": 1,
            "description": "What the tool should do, in a few words, or a part of its name.",
        },
        "count": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST,
            "default": DEFAULT,
            "description": "How many tools to find at most.",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}


class ToolFinder:
    """The handler. It finds only what the model that asks may call, and what its caller has the right to."""

    def __init__(self, tools: RegisteredTools, *, schemas: bool = False) -> None:
        self.tools = tools
        self._schemas = schemas

    async def __call__(self, invocation: Invocation) -> list[dict[str, Any]]:
        context = invocation.context

        def allowed(name: str) -> bool:
            tool = self.tools.find(name)
            return is_open_to_model(tool, context.model) and context.allows(*tool.names)

        arguments = invocation.arguments
        found = self.tools.index.search(arguments["query"], arguments.get("count", DEFAULT), allowed)
        return [self._described(self.tools.find(name)) for name in found]

    def _described(self, tool: Tool) -> dict[str, Any]:
        if not self._schemas:
            return {"name": tool.name, "description": description_line(tool)}
        effects = {} if tool.reads else {"side_effects": True}
        description = tool.definition.description
        return {"name": tool.name, "description": description, "input_schema": tool.definition.input_schema, **effects}


def find_tools_tool(tools: RegisteredTools) -> Tool:
    """The tool `find_tools` over these tools."""
    return Tool.from_function(
        ToolFinder(tools),
        name=FIND_TOOLS,
        description=_DESCRIPTION,
        schema=_SCHEMA,
        style="invocation",
        max_output=_ROOM,
        share=False,  # what is found depends on who asks
    )


def find_and_describe_tool(tools: RegisteredTools) -> Tool:
    """The tool `find_tools` for whoever is never shown these tools: it tells of each all that a call needs."""
    return Tool.from_function(
        ToolFinder(tools, schemas=True),
        name=FIND_TOOLS,
        description=_FIND_AND_CALL,
        schema=_SCHEMA,
        style="invocation",
        max_output=_ROOM_FOR_SCHEMAS,
        share=False,  # what is found depends on who asks
        tags=(ALWAYS,),
    )


def tool_names_found(result: ToolResult) -> tuple[str, ...]:
    """The names that a result of `find_tools` tells; none if it is something else, or was cut."""
    if result.is_error or not isinstance(result.content, list):
        return ()
    told = (item.get("name") for item in result.content if isinstance(item, dict))
    return tuple(name for name in told if isinstance(name, str))


def description_line(tool: Tool) -> str:
    """The beginning of its description."""
    first = tool.definition.description.strip().partition("\n")[0]
    return first if len(first) <= _LINE else first[: _LINE - 1] + "…"
