"""A held text says the same as a Python str of it, wherever one looks, however it is cut into blocks and windows."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from handrail.rlm.contexts.indexed_text import IndexedText, index_text
from handrail.rlm.contexts.scan import count, find, pieces
from handrail.rlm.contexts.text_storage import SpilledText, encode_utf8, spill

LETTERS = st.sampled_from("ab\n\r é€😀\u2028\ufeff\x00")
TEXTS = st.one_of(
    st.text(LETTERS, min_size=100, max_size=300),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
)
BYTES = st.lists(
    st.sampled_from([b"a", b"\n", "é€😀".encode(), b"\xff", b"\xe2\x82", b"\xf0\x9f\x98", b"\x80"]), max_size=60
)
BLOCKS = st.integers(4, 40)


def held(text: str, block: int) -> IndexedText:
    return index_text(spill(encode_utf8(text)), block)


@given(TEXTS, BLOCKS, st.integers(-20, 350), st.integers(-5, 350))
def test_any_piece_is_the_slice_of_the_str(text: str, block: int, start: int, length: int) -> None:
    kept = held(text, block)
    assert kept.read(start, length) == text[max(start, 0) : max(start + length, 0)]
    assert kept.size == len(text)
    kept.stored.close()


@given(TEXTS, BLOCKS, st.integers(-5, 60), st.integers(-5, 60))
def test_lines_are_those_of_a_split_at_line_feeds(text: str, block: int, first: int, number: int) -> None:
    kept = held(text, block)
    assert kept.lines(first, number) == text.split("\n")[max(first, 0) : max(first + number, 0)]
    assert kept.breaks == text.count("\n")
    kept.stored.close()


@given(st.one_of(st.binary(max_size=200), BYTES.map(b"".join)), BLOCKS, st.integers(0, 200), st.integers(0, 200))
def test_bytes_that_are_not_utf_8_are_replaced_alike_however_they_are_cut(
    data: bytes, block: int, start: int, length: int
) -> None:
    kept = index_text(spill([data]), block)
    whole = data.decode("utf-8", "replace")
    assert kept.read(0, kept.size) == whole
    assert kept.read(start, length) == whole[start : start + length]
    assert kept.is_broken == (whole != data.decode("utf-8", "ignore"))
    kept.stored.close()


def _streamed(stored: SpilledText, step: int) -> Iterator[str]:
    return pieces(stored.file.fileno(), stored.start, stored.end, step)


BOUNDED = [
    "a",
    "ab",
    "aa",
    "a{5}",
    "^",
    "$",
    "^a|b$",
    r"(?<=a)b",
    r"\n",
    r"a\nb",
    r"(?<!a)b",
    r"\bé",
    r"\A.",
    "",
    "|a",
    "(?s)a.b",
]
"""None of them matches more than an overlap has."""
PATTERNS = [*BOUNDED, "a*", "(?<!a)b+"]


@given(TEXTS, BLOCKS, st.sampled_from(BOUNDED), st.integers(1, 40), st.integers(4, 9))
def test_a_search_in_windows_finds_what_a_search_in_the_whole_finds(
    text: str, step: int, pattern: str, window: int, overlap: int
) -> None:
    stored = spill(encode_utf8(text))
    compiled = re.compile(pattern, re.MULTILINE)
    found = [
        (at + match.start(), match.group(), line)
        for match, at, line in find(_streamed(stored, step), compiled, window=window, overlap=overlap)
    ]
    wanted = [(each.start(), each.group(), text.count("\n", 0, each.start())) for each in compiled.finditer(text)]
    assert found == wanted
    stored.close()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_search_in_many_windows_finds_what_a_search_in_the_whole_finds(pattern: str) -> None:
    text = "ab\nb aa é\nbbb😀a\n" * 200 + "a" * 500 * (pattern in BOUNDED)
    stored = spill(encode_utf8(text))
    compiled = re.compile(pattern, re.MULTILINE)
    found = [
        (at + match.start(), match.group(), line)
        for match, at, line in find(_streamed(stored, 16), compiled, window=30, overlap=20)
    ]
    wanted = [(each.start(), each.group(), text.count("\n", 0, each.start())) for each in compiled.finditer(text)]
    assert found == wanted
    stored.close()


@given(st.text("ab", max_size=200), st.text("ab", min_size=1, max_size=5), st.integers(4, 9))
def test_a_count_in_pieces_is_the_count_of_the_whole(text: str, needle: str, step: int) -> None:
    stored = spill(encode_utf8(text))
    assert count(_streamed(stored, step), needle) == text.count(needle)
    stored.close()
