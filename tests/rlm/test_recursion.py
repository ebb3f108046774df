"""`rlm_query`: a question that a model works on in a REPL of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import AssistantMessage, Usage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.rlm import RLM
from handrail.testing.journal import MemoryJournal
from handrail.tools.tool import tool
from tests.rlm.root_models import Echo, Root, ready, repl


class ByTask:
    """Says what its table has for the task, turn by turn."""

    name = "by task"

    def __init__(self, **replies: list[str]) -> None:
        self._replies = replies

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        asked = next(each.text for each in request.messages if isinstance(each, UserMessage))
        turn = sum(isinstance(each, AssistantMessage) for each in request.messages)
        task = next(task for task in self._replies if f"TASK {task}" in asked)
        yield TextDelta(text=self._replies[task][turn])
        yield ReplyFinished(stop="end", model=self.name, usage=Usage(output_tokens=1))


@pytest.mark.parametrize("kind", ("process", "monty"))
async def test_a_child_has_a_repl_of_its_own_and_its_run_is_on_record(kind: str) -> None:
    model = ByTask(
        outer=[repl("x = 1\nfound = rlm_query('TASK inner')\nprint(x, found)"), ready("found")],
        inner=[repl("x = 2\nprint(context)"), ready("context + ' is done'")],
    )
    journal = MemoryJournal()
    async with RLM(model, environment=kind, max_depth=2, journal=journal) as rlm:
        found = await rlm.acompletion("TASK outer")

    assert found.response == "TASK inner is done"
    assert found.usage_summary.total_output_tokens == 4
    runs = list(dict.fromkeys(event.run for event in journal.events))
    assert len(runs) == 2 and runs[1].startswith(f"{runs[0]}.")


async def test_children_of_a_batch_answer_in_order_and_one_that_fails_leaves_the_others() -> None:
    model = ByTask(
        outer=[repl("found = rlm_query_batched(['TASK a', 'TASK b', 'TASK c'])\nFINAL(found)")],
        a=[ready("'A'")],
        b=[ready("'B'")],
    )
    model._replies["c"] = []  # it has nothing to say, which is an error
    async with RLM(model, environment="process", max_depth=2) as rlm:
        found = await rlm.acompletion("TASK outer")

    assert found.response.startswith('["A", "B", "__LLM_ERROR__|')


@pytest.mark.parametrize("function", ["llm_query", "rlm_query"])
async def test_a_model_that_nobody_has_is_the_same_error_whoever_asks_for_it(function: str) -> None:
    root = Root(repl(f"FINAL({function}('x', model='nobody'))"))
    async with RLM(root, environment="process", other_backends=[Echo()], max_depth=2) as rlm:
        found = await rlm.acompletion("x", "the question")

    assert found.response == "__LLM_ERROR__|unknown_model|0|there is no model 'nobody'; there are echo, root"


async def test_what_a_child_had_when_a_limit_ended_it_reaches_its_parent_as_such() -> None:
    model = ByTask(
        outer=[repl("FINAL(rlm_query('TASK inner'))")],
        inner=[repl("x = 1"), repl("x = 2"), "It is probably 7."],
    )
    async with RLM(model, environment="process", max_depth=2, max_iterations=2) as rlm:
        found = await rlm.acompletion("TASK outer")

    limit = "the run reached its limit of 2 iterations"
    assert found.response == f"__LLM_ERROR__|limit_exceeded|0|{limit}; the best that it had: It is probably 7."


async def test_at_the_greatest_depth_a_model_is_asked_instead() -> None:
    sub = Echo()
    root = Root(repl("print(rlm_query('a'), rlm_query_batched(['b']))"), ready("1"))
    async with RLM(root, environment="process", other_backends=[sub], max_depth=1) as rlm:
        await rlm.acompletion("x")

    assert sub.asked == ["a", "b"]
    assert "A ['B']" in root.read(1)


async def test_children_have_the_tools_that_are_for_them() -> None:
    @tool(side_effects=False)
    def secret() -> str:
        """Only for the parent."""
        return "s"

    for sub_tools, has in ((None, "True"), ({}, "False")):
        model = ByTask(
            outer=[repl("print(secret())\nFINAL(rlm_query('TASK inner'))")],
            inner=[repl("FINAL('secret' in globals())")],
        )
        tools = {"secret": secret}
        async with RLM(
            model, environment="process", max_depth=2, custom_tools=tools, custom_sub_tools=sub_tools
        ) as rlm:
            assert (await rlm.acompletion("TASK outer")).response == has


async def test_children_spend_what_their_parent_has() -> None:
    model = ByTask(
        outer=[repl('answer["content"] = rlm_query("TASK inner")'), ready("1")],
        inner=[repl("x = 1")] * 100,
    )
    async with RLM(model, environment="process", max_depth=2, max_tokens=5) as rlm:
        found = await rlm.acompletion("TASK outer")

    assert found.usage_summary.total_output_tokens == 5
    assert found.partial and found.error == "the run reached its limit of 5 tokens"
