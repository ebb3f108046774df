"""A cell that runs again does nothing twice: what it asks of the host lies under keys that follow from its place."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from handrail.core.confirmation import Allow, Confirmation, Decision
from handrail.core.events import CallIntended, CallRequested, CallSettled, ModelEvent, ReplyFinished, ReplyGiven
from handrail.core.messages import Usage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Approver
from handrail.rlm import RLM
from handrail.rlm.values import RLMChatCompletion
from handrail.sandbox.port import ReplLimits
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.tool import Tool
from tests.rlm.cell_fixtures import RUN, scene
from tests.rlm.root_models import Root, repl
from tests.rlm.test_bridge import TOOLS, Asks, write_note
from tests.rlm.test_queries import COUNT, results

pytestmark = pytest.mark.parametrize("kind", ["process", "monty"])


class Yes:
    async def decide(self, question: Confirmation) -> Decision:
        return Allow(by="somebody")


def noting(done: list[str]) -> Tool:
    async def note(note: str) -> str:
        done.append(note)
        return f"kept {note}"

    return Tool.from_function(note, name="write_note", side_effects=True)


HANDLING = TOOLS + (
    "write_note('first')\n"
    "def handler(name, arguments):\n"
    "    return write_note('in ' + str(arguments['q_id']))\n"
    "said = llm_query('?', tools=TOOLS, tool_handler=handler)\n"
    "out = [said, write_note('last')]"
)


async def test_what_code_calls_is_on_record_under_keys_of_their_order(kind: str) -> None:
    journal = MemoryJournal()
    model = ScriptedModel([call("get_stats", "a", q_id=1), call("get_stats", "b", q_id=2)], [text("ok")])

    async with scene(kind, model, [write_note], journal) as made:
        await made.value(HANDLING)

    begun = [(each.call_id, each.tool) for each in journal.events if isinstance(each, CallIntended) and each.run == RUN]
    assert begun == [
        ("c1", "cell"),
        ("c1.1", "write_note"),
        ("c1.2", "llm_query"),
        ("c1.2/a/1", "write_note"),
        ("c1.2/b/1", "write_note"),
        ("c1.3", "write_note"),
    ]
    below = [each.call_id for each in journal.events if isinstance(each, CallIntended) and each.run == f"{RUN}.c1~12"]
    assert below == ["a", "b"]


async def test_code_that_runs_again_does_nothing_twice(kind: str) -> None:
    journal = MemoryJournal()
    done: list[str] = []

    usage = ReplyFinished(stop="end", usage=Usage(input_tokens=7))
    first = ScriptedModel([call("get_stats", "a", q_id=1), call("get_stats", "b", q_id=2), usage], [text("ok"), usage])
    async with scene(kind, first, [noting(done)], journal) as made:
        out = await made.value(HANDLING)
        spent = made.queries.spend.tokens
    # The process died before the end of the cell was written down.
    journal.events = [each for each in journal.events if not (isinstance(each, CallSettled) and each.tool == "cell")]

    async with scene(kind, ScriptedModel(), [noting(done)], journal) as again:
        assert await again.value(HANDLING) == out == ["ok", "kept last"]
        assert again.queries.spend.tokens == spent == 14
        assert again.bridge is not None and [each.response for each in again.bridge.completions] == ["ok"]

    assert done == ["first", "in 1", "in 2", "last"]


async def test_a_query_that_was_cut_off_in_its_handlers_is_taken_up_there(kind: str) -> None:
    journal = MemoryJournal()
    done: list[str] = []

    first = ScriptedModel([call("get_stats", "a", q_id=1), call("get_stats", "b", q_id=2)], [text("ok")])
    async with scene(kind, first, [noting(done)], journal) as made:
        await made.value(HANDLING)
    # The process died while the second handler ran, after its note was kept.
    last = next(
        at for at, each in enumerate(journal.events) if isinstance(each, CallSettled) and each.call_id == "c1.2/b/1"
    )
    del journal.events[last + 1 :]

    second = ScriptedModel([text("ok again")])
    async with scene(kind, second, [noting(done)], journal) as again:
        assert await again.value(HANDLING) == ["ok again", "kept last"]

    assert done[4:] == ["last"]  # all that was left to do
    assert results(second) == ["kept in 1", "kept in 2"]


async def test_a_handler_may_ask_models_with_handlers_of_its_own(kind: str) -> None:
    journal = MemoryJournal()
    code = (
        f"TOOLS = [{COUNT!r}]\n"
        "def inner(name, arguments):\n"
        "    return 'inner ' + arguments['of']\n"
        "def outer(name, arguments):\n"
        "    return llm_query('below ' + arguments['of'], tools=TOOLS, tool_handler=inner)\n"
        "out = llm_query('top', tools=TOOLS, tool_handler=outer)"
    )

    async with scene(kind, Asks(), journal=journal) as made:
        assert await made.value(code) == "top: below top: inner below top"

    begun = [each.call_id for each in journal.events if isinstance(each, CallIntended) and each.run == RUN]
    assert begun[:2] == ["c1", "c1.1"] and begun[2].startswith("c1.1/") and begun[2].endswith("/1")


async def test_a_handler_that_leaves_by_the_back_door_does_not_confuse_the_next_query(kind: str) -> None:
    code = (
        f"TOOLS = [{COUNT!r}]\n"
        "reply = _host('llm_query', {'prompt': 'left', 'tools': TOOLS})\n"  # and never posts a result
        "out = llm_query('next', tools=TOOLS, tool_handler=lambda name, arguments: 'found')"
    )

    async with scene(kind, Asks()) as made:
        assert await made.value(code) == "next: found"
        assert made.channels == {} and made.queries.spend.in_flight == 0


async def test_what_a_handler_gives_goes_to_its_own_query_though_another_has_calls_of_the_same_id(kind: str) -> None:
    class SameIds(Asks):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            async for event in super().stream(request):
                yield call("count", "call_1") if isinstance(event, CallRequested) else event

    code = (
        f"TOOLS = [{COUNT!r}]\n"
        "def handler(name, arguments):\n"
        "    _host('llm_query', {'prompt': 'left', 'tools': TOOLS})\n"  # and never posts a result
        "    return 'mine'\n"
        "out = llm_query('top', tools=TOOLS, tool_handler=handler)"
    )

    async with scene(kind, SameIds()) as made:
        assert await made.value(code) == "top: mine"


async def test_what_code_did_after_a_query_that_it_left_is_not_done_again(kind: str) -> None:
    journal = MemoryJournal()
    done: list[str] = []
    code = f"_host('llm_query', {{'prompt': 'left', 'tools': [{COUNT!r}]}})\nwrite_note('once')"

    async with scene(kind, Asks(), [noting(done)], journal) as made:
        assert (await made.run(code)).ending == "ok"
    # The process died when the query had been ended with its cell, and before the end of the cell was written down.
    journal.events = [each for each in journal.events if not (isinstance(each, CallSettled) and each.tool == "cell")]

    async with scene(kind, Asks(), [noting(done)], journal) as again:
        cell = await again.run(code)

    assert done == ["once"]
    assert cell.ending == "error" and "ended while this query was under way" in cell.error


async def test_a_handler_that_waits_for_a_person_goes_on_when_the_run_is_taken_up(kind: str) -> None:
    journal = MemoryJournal()
    done: list[str] = []
    root = repl(
        f"TOOLS = [{COUNT!r}]\n"
        "def handler(name, arguments):\n"
        "    return write_note(arguments['of'])\n"
        "said = llm_query_batched(['a', 'b'], tools=TOOLS, tool_handler=handler)\n"
        "answer['content'] = ', '.join(said)\n"
        "answer['ready'] = True"
    )

    async def ask(run: str, asked: Approver | None) -> RLMChatCompletion:
        custom = {"write_note": noting(done)}
        async with RLM(
            Root(root),
            other_backends=[Asks()],
            environment=kind,
            custom_tools=custom,
            journal=journal,
            run=run,
            approver=asked,
            on_wait="pause",
        ) as rlm:
            return await rlm.acompletion("x", "the question")

    first = await ask("r", None)
    settled = [each.tool for each in journal.events if isinstance(each, CallSettled)]
    assert (first.error_type, done, settled) == ("needs_confirmation", [], ["repl"])  # the one that made it ready

    second = await ask("r", Yes())
    assert (second.response, second.error) == ("a: kept a, b: kept b", None)
    assert sorted(done) == ["a", "b"]
    replies = [each for each in journal.events if isinstance(each, ReplyGiven) and each.run != "r"]
    assert len(replies) == 4  # two of each query: none is asked again


async def test_a_result_that_cannot_cross_is_an_error_that_the_model_reads(kind: str) -> None:
    model = ScriptedModel([call("get_stats", q_id=1)], [text("ok")])
    code = TOOLS + "out = llm_query('?', tools=TOOLS, tool_handler=lambda name, arguments: 'x' * 200_000)"

    async with scene(kind, model, limits=ReplLimits(message_bytes=100_000)) as made:
        assert await made.value(code) == "ok"

    assert results(model)[0].startswith("Error executing get_stats: its result cannot be used: ")


async def test_ids_that_a_model_writes_do_not_mix_up_keys(kind: str) -> None:
    journal = MemoryJournal()
    model = ScriptedModel([call("get_stats", "a/1/b%", q_id=1)], [text("ok")])
    code = TOOLS + "out = llm_query('?', tools=TOOLS, tool_handler=lambda name, arguments: write_note('n'))"

    async with scene(kind, model, [write_note], journal) as made:
        await made.value(code)

    begun = [each.call_id for each in journal.events if isinstance(each, CallIntended) and each.tool == "write_note"]
    assert begun == ["c1.1/a%2F1%2Fb%25/1"]
