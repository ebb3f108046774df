"""Replies in the formats that models were trained on: calls are read, words are kept, half a call is an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from handrail.core.calls import ToolCall
from handrail.core.errors import ProtocolError
from handrail.core.events import Notice, ReasoningDelta
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.models.prompted.call_shapes import own_opening_marks
from handrail.models.prompted.formats import FORMATS
from tests.cases import case
from tests.models.prompted.reply_corpus import OFFERED, Call, Reply, replies, whole
from tests.models.prompted.text_codec import calls_of, events, text_of

every_reply = pytest.mark.parametrize("reply", replies(), ids=lambda reply: f"{reply.format}: {reply.what}")
MARKED = sorted((name, mark) for name in FORMATS for mark in own_opening_marks(name))


class Heard(Struct, frozen=True):
    text: str
    thoughts: str
    calls: tuple[Call, ...]
    notices: int


def heard(format: str, pieces: Iterable[str], *, cut: bool = False) -> Heard | None:
    """What came of a reply; None if it broke off in a call. A call that the executor cannot read is none."""
    try:
        found = events(format, pieces, *OFFERED, cut=cut)
    except ProtocolError:
        return None
    thoughts = "".join(event.text for event in found if isinstance(event, ReasoningDelta))
    notices = sum(isinstance(event, Notice) for event in found)
    return Heard(text_of(found), thoughts, tuple(_readable(calls_of(found))), notices)


def _readable(calls: Iterable[ToolCall]) -> Iterable[Call]:
    for call in calls:
        with suppress(JSONTextError):
            yield Call(call.name, parse_object(str(call.arguments)))


@every_reply
def test_what_a_model_writes_gives_its_calls_and_its_words_or_an_error(reply: Reply) -> None:
    found = heard(reply.format, [reply.text])

    assert (found is None) == reply.error
    if found is not None:
        assert found.calls == reply.calls
        assert found.text.strip() == reply.said.strip()


@every_reply
def test_letter_by_letter_the_same_comes_of_it(reply: Reply) -> None:
    assert heard(reply.format, list(reply.text)) == heard(reply.format, [reply.text])


@given(st.sampled_from(replies()), st.sampled_from(sorted(FORMATS)), st.sets(st.integers(0, 300), max_size=8))
def test_however_it_is_cut_into_pieces_the_same_comes_of_it(reply: Reply, format: str, places: set[int]) -> None:
    at = [0, *sorted(place for place in places if place < len(reply.text)), len(reply.text)]
    pieces = [reply.text[start:end] for start, end in pairwise(at)]

    for asked in (reply.format, format):
        assert heard(asked, pieces) == heard(asked, [reply.text])


@pytest.mark.parametrize("reply", whole(), ids=lambda reply: f"{reply.format}: {reply.what}")
def test_a_reply_that_ends_anywhere_gives_whole_calls_or_an_error_and_no_mark_as_text(reply: Reply) -> None:
    for end in range(len(reply.text)):
        found = heard(reply.format, [reply.text[:end]])
        if found is not None:
            assert all(_is_of(call, reply) for call in found.calls), reply.text[:end]
            assert not [mark for mark in own_opening_marks(reply.format) if mark in found.text], reply.text[:end]


@given(st.sampled_from(whole()), st.integers(0, 400))
def test_the_token_limit_never_makes_a_call_of_half_of_one(reply: Reply, place: int) -> None:
    found = heard(reply.format, [reply.text[:place]], cut=True)

    assert found is not None
    assert not Counter(map(str, found.calls)) - Counter(map(str, reply.calls))


def _is_of(call: Call, reply: Reply) -> bool:
    """Whether a reply has this call. Where arguments are elements, whole ones make a call that nothing closed."""
    return any(each.name == call.name and call.arguments.items() <= each.arguments.items() for each in reply.calls)


@pytest.mark.parametrize(
    "sentence",
    [
        "Models write {} before a call, and people read it.",
        "It begins with `{}`.",
        "It begins with `{}`",
        "The mark is {} and\nno other.",
        "Write {} or <b>.",
        "It is {}\nThanks.",
    ],
)
def test_prose_that_mentions_a_mark_is_prose(sentence: str) -> None:
    for format, mark in MARKED:
        text = sentence.format(mark)

        with case((format, mark)):
            assert heard(format, [text]) == Heard(text, "", (), 0)


def test_every_format_that_models_were_trained_on_has_examples_of_each_kind() -> None:
    needed = {
        (reply.format, kind) for reply in replies() for kind in ("one", "several", "no arguments", "text", "half")
    }

    assert {(format, kind) for format, kind in needed if not _has(format, kind)} == set()


def _has(format: str, kind: str) -> bool:
    return any(reply.format == format and reply.what.startswith(kind) for reply in replies())
