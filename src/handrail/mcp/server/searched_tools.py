"""`find_tools` and `call_tool` in place of a catalogue that is too large for a client to show to its model.

`find_tools` is a tool like any other. `call_tool` is none: it is a way to write a call of the
tool that it names, and becomes that call before anything is done with it. So it is checked,
confirmed, run once and recorded under the real name.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types

from handrail.mcp.server.definition import CALL_TOOL
from handrail.mcp.server.sendable import sendable_text
from handrail.tools.registry import RegisteredTools

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "description": "The name of the tool, as find_tools told it."},
        "arguments": {
            "type": "object",
            "description": "What the tool is called with, as its input_schema says.",
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}
LISTED = types.Tool(
    name=CALL_TOOL,
    description=(
        "Call a tool that find_tools has found, by its name, with arguments that fit its input_schema. Whether a call "
        "changes something depends on the tool; a person may be asked before it runs."
    ),
    input_schema=SCHEMA,
)


def unwrapped(
    params: types.CallToolRequestParams, tools: RegisteredTools
) -> types.CallToolRequestParams | types.CallToolResult:
    """The call that is meant; or an answer that tells a model what is wrong, where none can be."""
    if params.name != CALL_TOOL:
        return params
    given = params.arguments or {}
    name, arguments = given.get("name"), given.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict) or given.keys() - {"name", "arguments"}:
        return _refused('call_tool takes {"name": "…", "arguments": {…}}, as find_tools tells them')
    if name not in tools or name == CALL_TOOL:
        return _refused(f"there is no tool {name!r}; look for one with find_tools")
    return params.model_copy(update={"name": name, "arguments": arguments})


def _refused(why: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=sendable_text(why))], is_error=True)
