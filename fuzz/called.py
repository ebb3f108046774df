"""A tool called as the executor calls it, without one."""

from __future__ import annotations

from typing import Any

from fuzz.law import outcome
from handrail.core.errors import ToolError
from handrail.execute.output import check_output, normalise_output
from handrail.tools.schema.validator import Validator
from handrail.tools.tool import Tool


def called(tool: Tool, arguments: dict[str, Any]) -> Any:
    """What a call gives; None if it is refused or fails. A result that breaks the tool's own schema is raised."""
    if Validator(tool.definition.input_schema, tool.name).problems(arguments):
        return None
    value = outcome(lambda: tool(**tool.convert(tool.complete(arguments))), ToolError)
    if isinstance(value, tuple):
        return None
    output = normalise_output(value, tool.style or "arguments")
    check_output(output, tool.changed(check_output="enforce"))
    return output.output
