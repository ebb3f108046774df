"""Typed answers of runs: what is on record, and how a run that was cut off is taken up at every one of its entries."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail import Context, Conversation, Executor, Limits, Runner, tool
from handrail.core.messages import AssistantMessage, ResultMessage
from handrail.core.model_request import ModelRequest
from handrail.errors import BrokenChoice, InvalidAnswer, LimitExceeded
from handrail.events import ConversationChanged, ModelEvent, Recorded, ReplyFailed, ReplyFinished, ReplyGiven
from handrail.run import answer_of, conversation_of
from handrail.testing import MemoryJournal, ScriptedModel, call, text
from handrail.tools.answer_type import AnswerType, answer_type

ASKED = Conversation().say("How many?")
RUN = Context(run="r")


@dataclass(frozen=True)
class Count:
    n: int


class Planned:
    """A model whose reply follows from the conversation: it looks, answers wrongly once, and then rightly."""

    name = "planned"

    def __init__(self, *, holds: bool) -> None:
        self._holds = holds
        self.asked = 0

    def holds_to_schema(self, *, tools: bool) -> bool:
        return self._holds

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.asked += 1
        turn = sum(isinstance(message, AssistantMessage) for message in request.messages)
        answer = {"n": "seven" if turn == 1 else 7}
        if turn == 0:
            yield call("look", f"look{turn}")
        elif self._holds:
            yield text(json.dumps(answer))
        else:
            yield call("final_answer", f"answer{turn}", **answer)
        yield ReplyFinished(stop="end" if turn and self._holds else "tool_calls", model=self.name)


@tool
def look() -> int:
    """Count."""
    return 7


async def run(events: list[Recorded], *, holds: bool, **limits: Any) -> tuple[Conversation, list[Recorded], int]:
    """Take up the run that has left these events: what it ended with, its record, and how often the model was asked."""
    journal, model = MemoryJournal(), Planned(holds=holds)
    journal.events = list(events)
    async with Executor([look], journal=journal) as executor:
        so_far = conversation_of(await journal.history("r"))
        runner = Runner(model, executor, Limits(**limits))
        ended = await runner.run(so_far if so_far.messages else ASKED, RUN, returns=Count)
    return ended, journal.events, model.asked


def said(conversation: Conversation) -> list[str]:
    """What was said and done, without times."""
    return [
        f"{message.result.name} {message.result.text}" if isinstance(message, ResultMessage) else type(message).__name__
        for message in conversation.messages
    ]


@pytest.mark.parametrize("holds", [True, False])
async def test_a_run_cut_off_at_any_entry_ends_with_the_same_answer_and_asks_nothing_twice(holds: bool) -> None:
    whole, record, asked = await run([], holds=holds)
    assert (answer_of(whole, Count), asked) == (Count(7), 3)

    for cut in range(len(record) + 1):
        left = record[:cut]
        replies = sum(isinstance(event, ReplyGiven) for event in left)
        resumed, _, again = await run(left, holds=holds)
        assert said(resumed) == said(whole)
        assert (answer_of(resumed, Count), replies + again) == (Count(7), 3)


@pytest.mark.parametrize("holds", [True, False])
async def test_a_run_that_had_no_more_tries_has_none_when_it_is_taken_up_unless_the_limit_is_higher(
    holds: bool,
) -> None:
    journal = MemoryJournal()
    async with Executor([look], journal=journal) as executor:
        with pytest.raises(InvalidAnswer):
            await Runner(Planned(holds=holds), executor, Limits(wrong_answers=1)).run(ASKED, RUN, returns=Count)

    with pytest.raises(InvalidAnswer, match="expected integer"):
        await run(journal.events, holds=holds, wrong_answers=1)
    ended, _, _ = await run(journal.events, holds=holds, wrong_answers=2)
    assert answer_of(ended, Count) == Count(7)


@pytest.mark.parametrize("holds", [True, False])
async def test_answers_that_were_refused_before_a_run_was_cut_off_count_on(holds: bool) -> None:
    wrong = [text('{"n": "many"}')] if holds else [call("final_answer", n="many")]
    journal = MemoryJournal()
    async with Executor([], journal=journal) as executor:
        with pytest.raises(InvalidAnswer):
            await Runner(ScriptedModel(wrong, wrong, holds_schema=holds), executor, Limits(wrong_answers=2)).run(
                ASKED, RUN, returns=Count
            )

    for cut in range(len(journal.events)):
        left, model = MemoryJournal(), ScriptedModel(wrong, wrong, wrong, holds_schema=holds)
        left.events = journal.events[:cut]
        async with Executor([], journal=left) as executor:
            so_far = conversation_of(await left.history("r"))
            with pytest.raises(InvalidAnswer):
                runner = Runner(model, executor, Limits(wrong_answers=2))
                await runner.run(so_far if so_far.messages else ASKED, RUN, returns=Count)
        replies = sum(isinstance(event, ReplyGiven) for event in journal.events[:cut])
        assert replies + len(model.requests) == 2


async def test_an_answered_run_that_is_taken_up_without_its_type_asks_nothing_more() -> None:
    _, record, _ = await run([], holds=False)
    journal, model = MemoryJournal(), ScriptedModel()
    journal.events = record
    async with Executor([look], journal=journal) as executor:
        so_far = conversation_of(await journal.history("r"))
        assert await Runner(model, executor).run(so_far, RUN) == so_far
    assert model.requests == []


async def test_a_refused_answer_and_what_the_model_was_told_are_on_record() -> None:
    _, record, _ = await run([], holds=True)
    changes = [event for event in record if isinstance(event, ConversationChanged)]
    assert "n: expected integer, got 'seven' (string)" in str(changes[-1].messages)


async def test_a_model_that_breaks_the_choice_of_the_answer_is_asked_again_without_it() -> None:
    class Stubborn(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
            self.requests.append(request)
            if request.tool_choice != "auto":
                raise BrokenChoice("the model was told to call 'final_answer' and called none")
            yield text('{"n": 7}')
            yield ReplyFinished(stop="end")

    journal = MemoryJournal()
    async with Executor([], journal=journal) as executor:
        ended = await Runner(Stubborn(), executor).run(ASKED, RUN, returns=Count)
    assert answer_of(ended, Count) == Count(7)
    assert [event.error for event in journal.events if isinstance(event, ReplyFailed)] == ["protocol_error"]


async def test_a_run_that_is_out_of_tokens_has_no_half_answer() -> None:
    from handrail.messages import Usage

    spent = ReplyFinished(stop="tool_calls", usage=Usage(input_tokens=50))
    model = ScriptedModel([call("look"), spent])
    async with Executor([look]) as executor:
        with pytest.raises(LimitExceeded):
            await Runner(model, executor, Limits(tokens=20)).run(ASKED, RUN, returns=Count)


def test_a_conversation_without_an_answer_says_so() -> None:
    with pytest.raises(InvalidAnswer, match="no answer was given"):
        answer_of(ASKED, Count)
    assert answer_of(ASKED.add(AssistantMessage("seven")), str) == "seven"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.sampled_from(["{}", "  {}\n", "```\n{}\n```", "```json\n{}\n```", "\n```JSON \r\n{}\r\n  ```  "]))
def test_any_json_is_read_as_it_is_with_or_without_a_code_fence(value: Any, around: str) -> None:
    written = around.replace("{}", json.dumps(value))
    assert AnswerType.of_schema({}).read_text(written) == value


@given(st.text())
def test_any_text_is_an_answer_or_is_refused_with_words(written: str) -> None:
    type = answer_type(list[int])
    assert type is not None
    try:
        assert all(isinstance(each, int) for each in type.read_text(written))
    except Exception as error:
        assert getattr(error, "problems", ())


@given(st.lists(st.integers(-(2**60), 2**60)))
def test_a_value_in_its_field_or_without_it_is_the_same(value: list[int]) -> None:
    type = answer_type(list[int])
    assert type is not None
    assert type.read({"value": value}) == type.read(value) == value


def test_the_order_of_a_union_counts_although_python_takes_both_for_equal() -> None:
    one, other = answer_type(int | str), answer_type(str | int)
    assert one is not other
    assert answer_type(int | str) is one
