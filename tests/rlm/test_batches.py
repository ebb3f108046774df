"""Many queries at once: in order, a few at a time, each on its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from handrail.core.errors import ModelError
from handrail.core.events import ModelEvent, ReplyFinished
from handrail.core.messages import ResultMessage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.rlm.query.queries import Queries
from handrail.rlm.query.sentinel import answer_of
from handrail.testing.model import call, text
from tests.rlm.test_queries import COUNT, STATS, Echo, never


@pytest.mark.requirement("rlm.batched")
async def test_a_batch_is_answered_in_order_a_few_at_once() -> None:
    model = Echo()

    completions = await Queries({}, model, concurrency=5).batched([f"q{number}" for number in range(40)])

    assert [each.response for each in completions] == [f"Q{number}" for number in range(40)]
    assert model.most == 5


@pytest.mark.requirement("rlm.batched")
async def test_one_prompt_that_fails_leaves_the_others_whole() -> None:
    def answer(question: str) -> str:
        if question == "b":
            raise ModelError("no")
        return question

    completions = await Queries({}, Echo(answer)).batched(["a", "b", "c"])

    assert list(map(answer_of, completions)) == ["a", "__LLM_ERROR__|model_error|0|no", "c"]


@pytest.mark.requirement("rlm.batched")
async def test_each_prompt_of_a_batch_has_its_own_loop_and_they_overlap() -> None:
    class Caller:
        name = "caller"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            asked = next(each.text for each in request.messages if isinstance(each, UserMessage))
            found = [each.result.text for each in request.messages if isinstance(each, ResultMessage)]
            yield text(f"{asked}: {found[0]}") if found else call("count", of=asked)
            yield ReplyFinished(stop="end")

    gate = asyncio.Barrier(3)

    async def handler(name: str, arguments: dict[str, Any]) -> str:
        await gate.wait()  # all three are here at once, or none goes on
        return f"{arguments['of']}{arguments['of']}"

    async with asyncio.timeout(10):
        completions = await Queries({}, Caller()).batched(["a", "b", "c"], tools=[COUNT], tool_handler=handler)

    assert [each.response for each in completions] == ["a: aa", "b: bb", "c: cc"]


@pytest.mark.requirement("rlm.beyond")
async def test_each_prompt_may_have_tools_and_a_handler_of_its_own() -> None:
    seen: dict[str, list[str]] = {}

    class Noting(Echo):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            asked = next(each.text for each in request.messages if isinstance(each, UserMessage))
            seen[asked] = [offer.name for offer in request.tools]
            yield text(asked)
            yield ReplyFinished(stop="end")

    await Queries({}, Noting()).batched(
        ["a", "b", "c"], tools=[[STATS], None, [COUNT]], tool_handler=[never, None, never]
    )

    assert seen == {"a": ["get_stats"], "b": [], "c": ["count"]}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"prompts": "one"}, "use llm_query"),
        ({"prompts": ["a", 3]}, "Invalid prompt type: int"),
        ({"tools": [[STATS]], "tool_handler": never}, "one for each of the 2 prompts"),
        ({"tools": [[STATS], STATS], "tool_handler": never}, "Invalid tools"),
        ({"tools": [STATS], "tool_handler": [never]}, "Invalid tool_handler: give one for each"),
        ({"tools": [[STATS], None], "tool_handler": [None, never]}, "tool_handler is required"),
        ({"response_formats": [None]}, "Invalid response_formats"),
    ],
)
async def test_a_batch_that_cannot_be_asked_is_not_begun(given: dict[str, Any], why: str) -> None:
    model = Echo()

    with pytest.raises(ValueError, match=why):
        await Queries({}, model).batched(**{"prompts": ["a", "b"], **given})
    assert model.asked == []


@pytest.mark.requirement("rlm.batched")
async def test_a_batch_that_is_cancelled_leaves_nothing_running() -> None:
    started = asyncio.Event()

    class Stuck(Echo):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            self.now += 1
            started.set()
            try:
                await asyncio.Event().wait()
                yield text("never")
            finally:
                self.now -= 1

    model = Stuck()
    queries = Queries({}, model, concurrency=4)
    batch = asyncio.create_task(queries.batched(["x"] * 10))
    async with asyncio.timeout(10):
        await started.wait()
        batch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await batch

    assert model.now == 0 and queries.spend.in_flight == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_batch_of_many_prompts_has_no_more_tasks_than_it_works_with() -> None:
    most = 0

    def answer(question: str) -> str:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()))
        return question

    completions = await Queries({}, Echo(answer), concurrency=8).batched(["x"] * 2_000)

    assert len(completions) == 2_000 and most <= 9
