"""One REPL for several questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from handrail.core.errors import UsageError
from handrail.core.events import ModelEvent, RunFinished, TextDelta
from handrail.core.messages import Usage
from handrail.core.model_request import ModelRequest
from handrail.rlm import RLM
from handrail.rlm.values import UsageSummary
from handrail.testing.journal import MemoryJournal
from tests.rlm.root_models import Echo, Root, ready, repl


@pytest.mark.parametrize("kind", ("process", "monty"))
async def test_variables_contexts_and_what_was_said_stay(kind: str) -> None:
    code = "print(found, context_0, context_1, context, history_0[0]['role'], answer)"
    root = Root(repl("found = 7", 'FINAL("one")'))
    async with RLM(root, environment=kind, persistent=True) as rlm:
        first = await rlm.acompletion("first context", "first question")
        root._replies = (repl(code), ready("'two'"))
        second = await rlm.acompletion("second context", "second question")

    assert (first.response, second.response) == ("one", "two")
    assert first.run == second.run
    assert "7 first context second context first context user {'content': '', 'ready': False}" in root.read(2)
    assert "first question" not in root.read(1) and "question number 2" in root.read(1)
    assert len(root.requests[1].messages) == 2


async def test_each_answer_has_its_own_usage_and_all_count_towards_the_budget() -> None:
    used = Usage(input_tokens=10, output_tokens=1)
    root = Root(repl("found = llm_query('a')"), ready("found"), usage=used)
    async with RLM(root, environment="process", persistent=True, other_backends=[Echo(usage=used)], max_tokens=40) as r:
        first = await r.acompletion("one", "first")
        root._replies = (repl("more = 1"), ready("found"))
        second = await r.acompletion("two", "second")

    assert {name: each.total_calls for name, each in first.usage_summary.model_usage_summaries.items()} == {
        "root": 2,
        "echo": 1,
    }
    assert second.usage_summary.to_dict() == UsageSummary.of("root", used).to_dict()
    assert second.partial and second.error == "the run reached its limit of 40 tokens"


async def test_what_was_said_to_one_question_is_no_answer_to_the_next() -> None:
    root = Root(ready("'first'"), usage=Usage(input_tokens=10))
    async with RLM(root, environment="process", persistent=True, max_tokens=5) as rlm:
        assert (await rlm.acompletion("one", "first")).response == "first"
        second = await rlm.acompletion("two", "second")

    assert (second.response, second.partial) == ("", True)


async def test_code_that_time_cut_off_while_it_asked_models_is_no_part_of_the_next_question() -> None:
    class Asleep(Echo):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            await asyncio.Event().wait()
            yield TextDelta(text="")

    root, journal = Root(repl("x = llm_query('a')")), MemoryJournal()
    async with RLM(root, persistent=True, other_backends=[Asleep()], journal=journal, max_timeout=3.0) as rlm:
        first = await rlm.acompletion("one", "first")
        root._replies = (ready("'y'"),)
        second = await rlm.acompletion("two", "second")

    assert first.partial and first.error == "the run reached its limit of 3 seconds"
    assert (second.response, len(root.requests[-1].messages)) == ("y", 2)
    finished = [each for each in journal.events if isinstance(each, RunFinished)]
    assert [each.reason for each in finished if each.run == first.run] == ["done"]


async def test_an_interpreter_that_is_lost_is_made_again_with_everything_before() -> None:
    sub = Echo()
    root = Root(repl("found = llm_query('a')", "FINAL(found)"))
    async with RLM(root, environment="process", persistent=True, other_backends=[sub]) as rlm:
        await rlm.acompletion("one", "first")
        root._replies = (repl("import os\nos._exit(1)"), repl("print(found, context_0, context_1)"), ready("found"))
        second = await rlm.acompletion("two", "second")

    assert second.response == "A" and sub.asked == ["a"]
    assert "A one two\n" in root.read(3)


def test_blocking_completions_share_the_repl() -> None:
    root = Root(repl("found = 7", "FINAL(found)"))
    with RLM(root, environment="process", persistent=True) as rlm:
        rlm.completion("one", "first")
        root._replies = (ready("found + 1"),)
        assert rlm.completion("two", "second").response == "8"


async def test_another_loop_is_refused_in_words() -> None:
    rlm = RLM(Root(ready("1")), environment="process", persistent=True)
    try:
        await rlm.acompletion("one", "first")
        with pytest.raises(UsageError, match="another event loop"):
            rlm.completion("two", "second")
    finally:
        await rlm.aclose()
        rlm.portal.close()
