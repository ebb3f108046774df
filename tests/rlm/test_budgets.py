"""Whatever limit ends a run, what it found is in the completion, and nothing goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import Usage
from handrail.core.model_request import ModelRequest
from handrail.rlm import RLM
from tests.rlm.root_models import Echo, Root, ready, repl

DRAFT = repl('answer["content"] = "so far"')
WHILE = (0.5, 2.0, 8.0, 32.0)
"""Seconds, each if those before did not suffice on this machine to come to the place where time is to end."""


class Stuck:
    """Never answers."""

    name = "stuck"

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled += 1
        yield TextDelta(text="never")
        yield ReplyFinished(stop="end")


@pytest.mark.parametrize("last", ["All in all: 7.", "FINAL(All in all: 7.)", "x\nFINAL_VAR(found)"])
async def test_after_the_last_turn_the_model_is_asked_for_its_last_word(last: str) -> None:
    root = Root(repl("found = 'All in all: 7.'"), repl("x = 2"), last)
    async with RLM(root, environment="process", max_iterations=2) as rlm:
        found = await rlm.acompletion("x", "the question")

    assert (found.response, found.partial) == ("All in all: 7.", True)
    assert found.error == "the run reached its limit of 2 iterations"
    assert "no more code will be run" in root.read()


async def test_a_last_word_that_is_only_code_is_no_answer_where_there_is_a_draft() -> None:
    async with RLM(Root(DRAFT, repl("x = 2"), repl("x = 3")), environment="process", max_iterations=2) as rlm:
        found = await rlm.acompletion("x", "the question")

    assert (found.response, found.partial) == ("so far", True)


async def test_a_budget_of_tokens_counts_what_code_asks_for() -> None:
    root = Root(DRAFT, repl("print(llm_query('a'))"), ready("'never'"), usage=Usage(output_tokens=10))
    async with RLM(
        root, environment="process", other_backends=[Echo(usage=Usage(input_tokens=100))], max_tokens=100
    ) as r:
        found = await r.acompletion("x", "the question")

    assert (found.response, found.partial, len(root.requests)) == ("so far", True, 2)
    assert found.error == "the run reached its limit of 100 tokens"
    assert found.usage_summary.total_input_tokens == 100 and found.usage_summary.total_output_tokens == 20


async def test_a_budget_of_money_ends_queries_too() -> None:
    sub = Echo(usage=Usage(cost=0.6))
    root = Root(repl("found = [llm_query('a'), llm_query('b'), llm_query('c')]\nprint(found)"), ready("'never'"))
    async with RLM(root, environment="process", other_backends=[sub], max_budget=1.0) as rlm:
        found = await rlm.acompletion("x", "the question")

    assert sub.asked == ["a", "b"]
    assert found.partial and found.error == "the run reached its limit of 1 US dollars"
    assert found.usage_summary.total_cost == pytest.approx(1.2)


@pytest.mark.parametrize("kind", ("process", "monty"))
async def test_time_ends_everything_below_the_run(kind: str) -> None:
    for seconds in WHILE:
        stuck, root = Stuck(), Root(DRAFT, repl("llm_query('a')"), ready("'never'"))
        async with RLM(root, environment=kind, other_backends=[stuck], max_timeout=seconds) as rlm:
            found = await rlm.acompletion("x", "the question")
        if stuck.asked.is_set():
            break

    assert (found.response, found.partial, stuck.cancelled) == ("so far", True, 1)
    assert found.error == f"the run reached its limit of {seconds:g} seconds"


async def test_time_ends_a_root_model_that_says_nothing() -> None:
    for seconds in WHILE:
        stuck = Stuck()
        async with RLM(stuck, environment="process", max_timeout=seconds) as rlm:
            found = await rlm.acompletion("x", "the question")
        if stuck.asked.is_set():
            break

    assert (found.partial, stuck.cancelled) == (True, 1)
    assert found.error == f"the run reached its limit of {seconds:g} seconds"


async def test_time_that_ends_before_the_first_turn_is_a_limit_like_any_other() -> None:
    root = Root(ready("'never'"))
    async with RLM(root, environment="process", max_timeout=0.05, setup_code="while True:\n    pass") as rlm:
        found = await rlm.acompletion("x", "the question")

    assert (found.response, found.partial, root.requests) == ("", True, [])
    assert found.error == "the run reached its limit of 0.05 seconds"


async def test_time_that_ends_while_setup_code_asks_a_model_is_a_limit_too() -> None:
    for seconds in WHILE:
        stuck, root = Stuck(), Root(ready("'never'"))
        timed = RLM(root, other_backends=[stuck], max_timeout=seconds, setup_code="x = llm_query('a')")
        async with timed as rlm:
            found = await rlm.acompletion("x", "the question")
        if stuck.asked.is_set():
            break

    assert (found.partial, stuck.cancelled, root.requests) == (True, 1, [])
    assert found.error == f"the run reached its limit of {seconds:g} seconds"


async def test_turns_in_a_row_that_fail_end_the_run() -> None:
    root = Root(repl("1 / 0"), DRAFT, repl("1 / 0"), "nothing to run", ready("'never'"))
    async with RLM(root, environment="process", max_errors=2) as rlm:
        found = await rlm.acompletion("x", "the question")

    assert (found.response, len(root.requests)) == ("so far", 4)
    assert found.error == "the run reached its limit of 2 turns in a row that failed"


async def test_without_a_draft_the_last_words_of_the_model_are_the_answer() -> None:
    root = Root("I think it is seven." + repl("1 / 0"))
    async with RLM(root, environment="process", max_errors=1) as rlm:
        found = await rlm.acompletion("x", "the question")

    assert found.partial and found.response.startswith("I think it is seven.")


async def test_a_run_that_is_cancelled_leaves_nothing_running() -> None:
    stuck = Stuck()
    root = Root(repl("llm_query_batched(['a', 'b'])"))
    async with RLM(root, environment="process", other_backends=[stuck]) as rlm:
        task = asyncio.create_task(rlm.acompletion("x", "the question"))
        async with asyncio.timeout(30):
            await stuck.asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    assert stuck.cancelled == 2
    assert asyncio.all_tasks() == {asyncio.current_task()}
