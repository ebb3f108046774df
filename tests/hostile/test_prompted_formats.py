"""Hostile text in every prompted format: the right calls or none, the right words, and never half a call."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st

from handrail import Executor, Policy, ToolCall
from handrail.core.jsontext import parse_object
from handrail.models.prompted.formats import FORMATS
from tests.examples import examples
from tests.hostile.prompted_corpus import Reply, replies
from tests.hostile.prompted_outcomes import TOOLS, PromptedOutcome, pieces_of, read_prompted

every_reply = pytest.mark.parametrize("reply", replies(), ids=lambda reply: reply.id)
LONG = 200_000


@every_reply
def test_a_hostile_reply_gives_the_right_calls_and_words_or_an_error(reply: Reply) -> None:
    right = reply.written

    found = read_prompted(reply.format, [right.reply], cut=right.cut)

    assert bool(found.error) == right.error
    assert [name for name, _ in found.calls] == [call.name for call in right.calls]
    for (_, arguments), call in zip(found.calls, right.calls, strict=True):
        assert (arguments if isinstance(call.arguments, str) else parse_object(arguments)) == call.arguments
    if not right.error:
        assert (found.text, found.thoughts) == (right.text, right.thoughts)
        assert found.notices == right.notice
        assert found.stop == ("max_tokens" if right.cut else "tool_calls" if right.calls else "end")


@every_reply
async def test_the_executor_answers_each_of_its_calls_as_it_should(reply: Reply) -> None:
    found = read_prompted(reply.format, [reply.written.reply], cut=reply.written.cut)

    async with Executor(TOOLS, policy=Policy(confirm_side_effects=False)) as executor:
        results = [await executor.invoke(ToolCall(str(n), *call)) for n, call in enumerate(found.calls)]

    assert [result.outcome for result in results] == [call.outcome for call in reply.written.calls]


@every_reply
def test_letter_by_letter_the_same_comes_of_it(reply: Reply) -> None:
    text, cut = reply.written.reply, reply.written.cut

    assert read_prompted(reply.format, text, cut=cut) == read_prompted(reply.format, [text], cut=cut)


@settings(max_examples=examples(400))
@given(st.sampled_from(replies()), st.sampled_from(sorted(FORMATS)), st.lists(st.integers(0, 400), max_size=20))
def test_however_a_hostile_reply_is_cut_into_pieces_the_same_comes_of_it(
    reply: Reply, format: str, places: list[int]
) -> None:
    text = reply.written.reply

    for asked in (reply.format, format):
        assert read_prompted(asked, pieces_of(text, places)) == read_prompted(asked, [text])


@settings(max_examples=examples(400))
@given(st.sampled_from(replies()), st.integers(0, 400))
def test_a_reply_that_the_token_limit_ends_anywhere_gives_no_call_that_the_whole_would_not(
    reply: Reply, place: int
) -> None:
    whole = read_prompted(reply.format, [reply.written.reply])

    found = read_prompted(reply.format, [reply.written.reply[:place]], cut=True)

    assert whole.error or not Counter(map(str, found.calls)) - Counter(map(str, whole.calls))


@given(st.sampled_from(replies()), st.sampled_from(sorted(set(FORMATS) - {"harmony"})))
def test_no_call_of_any_format_runs_out_of_a_thought(reply: Reply, format: str) -> None:
    text = reply.written.reply.replace("think", "thank")

    assert read_prompted(format, [f"<think>{text}</think>Done."]) == PromptedOutcome("Done.", text, (), 0, "end", "")


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_every_format_has_its_hostile_replies(format: str) -> None:
    assert sum(reply.format == format for reply in replies()) >= 5


def test_the_corpus_is_in_folders_of_formats_that_exist() -> None:
    assert {reply.format for reply in replies()} == set(FORMATS)


@pytest.mark.parametrize(
    "unit",
    ["Nothing here is a call. ", "a < b and {c} or [d] ", "`x` ``y`` ", "\n```\nx\n", "\n<think>x</think>", "<think>",
     "\n```tool_code\n'", "<tool_call>f<arg_key>", "<tool_call>f<arg_key>a</arg_key><arg_value>", "</arg_value>",
     "<function=f><parameter=a>b</parameter>c", "<|channel|>commentary to=functions.f<|message|>{\"", "<|call|>",
     "\n<function=f>{", "</parameter>  ", '<invoke name="f"><parameter name="a">', "Action: f\nAction Input: ", " "],
)  # fmt: skip
@pytest.mark.parametrize("format", ["hermes", "pythonic", "react", "harmony", "nemotron"])
def test_a_long_text_is_gone_through_once(format: str, unit: str) -> None:
    # Work that grew with the square of the length would not end in reasonable time.
    assert read_prompted(format, [unit * (LONG // len(unit))])
