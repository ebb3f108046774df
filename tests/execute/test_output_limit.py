"""The model is sent no more than the limit, cut where a reader would cut, and is told so."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from handrail.core.calls import SpilledOutput
from handrail.execute.output import SMALLEST, bound_output, cut_position, cut_text
from handrail.execute.spill import MemorySpill
from handrail.testing.ids import CountedIds

ZWJ = "\u200d"
pieces = st.sampled_from(
    ["a", "word ", "\n", "\r\n", "e\u0301", "\u0308", ZWJ, "👩‍🚀", "👍🏽", "नि", "🇵🇹", "`", "^", " \u0308", "x" * 40]
)
texts = st.lists(pieces, max_size=80).map("".join) | st.text(max_size=300)
limits = st.integers(0, 400)


class FullDisk:
    async def put(self, text: str) -> str:
        raise OSError(28, "No space left on device")

    async def read(self, id: str, start: int, length: int) -> tuple[str, int]:
        raise KeyError(id)


def splits(text: str, at: int) -> bool:
    """Whether a cut there goes through something that readers see as one."""
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    return (
        unicodedata.combining(after) != 0
        or unicodedata.category(after) in ("Mn", "Mc", "Me")
        or ZWJ in (before, after)
        or (before, after) == ("\r", "\n")
        or unicodedata.name(after, "").startswith("EMOJI MODIFIER")
    )


@pytest.mark.requirement("abstractllm.output-limit")
@given(texts, limits, st.none() | st.just("out_1"))
def test_what_is_sent_is_never_longer_than_the_limit(text: str, limit: int, id: str | None) -> None:
    shown, note = cut_text(text, limit, id)

    assert len(shown + note) <= limit


@pytest.mark.requirement("abstractllm.output-limit")
@given(texts, limits)
def test_what_is_shown_is_the_beginning_and_ends_where_a_reader_would(text: str, limit: int) -> None:
    shown, _ = cut_text(text, limit, None)

    assert text.startswith(shown)
    assert not splits(text, len(shown))


@given(texts, st.integers(0, 500))
def test_a_boundary_is_at_most_where_it_was_asked_for_and_splits_nothing(text: str, most: int) -> None:
    at = cut_position(text, most)

    assert 0 <= at <= min(most, len(text))
    assert not splits(text, at)


@pytest.mark.requirement("abstractllm.output-limit")
@given(st.text(min_size=401, max_size=600), st.integers(SMALLEST, 400), st.booleans())
async def test_an_output_over_the_limit_says_that_it_was_cut_and_can_be_read_on(
    text: str, limit: int, keeps: bool
) -> None:
    spill = MemorySpill(new_id=CountedIds()) if keeps else None

    sent, kept, warnings = await bound_output(text, limit, spill)

    assert len(sent) <= limit
    found = re.search(r"\n\[cut: (\d+) of (\d+) characters; (.*)\]\Z", sent)
    assert found is not None
    shown = int(found[1])
    assert (sent[:shown], int(found[2])) == (text[:shown], len(text))
    assert warnings == (f"output cut: {shown} of {len(text)} characters sent",)
    if spill is None:
        assert (kept, found[3]) == (None, "the rest was not kept")
    else:
        assert kept == SpilledOutput("out_1", len(text))
        assert found[3] == f"read on with read_output(id='out_1', start={shown})"
        assert (sent[:shown] + (await spill.read("out_1", shown, len(text)))[0]) == text


@pytest.mark.requirement("nrv.warnings")
@pytest.mark.parametrize("content", ["x" * 200, {"a": "x" * 192}, ["é" * 196], None, 5])
async def test_what_fits_is_sent_as_it_is(content: Any) -> None:
    spill = MemorySpill()

    assert await bound_output(content, 200, spill) == (content, None, ())


@pytest.mark.requirement("abstractllm.output-limit")
@pytest.mark.parametrize("content", [{"a": "x" * 193}, ["é" * 197], list(range(100))])
async def test_json_over_the_limit_is_cut_as_its_text(content: Any) -> None:
    spill = MemorySpill(new_id=CountedIds())
    text = msgspec.json.encode(content).decode()

    sent, kept, warnings = await bound_output(content, 200, spill)

    assert isinstance(sent, str)
    assert len(sent) <= 200
    assert text.startswith(sent.partition("\n[cut")[0])
    assert kept == SpilledOutput("out_1", len(text))
    assert (await spill.read("out_1", 0, 10_000))[0] == text
    assert len(warnings) == 1


@pytest.mark.parametrize("limit", [1, 2, 10, 50])
async def test_a_limit_too_small_for_the_note_is_kept_and_the_warning_tells(limit: int) -> None:
    sent, _, warnings = await bound_output("word " * 100, limit, None)

    assert len(sent) <= limit
    assert sent.endswith("…")
    assert warnings == (f"output cut: {len(sent) - 1} of 500 characters sent",)


async def test_a_store_that_fails_does_not_take_the_result_away() -> None:
    sent, kept, warnings = await bound_output("x" * 1000, 300, FullDisk())

    assert sent.startswith("xxx")
    assert sent.endswith("the rest was not kept]")
    assert kept is None
    assert any("No space left" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("one two three four five six seven", 30, "one two three four five six "),
        ("a" * 26 + "\n" + "b" * 20, 28, "a" * 26 + "\n"),
        ("a\n" + "b" * 40, 30, "a\n" + "b" * 28),
        ("a" * 9 + "\r\n" + "b" * 9, 10, "a" * 9),
        ("a" * 9 + "e\u0301" + "b" * 9, 10, "a" * 9),
        ("a" * 20 + " \u0308" + "b" * 9, 22, "a" * 20 + " \u0308"),
        ("a" * 20 + " \u0308" + "b" * 9, 23, "a" * 20 + " \u0308b"),
        ("a" * 5 + "👩‍🚀" + "b" * 9, 6, "a" * 5),
        ("a" * 5 + "👩‍🚀" + "b" * 9, 7, "a" * 5),
        ("a" * 5 + "👍🏽" + "b" * 9, 6, "a" * 5),
        ("`" * 50, 30, "`" * 30),
        ("^" * 50, 30, "^" * 30),
        ("\u0301" * 50, 30, ""),
        ("short", 30, "short"),
        ("", 0, ""),
    ],
)
def test_a_text_is_cut_where_a_reader_would(text: str, most: int, shown: str) -> None:
    assert text[: cut_position(text, most)] == shown
