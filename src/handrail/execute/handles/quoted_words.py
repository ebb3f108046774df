"""Handles among the arguments of a call: the real words are put in where an argument only carries content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from handrail.core.errors import InvalidArguments
from handrail.execute.handles.withheld_words import HANDLE
from handrail.tools.argument_roles import argument_role
from handrail.tools.tool import Tool


def put_in_words(arguments: dict[str, Any], tool: Tool, words: Mapping[str, str]) -> dict[str, Any]:
    """The arguments with the words that handles in them stand for; the same object if there are none.

    What a model reads keeps its handles: the prompt of an agent, and code.

    Raises:
        InvalidArguments: A handle stands where it would direct what the call does, or nothing is kept under it.
    """
    if tool.replays or tool.begins_runs or not _has_handle(arguments):
        return arguments
    known = tool.definition.input_schema.get("properties", {})
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if not _has_handle(value):
            found[name] = value
            continue
        if argument_role(tool.definition, name, known.get(name)) == "directs":
            raise InvalidArguments(
                f"{name!r} directs what {tool.name!r} does, so words that you were not shown cannot stand there;"
                " use them where content goes, or ask the user for the value"
            )
        found[name] = _with_words(value, words)
    if tool.validator.problems(found):  # what they say may repeat the words
        raise InvalidArguments(f"the words that stand behind the braces do not fit the arguments of {tool.name!r}")
    return found


def _has_handle(value: Any) -> bool:
    if isinstance(value, str):
        return "{{words:" in value and HANDLE.search(value) is not None
    if isinstance(value, dict):
        return any(_has_handle(each) for pair in value.items() for each in pair)
    return isinstance(value, list) and any(map(_has_handle, value))


def _with_words(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        if any(map(_has_handle, value)):
            raise InvalidArguments("words that you were not shown cannot be the name of a field")
        return {key: _with_words(each, words) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_words(each, words) for each in value]
    if not isinstance(value, str):
        return value
    for found in HANDLE.finditer(value):
        if found[1] not in words:
            raise InvalidArguments(f"no words are kept under {found[1]} in this run; copy the braces exactly")
    return HANDLE.sub(lambda found: words[found[1]], value)
