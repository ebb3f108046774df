"""What the tests of this folder share: calling a tool, and writing files down."""

from __future__ import annotations

import inspect
from pathlib import Path
from textwrap import dedent
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.invocation import Invocation
from handrail.tools.tool import Tool

DATA = Path(__file__).parent / "data"


async def call(tool: Tool, /, **arguments: Any) -> Any:
    """Run the handler as the executor does once the arguments are checked."""
    completed = tool.complete(arguments)
    invocation = Invocation(ToolCall("call_1", tool.name, arguments), completed, Context(), "key-1")
    started = tool.start(invocation, tool.convert(completed))
    return await started if inspect.isawaitable(started) else started


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return path


def texts(*names: str, **more: Any) -> dict[str, Any]:
    """A schema in which every name is a required text."""
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": list(names),
        **more,
    }
