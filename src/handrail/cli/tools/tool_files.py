"""Tool files as they are described, for commands that check them: Python is found in its text and is not imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handrail.core.errors import ConfigError
from handrail.execute.isolation.handler_target import check_isolation
from handrail.tools.files.load import read_tool
from handrail.tools.files.mistakes import ensemble_mistakes, tool_mistakes
from handrail.tools.files.static_python import StaticPython
from handrail.tools.files.toml_table import read_toml_file
from handrail.tools.registry import RegisteredTools, registered


@dataclass(frozen=True, slots=True)
class ToolFileReading:
    """What a file describes, and what is wrong with it. With a mistake there are no tools."""

    item: Any = None
    """The ensemble or the tool. Its Python was not imported, so it can be listed and not called."""
    tools: RegisteredTools | Sequence[Any] = ()
    mistakes: Sequence[ConfigError] = ()


def read_tool_file(path: Path, config: Path | None = None) -> ToolFileReading:
    """What an ensemble or a tool file describes. Modules are looked for beside the configuration, or in this folder.

    Raises:
        HandrailError: It cannot be read, or a tool cannot run where it says.
    """
    resolve = StaticPython(Path.cwd() if config is None else config.absolute().parent)
    if "ensemble" in read_toml_file(path):
        item, mistakes = ensemble_mistakes(path, resolve)
    else:
        mistakes = tool_mistakes(path, resolve)
        item = None if mistakes else read_tool(read_toml_file(path), resolve=resolve)
    if mistakes or item is None:
        return ToolFileReading(mistakes=mistakes)
    tools = registered(item)
    for tool in tools:
        check_isolation(tool)
    return ToolFileReading(item, tools)
