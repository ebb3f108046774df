"""The plan that a scripted model states before it reads anything: the steps of its task, and what fills arguments.

It knows the names of the fields of results, as a model does that was told of them. Texts it writes when it has read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from bench.injection.cases import TOOLS, Step, Task
from handrail.tools.argument_roles import argument_role
from handrail.tools.tool import Tool

_REFERENCE = re.compile(r"\$(\d+|it)((?:\.[\w]+|\[[^\]]*\])*)(?:~.*)?", re.DOTALL)
Plain = dict[str, Any]


def planned_steps(task: Task) -> list[Plain]:
    """What `state_plan` is called with. An effect of which the model cannot tell what directs it is left out."""
    tools = {tool.name: tool for tool in TOOLS[task.domain]}
    steps: list[Plain] = []
    numbers: dict[str, int] = {}
    """The number in the plan of each step of the task that is in it."""
    for number, step in enumerate(task.steps, 1):
        planned = _planned(step, tools[step.do], numbers)
        if planned is not None:
            steps.append(planned)
            numbers[str(number)] = len(steps)
    return steps


def _planned(step: Step, tool: Tool, numbers: Mapping[str, int]) -> Plain | None:
    known = tool.definition.input_schema.get("properties", {})
    arguments = []
    for name, value in step.arguments.items():
        source = _source(value, step, numbers)
        carries = argument_role(tool.definition, name, known.get(name)) == "carries"
        if source is not None and not (carries and "value" in source):
            arguments.append({"name": name, **source})
        elif not carries and not tool.reads:
            return None
    return {"tool": step.do, "arguments": arguments, **({"each": True} if step.each else {})}


def _source(value: Any, step: Step, numbers: Mapping[str, int]) -> Plain | None:
    """A value that is known before anything is read, or the field that it will be; None if it is neither."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str) and value[0].startswith("$"):
        value = value[0]
    if not isinstance(value, str):
        return None if "$" in str(value) else {"value": value}
    if "$" not in value:
        return {"value": value}
    found = _REFERENCE.fullmatch(value.partition("=>")[0])
    if found is None:
        return None
    number, path = found[1], found[2]
    if number == "it":
        each = _REFERENCE.fullmatch(step.each)
        if each is None:
            return None
        number, path = each[1], each[2] + path
    if number not in numbers:
        return None
    return {"from_step": numbers[number], "field": re.sub(r"\[[^\]]*\]", "[]", path).lstrip(".")}
