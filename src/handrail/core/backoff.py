"""How long to wait before trying again."""

from __future__ import annotations


def longest_wait(tries: int, first: float, longest: float) -> float:
    """The bound of the wait after so many tries: it doubles, up to the longest. Whoever waits draws a part of it by
    chance, so that many who failed together part.
    """
    return min(longest, first * 2.0 ** min(max(tries - 1, 0), 64))
