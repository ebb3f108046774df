"""The page shows text of unknown origin exactly as the terminal does; long texts come in pieces that lose nothing."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from handrail.core.display import printable, printable_lines
from tests.desk.page.page_sources import run_in_node

ODD = (
    "\x00\x07\x1b[2J\x7f\x9b31m\u00ad\u061c\u200b\u200d\u202a\u202e\u2028\u2066\ufeff\ufe0f\u034f\u3164\ue000"
    "\U000e0041\U000e0100\ufffe"
)
BATCH = 150


def _same_everywhere(letter: str) -> bool:
    """Not one that a newer Unicode than Python's may have given a meaning to."""
    return unicodedata.category(letter) != "Cn" or ord(letter) & 0xFFFE == 0xFFFE


LETTERS = st.one_of(
    st.sampled_from(ODD + " \r\n\taZ\u00e9\u4e2d\U0001f600\u2764"), st.characters().filter(_same_everywhere)
)


def _batch(strategy: st.SearchStrategy[str]) -> list[str]:
    """Many texts at once, since a process for each would take long."""
    found: list[str] = []

    @settings(
        max_examples=BATCH, database=None, derandomize=True, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy)
    def collect(text: str) -> None:
        found.append(text)

    collect()
    return found


def test_what_is_unseen_is_escaped_as_the_terminal_escapes_it() -> None:
    texts = [*_batch(st.text(LETTERS)), ODD, "a\ud800b", "\r\n\r", ""]
    shown = run_in_node(
        "text.js", "given.map((text) => [module.visible(text), module.block(text), module.visible(text, '\\n')])", texts
    )
    assert shown == [[printable(text), printable_lines(text), printable(text, "\n")] for text in texts]


def test_every_letter_of_the_first_planes_is_judged_alike() -> None:
    letters = [chr(code) for code in range(0x20000) if not 0xD800 <= code < 0xE000]
    known = [letter for letter in letters if _same_everywhere(letter)]
    shown = run_in_node("text.js", "given.map((letter) => module.visible(letter))", known)
    differ = [
        (hex(ord(letter)), theirs) for letter, theirs in zip(known, shown, strict=True) if theirs != printable(letter)
    ]
    assert differ == []


@pytest.mark.parametrize("emoji", ["❤️", "👨‍👩‍👧", "👍🏽", "1️⃣", "⚠️"])
def test_emoji_stay_what_they_are_in_prose(emoji: str) -> None:
    assert run_in_node("text.js", "module.prose(given)", f"so {emoji}!") == f"so {emoji}!"


def test_prose_escapes_whatever_else_is_unseen() -> None:
    hostile = "a\u200db \u202egpj.exe ❤\ufe0f\ufe0f \U0001f3f4\U000e0067\x1b[0m\r"
    said = run_in_node("text.js", "module.prose(given)", hostile)
    assert said == "a\\u200db \\u202egpj.exe ❤\ufe0f\\ufe0f \U0001f3f4\\U000e0067\\x1b[0m\\r"


def test_the_pieces_of_a_text_are_the_text_and_none_is_long() -> None:
    texts = [
        *_batch(st.text(st.sampled_from("a\n\U0001f600"), max_size=400)),
        "x" * 50_000,
        "\n" * 1_000,
        "\U0001f600" * 20_000,
    ]
    cut = """given.map((text) => {
      const pieces = [];
      for (let at = 0, guard = 0; at < text.length && guard < 100_000; guard++) {
        const end = module.piece(text, at, 20);
        pieces.push(text.slice(at, end));
        at = text[end] === "\\n" ? end + 1 : end;
        if (text[end] === "\\n") pieces.push("\\n");
      }
      return pieces;
    })"""
    for text, pieces in zip(texts, run_in_node("text.js", cut, texts), strict=True):
        assert "".join(pieces) == text
        assert all(len(piece) <= 16_000 and piece.count("\n") < 20 for piece in pieces)
