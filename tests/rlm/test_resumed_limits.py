"""A run that is taken up has used what it has used, and goes on as far as its limits are now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from handrail.core.events import CallSettled, ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import AssistantMessage, Usage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.rlm import RLM
from handrail.rlm.report.journal_source import from_journal
from handrail.rlm.values import RLMChatCompletion
from handrail.sandbox.port import ReplLimits
from handrail.testing.journal import MemoryJournal
from tests.rlm.root_models import Echo, Root, ready, repl

TEN = Usage(input_tokens=10)
LAST = "That is all."


async def test_a_run_that_used_up_its_iterations_goes_on_when_it_may_have_more() -> None:
    """What it said as its last word is taken back, and was paid for all the same."""
    journal = MemoryJournal()
    replies = (repl("x = 7"), LAST, ready("str(x)"))

    async def asked(iterations: int, *replies: str) -> RLMChatCompletion:
        root = Root(*replies, usage=TEN)
        async with RLM(root, environment="process", max_iterations=iterations, journal=journal, run="r") as rlm:
            return await rlm.acompletion("text", "question")

    first = await asked(1, *replies)
    same = await asked(1)
    more = await asked(2, replies[0], replies[2])

    assert (first.response, first.partial, first.usage_summary.total_input_tokens) == (LAST, True, 20)
    assert (same.response, same.partial, same.usage_summary.total_input_tokens) == (LAST, True, 20)
    assert (more.response, more.partial, more.usage_summary.total_input_tokens) == ("7", False, 30)
    page = from_journal(lambda run: [each for each in journal.events if each.run == run], "r")
    assert (len(page.turns), page.used.total_calls, page.used.total_input_tokens) == (2, 3, 30)


class Slow:
    """Says half of something."""

    name = "slow"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta(text="```repl\nx = ")
        await asyncio.Event().wait()


async def test_a_reply_that_time_has_cut_is_asked_for_again_when_there_is_more() -> None:
    journal = MemoryJournal()
    async with RLM(Slow(), environment="process", max_timeout=1.0, journal=journal, run="r") as rlm:
        first = await rlm.acompletion("text", "question")
    async with RLM(Root(ready("'done'")), environment="process", journal=journal, run="r") as rlm:
        more = await rlm.acompletion("text", "question")

    assert first.partial and first.error is not None and "seconds" in first.error
    assert (more.response, more.partial) == ("done", False)


class Fails:
    """A run whose child asks a model, and then fails in a way that nobody has thought of."""

    name = "root"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        question = next(each.text for each in request.messages if isinstance(each, UserMessage))
        turn = sum(isinstance(each, AssistantMessage) for each in request.messages)
        if "CHILD" in question and turn == 1:
            raise RuntimeError("nobody has thought of this")
        child, top = repl("llm_query('one')"), (repl("said = rlm_query('CHILD')"), ready("said"))
        yield TextDelta(text=child if "CHILD" in question else top[turn])
        yield ReplyFinished(stop="end", model=self.name, usage=TEN)


async def test_what_a_child_used_that_failed_is_counted_also_after_a_crash() -> None:
    async def asked(journal: MemoryJournal) -> RLMChatCompletion:
        sub = Echo("sub", Usage(input_tokens=1))
        async with RLM(Fails(), other_backends=[sub], journal=journal, max_depth=2, run="r") as rlm:
            return await rlm.acompletion("text", "question")

    whole = MemoryJournal()
    first = await asked(whole)
    assert first.response.startswith("__LLM_ERROR__|query_error|0|")
    assert first.usage_summary.total_input_tokens == 31

    ended = next(
        at for at, each in enumerate(whole.events) if isinstance(each, CallSettled) and each.tool == "rlm_query"
    )
    for at in (ended, ended + 1, len(whole.events) - 3):
        journal = MemoryJournal()
        journal.events = whole.events[:at]
        again = await asked(journal)
        assert again.usage_summary.total_input_tokens == 31, at


@pytest.mark.parametrize("cut", [False, True])
async def test_what_calls_have_carried_counts_on_when_a_run_is_taken_up(cut: bool) -> None:
    """Each call once: code that runs again makes the same ones, and they are answered."""
    much = "'a' * 40_000"
    replies = (repl(f"a = llm_query({much})"), repl(f"b = llm_query({much})"), repl("llm_query('c')"), ready("'end'"))
    journal = MemoryJournal()

    async def asked() -> Root:
        root = Root(*replies)
        limits = ReplLimits(calls_bytes=100_000)
        async with RLM(
            root,
            environment="process",
            other_backends=[Echo()],
            journal=journal,
            limits=limits,
            run="r",
        ) as rlm:
            await rlm.acompletion("text", "question")
        return root

    await asked()
    settled = [at for at, each in enumerate(journal.events) if isinstance(each, CallSettled) and each.tool == "repl"]
    journal.events = journal.events[: settled[2] + (0 if cut else 1)]  # the second turn, the first is the setup
    root = await asked()

    assert "nothing more can be called" in root.read()
    assert len(root.requests) == 2
