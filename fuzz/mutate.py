"""Good inputs made bad. What comes out shrinks towards the good input that it was made from."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T", str, bytes)

MOST_EDITS = 5
WRONG: tuple[Any, ...] = (
    None, True, False, 0, -1, 7, 2**53 + 1, 10**30, 1e308, 0.5, "", " ", "x", "null", "{}", "[]", '{"a": 1}', '{"a"',
    "\u202e", "é", "a" * 300, [], {}, [None], [[]], {"": ""}, {"type": "text"}, {"name": "x"}, [{}, 3],
)  # fmt: skip
"""What stands where something else belongs."""
PIECES = (
    "", "\n", "\r", "\r\n", "\n\n", " ", "\t", "\x00", "\ufeff", "{", "}", "[", "]", '"', "'", "`", "```", "\\", ":",
    ",", "<", ">", "=", "data: ", "event: x\n", "data: [DONE]\n\n", ": ping\n\n", "null", "true", "1e999", "-", "0",
    "9" * 500,
    "\\u0000", "\\ud800", "\u2028", "\u200b", "𝒳", "[[[[[[[[", '{"a":' * 8, "é",
)  # fmt: skip


@st.composite
def edited(draw: st.DrawFn, seeds: Sequence[T], pieces: Sequence[T]) -> T:
    """A seed with some of it left out, doubled, exchanged, cut off or joined to another."""
    value = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(0, MOST_EDITS))):
        start, end = sorted((draw(st.integers(0, len(value))), draw(st.integers(0, len(value)))))
        match draw(st.integers(0, 5)):
            case 0:
                value = value[:end]
            case 1:
                value = value[:start] + value[end:]
            case 2:
                value = value[:start] + draw(st.sampled_from(pieces)) + value[start:]
            case 3:
                value = value[:start] + draw(st.sampled_from(pieces)) + value[end:]
            case 4:
                value = value[:end] + value[start:]
            case 5:
                other = draw(st.sampled_from(seeds))
                value = value[:start] + other[draw(st.integers(0, len(other))) :]
    return value


def texts(seeds: Sequence[str], more: Sequence[str] = ()) -> st.SearchStrategy[str]:
    return edited(_ordered(seeds), (*PIECES, *more)) | st.text(max_size=40)


def data(seeds: Sequence[bytes], more: Sequence[bytes] = ()) -> st.SearchStrategy[bytes]:
    pieces = (*(piece.encode(errors="surrogatepass") for piece in PIECES), b"\xff", b"\xe2\x82", b"\x00" * 8, *more)
    return flipped(_ordered(seeds)) | edited(_ordered(seeds), pieces) | st.binary(max_size=40)


@st.composite
def flipped(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """A seed with some of its bytes exchanged."""
    value = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, 12)) if value else 0):
        value[draw(st.integers(0, len(value) - 1))] = draw(st.integers(0, 255))
    return bytes(value)


@st.composite
def values(draw: st.DrawFn, seeds: Sequence[Any]) -> Any:
    """A JSON seed with parts of it exchanged, left out, doubled or swapped."""
    value = copy.deepcopy(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, MOST_EDITS))):
        inside = list(_inside(value))
        if not inside:
            break
        holder, key = draw(st.sampled_from(inside))
        match draw(st.integers(0, 3)):
            case 0:
                holder[key] = copy.deepcopy(draw(st.sampled_from(WRONG)))
            case 1:
                del holder[key]
            case 2 if isinstance(holder, list):
                holder.insert(draw(st.integers(0, len(holder))), copy.deepcopy(holder[key]))
            case _:
                other, at = draw(st.sampled_from(inside))
                holder[key], other[at] = copy.deepcopy(other[at]), copy.deepcopy(holder[key])
    return value


def cuts(most: int = 200) -> st.SearchStrategy[list[int]]:
    """Where to cut an input into pieces."""
    return st.lists(st.integers(0, most), max_size=12)


def pieces_of(value: T, places: Sequence[int]) -> list[T]:
    at = [0, *sorted({min(place, len(value)) for place in places}), len(value)]
    return [value[start:end] for start, end in pairwise(at)]


def _inside(value: Any) -> Any:
    """Every place in a JSON value, as what holds it and its key there."""
    match value:
        case dict():
            found = list(value.items())
        case list():
            found = list(enumerate(value))
        case _:
            return
    for key, item in found:
        yield value, key
        yield from _inside(item)


def _ordered(seeds: Sequence[T]) -> list[T]:
    """The shortest first: that is what an example shrinks to."""
    return sorted(dict.fromkeys(seeds), key=lambda seed: (len(seed), seed)) or [seeds[0]]
