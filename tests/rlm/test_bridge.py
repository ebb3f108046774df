"""What cells ask of the host goes through the executor, under keys, in every sandbox that there is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.events import ModelEvent, ReplyFinished
from handrail.core.messages import ResultMessage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.execute.policy import Policy
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.tool import tool
from tests.rlm.cell_fixtures import CELL, RUN, scene
from tests.rlm.test_queries import COUNT, STATS, Echo, results

pytestmark = pytest.mark.parametrize("kind", ["process", "monty"])

TOOLS = f"TOOLS = [{STATS!r}]\n"


class Asks:
    """Calls `count` with its question first, then says what that gave."""

    name = "asks"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        asked = next(each.text for each in request.messages if isinstance(each, UserMessage))
        found = [each.result.text for each in request.messages if isinstance(each, ResultMessage)]
        yield text(f"{asked}: {found[0]}") if found else call("count", of=asked)
        yield ReplyFinished(stop="end")


@pytest.mark.requirement("rlm.query")
async def test_code_asks_models_one_and_many(kind: str) -> None:
    async with scene(kind, Echo()) as made:
        out = await made.value("out = [llm_query('a'), llm_query_batched(['b', 'c']), llm_query('d', model='any')]")

    assert out == ["A", ["B", "C"], "D"]


@pytest.mark.requirement("rlm.query")
async def test_a_handler_in_the_repl_answers_the_calls_of_a_query(kind: str) -> None:
    model = ScriptedModel(
        [call("get_stats", q_id=1), call("get_stats", q_id=2)], [call("get_stats", q_id=3)], [text("ok")]
    )
    code = TOOLS + (
        "seen = []\n"
        "def handler(name, arguments):\n"
        "    seen.append([name, arguments['q_id']])\n"
        "    if arguments['q_id'] == 2:\n"
        "        raise RuntimeError('Database connection failed')\n"
        "    return {'avg': 4.2} if arguments['q_id'] == 1 else 'as it is'\n"
        "out = [llm_query('?', tools=TOOLS, tool_handler=handler, tool_choice='required'), seen]"
    )

    async with scene(kind, model) as made:
        out = await made.value(code)

    assert out == ["ok", [["get_stats", 1], ["get_stats", 2], ["get_stats", 3]]]
    assert results(model) == ['{"avg": 4.2}', "Error executing get_stats: Database connection failed", "as it is"]
    assert model.requests[0].tool_choice == "required"


@pytest.mark.requirement("rlm.beyond")
async def test_a_handler_in_the_repl_may_be_async_and_must_give_json(kind: str) -> None:
    model = ScriptedModel([call("get_stats", q_id=1)], [call("get_stats", q_id=2)], [text("ok")])
    code = TOOLS + (
        "async def handler(name, arguments):\n"
        "    return [1] if arguments['q_id'] == 1 else {1, 2}\n"
        "out = llm_query('?', tools=TOOLS, tool_handler=handler)"
    )

    async with scene(kind, model) as made:
        assert await made.value(code) == "ok"

    first, second = results(model)
    assert first == "[1]" and second.startswith("Error executing get_stats: its result is not JSON")


async def test_wrong_calls_of_a_model_do_not_reach_the_code(kind: str) -> None:
    model = ScriptedModel([call("get_stats", q_id="x"), call("nothing")], [text("ok")])
    code = TOOLS + "out = llm_query('?', tools=TOOLS, tool_handler=lambda name, arguments: 1 / 0)"

    async with scene(kind, model) as made:
        assert await made.value(code) == "ok"

    assert [words.split(":")[0] for words in results(model)] == ["invalid_arguments", "Tool 'nothing' not found"]


@pytest.mark.requirement("rlm.beyond")
async def test_a_batch_in_the_repl_has_handlers_of_its_own(kind: str) -> None:
    code = (
        f"TOOLS = [{COUNT!r}]\n"
        "one = lambda name, arguments: 'one ' + arguments['of']\n"
        "async def two(name, arguments):\n"
        "    return 'two ' + arguments['of']\n"
        "shared = llm_query_batched(['a', 'b'], tools=TOOLS, tool_handler=one)\n"
        "each = llm_query_batched(['c', 'd', 'e'], tools=[TOOLS, None, TOOLS], tool_handler=[one, None, two])\n"
        "out = [shared, each]"
    )

    async with scene(kind, Asks()) as made:
        shared, each = await made.value(code)

    assert shared == ["a: one a", "b: one b"]
    assert each[0] == "c: one c" and each[2] == "e: two e"
    assert each[1].startswith("d: Tool 'count' not found")  # it has no tools, and the model calls one nevertheless


@pytest.mark.requirement("rlm.query.needs-handler")
async def test_mistakes_are_value_errors_in_the_code(kind: str) -> None:
    code = (
        "out = []\n"
        "for ask in [\n"
        "    lambda: llm_query('?', tools=[]),\n"
        "    lambda: llm_query_batched(['?'], tools=[]),\n"
        "    lambda: llm_query_batched(['?'], tools=[], tool_handler=[None]),\n"
        "    lambda: llm_query(3),\n"
        "    lambda: llm_query_batched(['?', None]),\n"
        "    lambda: llm_query_batched('?'),\n"
        "    lambda: llm_query([{'role': 'robot', 'content': 'x'}]),\n"
        "    lambda: llm_query('?', response_format={'type': 'yaml'}),\n"
        "]:\n"
        "    try:\n"
        "        ask()\n"
        "    except ValueError as error:\n"
        "        out.append(str(error))\n"
    )

    async with scene(kind, Echo()) as made:
        said = await made.value(code)

    needs = "tool_handler is required when tools are provided"
    assert said[:3] == [needs] * 3
    assert [words.split(":")[0] for words in said[3:]] == [
        "Invalid prompt type",
        "Invalid prompt type",
        "Invalid prompts",
        "Invalid prompt",
        "Invalid response_format",
    ]


async def test_an_error_of_a_model_is_text_in_the_code(kind: str) -> None:
    async with scene(kind, ScriptedModel()) as made:
        out = await made.value("out = [llm_query('?'), llm_query_batched(['?', '?'])[1]]")

    assert all(words.startswith("__LLM_ERROR__|model_error|0|") for words in out)


# ── tools of the user ────────────────────────────────────────────────────────────────


@tool
async def lookup(word: str, most: int = 3) -> dict[str, Any]:
    """Find a word."""
    return {"word": word, "most": most}


@tool(side_effects=True)
async def write_note(note: str) -> str:
    """Keep a note."""
    if not note:
        raise ValueError("an empty note")
    return f"kept {note}"


async def test_tools_are_functions_with_their_own_arguments(kind: str) -> None:
    code = (
        "import json\n"
        "out = [lookup('a'), lookup('b', 4), lookup(most=5, word='c'), write_note('n')]\n"
        "out.append(json.loads(tool_handler('lookup', {'word': 'd'})))\n"
        "out.append(tool_handler('write_note', {'note': 'm'}))\n"
        "bad = [lambda: lookup(), lambda: lookup('a', 1, 2), lambda: lookup('a', word='b'), lambda: lookup('a', n=1)]\n"
        "for wrong in bad:\n"
        "    try:\n"
        "        wrong()\n"
        "    except TypeError as error:\n"
        "        out.append(str(error))\n"
        "for wrong in [lambda: write_note(''), lambda: lookup(3), lambda: tool_handler('lookup', {})]:\n"
        "    try:\n"
        "        wrong()\n"
        "    except RuntimeError as error:\n"
        "        out.append(str(error))\n"
    )

    async with scene(kind, Echo(), [lookup, write_note]) as made:
        out = await made.value(code)

    assert out[:4] == [{"word": "a", "most": 3}, {"word": "b", "most": 4}, {"word": "c", "most": 5}, "kept n"]
    assert out[4:6] == [{"word": "d", "most": 3}, "kept m"]
    signature = "lookup(word: str, most: int = 3)"
    assert out[6:10] == [
        f"{signature} needs 'word'",
        f"{signature} takes 2 arguments at most, not 3",
        f"{signature} was given 'word' twice",
        f"{signature} has no argument 'n'",
    ]
    assert out[10] == "Error executing write_note: ValueError: an empty note"
    assert out[11:] == [
        "invalid_arguments: word: expected string, got 3 (integer)",
        "invalid_arguments: (arguments): missing required 'word'",
    ]


async def test_code_calls_nothing_that_it_was_not_given(kind: str) -> None:
    code = (
        "out = []\n"
        "calls = [['cell', {'code': '1'}], ['read_output', {}], ['handled', {'results': [{'ticket': 'x'}]}]]\n"
        "for name, value in calls:\n"
        "    try:\n"
        "        _host(name, value)\n"
        "    except Exception as error:\n"
        "        out.append(type(error).__name__)\n"
    )

    async with scene(kind, Echo()) as made:
        assert await made.value(code) == ["NameError", "NameError", "ValueError"]


async def test_a_tool_that_waits_for_a_person_says_so_in_the_code(kind: str) -> None:
    code = "try:\n    write_note('n')\nexcept RuntimeError as error:\n    out = str(error)"

    async with scene(kind, Echo(), [write_note], policy=Policy()) as made:
        assert "waits for a person" in await made.value(code)


async def test_a_cell_that_is_cancelled_ends_its_queries(kind: str) -> None:
    asked = asyncio.Event()

    class Stuck(Echo):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            self.now += 1
            asked.set()
            try:
                await asyncio.Event().wait()
                yield text("never")
            finally:
                self.now -= 1

    model = Stuck()
    code = TOOLS + "llm_query('?', tools=TOOLS, tool_handler=lambda name, arguments: 'x')"
    async with asyncio.timeout(30), scene(kind, model) as made:
        cell = asyncio.create_task(made.executor.invoke(ToolCall("c1", CELL.name, {"code": code}), Context(run=RUN)))
        await asked.wait()
        cell.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cell
        assert model.now == 0 and made.channels == {} and made.queries.spend.in_flight == 0


async def test_long_answers_come_whole(kind: str) -> None:
    async with scene(kind, Echo(lambda question: "é" * 100_000)) as made:
        assert await made.value("out = len(llm_query('?'))") == 100_000


async def test_what_a_handler_says_reaches_the_model_in_its_own_letters(kind: str) -> None:
    model = ScriptedModel([call("get_stats", q_id=1)], [text("ok")])
    code = TOOLS + "out = llm_query('?', tools=TOOLS, tool_handler=lambda name, arguments: {'née': ['日本']})"

    async with scene(kind, model) as made:
        await made.value(code)

    assert json.loads(results(model)[0]) == {"née": ["日本"]} and "日本" in results(model)[0]
