"""Sets of words, as they are written in tables."""

from __future__ import annotations


def word_set(words: str) -> frozenset[str]:
    """The words of a text that are separated by spaces."""
    return frozenset(words.split())
