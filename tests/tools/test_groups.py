"""Functions from tools to tools."""

from __future__ import annotations

from typing import Any

import pytest

from handrail.core.errors import DuplicateTool, InvalidDefinition, UsageError
from handrail.tools.definition import ToolDefinition
from handrail.tools.groups import filtered, prefixed, renamed
from handrail.tools.registry import registered
from handrail.tools.tool import Tool


def named(name: str, **facts: Any) -> Tool:
    return Tool(ToolDefinition(name, **facts), lambda: name, concurrency=3)


TOOLS = (named("read"), named("write", side_effects=True), named("list"))


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [tool.name for tool in tools]


def test_a_filter_keeps_what_it_is_asked_to_in_order() -> None:
    assert names(filtered(lambda tool: tool.reads, TOOLS)) == ["read", "list"]


def test_a_prefix_goes_before_every_name_and_changes_nothing_else() -> None:
    made = prefixed("fs_", TOOLS)

    assert names(made) == ["fs_read", "fs_write", "fs_list"]
    assert [tool.handler for tool in made] == [tool.handler for tool in TOOLS]
    assert {tool.concurrency for tool in made} == {3}
    assert names(TOOLS) == ["read", "write", "list"]


def test_a_prefix_resolves_a_clash() -> None:
    with pytest.raises(DuplicateTool):
        registered(*TOOLS, *TOOLS)

    assert len(registered(*TOOLS, *prefixed("fs_", TOOLS))) == 6


def test_a_prefix_that_makes_no_name_is_refused() -> None:
    with pytest.raises(InvalidDefinition):
        prefixed("fs:", TOOLS)


def test_some_tools_get_other_names() -> None:
    assert names(renamed({"read": "cat"}, TOOLS)) == ["cat", "write", "list"]
    assert renamed({}, TOOLS) == TOOLS


def test_names_can_be_swapped() -> None:
    swapped = renamed({"read": "write", "write": "read"}, TOOLS)

    assert [(tool.name, tool.handler()) for tool in swapped[:2]] == [("write", "read"), ("read", "write")]


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(UsageError, match="'reed', 'rite'"):
        renamed({"reed": "cat", "rite": "x", "list": "ls"}, TOOLS)


def test_groups_of_anything_iterable_are_taken() -> None:
    assert names(renamed({"read": "cat"}, iter(TOOLS))) == ["cat", "write", "list"]
    assert names(prefixed("a_", filtered(lambda tool: not tool.reads, iter(TOOLS)))) == ["a_write"]
