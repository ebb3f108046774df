"""The prelude is Python for any tool, and says what it binds."""

from __future__ import annotations

import asyncio
import keyword
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import UsageError
from handrail.rlm.repl.prelude import RESERVED, functions, prelude
from handrail.run.code.functions import function_signature, python_name
from handrail.run.code.notebook import overwritten
from handrail.tools.definition import NAME, ToolDefinition
from handrail.tools.tool import Tool, tool
from tests.rlm.cell_fixtures import scene
from tests.rlm.test_queries import Echo

NAMES = st.from_regex(NAME, fullmatch=True)
TEXTS = st.text(max_size=40)


def nothing(**arguments: Any) -> None:
    raise NotImplementedError


def made(name: str, description: str = "", schema: dict[str, Any] | None = None) -> Tool:
    return Tool(ToolDefinition(name, description, schema or {"type": "object"}), nothing)


def begun(source: str) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """The names that a prelude binds, and what its functions ask of the host."""
    asked: list[tuple[str, Any]] = []

    def host(name: str, value: Any) -> Any:
        asked.append((name, value))
        return {"done": "answer"}

    names: dict[str, Any] = {"_host": host}
    exec(compile(source, "prelude", "exec"), names)
    return names, asked


@given(NAMES, TEXTS, st.lists(TEXTS, unique=True, max_size=4), st.data())
def test_any_tool_becomes_a_function_that_asks_for_exactly_that_tool(
    name: str, description: str, parameters: list[str], data: st.DataObject
) -> None:
    required = [each for each in parameters if data.draw(st.booleans())]
    schema = {"type": "object", "properties": {each: {} for each in parameters}, "required": required}
    if python_name(name) in RESERVED:
        return

    names, asked = begun(prelude([made(name, description, schema)]))
    names[python_name(name)](**dict.fromkeys(parameters, 1))

    assert asked == [(name, dict.fromkeys(parameters, 1))]


@given(NAMES)
def test_any_name_of_a_tool_has_a_name_in_python(name: str) -> None:
    assert python_name(name).isidentifier() and not keyword.iskeyword(python_name(name))


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_names_that_the_repl_has_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="rename it"):
        prelude([made(name)])


def test_two_tools_that_would_be_one_function_are_refused() -> None:
    with pytest.raises(UsageError, match=r"'gh\.find' and 'gh-find' would both be 'gh_find'"):
        prelude([made("gh.find"), made("gh-find")])


def test_a_signature_has_what_is_needed_first() -> None:
    @tool
    def search(words: list[str], *, deep: bool = False, where: str) -> None:
        raise NotImplementedError

    assert function_signature(search) == "search(words: list[str], where: str, deep: bool = False)"


def test_it_says_what_it_binds_and_what_became_of_it() -> None:
    source = prelude([made("gh.find")])
    bound = functions([made("gh.find")])
    names, _ = begun(source)

    assert {name for name in names if not name.startswith("_")} == bound
    assert overwritten({"llm_query": "str", "gh_find": "function", "x": "int"}, bound) == ["llm_query"]


def test_only_what_was_given_is_asked() -> None:
    names, asked = begun(prelude())

    names["llm_query"]("p", "m", {"type": "json_object"}, tool_choice="none", max_iterations=3)
    names["llm_query_batched"](["p"])
    names["rlm_query"]("big", "m")
    names["rlm_query_batched"](("a", "b"))

    assert asked == [
        (
            "llm_query",
            {
                "prompt": "p",
                "model": "m",
                "response_format": {"type": "json_object"},
                "tool_choice": "none",
                "max_iterations": 3,
            },
        ),
        ("llm_query_batched", {"prompts": ["p"]}),
        ("rlm_query", {"prompt": "big", "model": "m"}),
        ("rlm_query_batched", {"prompts": ["a", "b"]}),
    ]


def test_an_async_handler_in_code_that_is_awaited_is_an_error_that_says_so() -> None:
    names, _ = begun(prelude())

    async def handler(name: str, arguments: dict[str, Any]) -> str:
        raise NotImplementedError

    async def cell() -> Any:
        return names["_handle"]({"ticket": "t", "index": 0, "name": "n", "arguments": {}}, handler)

    assert "make it a plain function" in asyncio.run(cell())["error"]


@pytest.mark.parametrize("kind", ["process", "monty"])
async def test_a_function_that_code_has_overwritten_comes_back(kind: str) -> None:
    async with scene(kind, Echo()) as there:
        cell = await there.run("llm_query = 'mine'\nkept = 5")
        assert overwritten(cell.names, functions()) == ["llm_query"]

        again = await there.repl.run(prelude())

        assert again.ending == "ok"
        assert await there.value("out = [llm_query('a'), kept]", "c2") == ["A", 5]
