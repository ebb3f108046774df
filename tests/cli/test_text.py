"""What a tool or a model wrote reaches a terminal as something to read, and as nothing else."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.cli import text
from tests.cli.journal_fixtures import NASTY

ANY_TEXT = st.text(alphabet=st.characters())  # surrogates too
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=8,
)


def harmless(shown: str, but: str = "") -> bool:
    unseen = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return all(letter in but or unicodedata.category(letter) not in unseen for letter in shown)


@given(ANY_TEXT)
def test_no_text_can_steer_a_terminal(written: str) -> None:
    assert harmless(text.printable(written))
    assert harmless(text.printable_lines(written), but="\n\t")


@given(ANY_JSON)
def test_no_value_can_steer_a_terminal_in_any_form(value: Any) -> None:
    assert harmless(text.inline(value))
    assert harmless(text.spread(value), but="\n\t")
    assert text.to_json(value).isascii()


@given(ANY_JSON)
def test_what_is_shown_in_one_line_is_short(value: Any) -> None:
    # An escape can be ten times as long as the letter it stands for.
    assert len(text.inline(value, 40)) <= 400
    assert "\n" not in text.inline(value, 40)


@given(ANY_JSON)
def test_the_json_of_a_command_is_json(value: Any) -> None:
    json.loads(text.to_json(value), parse_constant=lambda name: pytest.fail(name))


def test_escapes_bidi_and_hidden_letters_are_shown() -> None:
    assert text.printable(NASTY) == r"\x1b[2J\u202egpj.exe\u200b\x07"
    assert text.printable("a\u3164b\ufe0f\U000e0041") == r"a\u3164b\ufe0f\U000e0041"


def test_ordinary_letters_of_any_script_stay() -> None:
    assert text.printable("naïve 日本語 עברית ελληνικά 👍") == "naïve 日本語 עברית ελληνικά 👍"


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (1000, "1 ms"),
        (1_234_000, "1.2 s"),
        (999_600, "1.0 s"),
        (59_960_000, "1 min 0 s"),
        (119_960_000, "2 min 0 s"),
        (125_000_000, "2 min 5 s"),
        (3_725_000_000, "1 h 2 min"),
    ],
)
def test_durations_are_in_the_unit_that_fits(microseconds: int, shown: str) -> None:
    assert text.duration_text(microseconds) == shown


def test_a_time_that_no_calendar_has_is_shown_as_the_number_it_is() -> None:
    assert text.day_and_time(10**18, utc=True) == f"{10**18} ms"


def test_numbers_go_with_their_nouns() -> None:
    assert [text.count_text(n, "entry") for n in (0, 1, 1234)] == ["0 entries", "1 entry", "1,234 entries"]
