"""Random whole numbers that Python's `random` lacks, or has not in every version. All are exact."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

_FEW = 24
"""Trials that are better made one by one."""


def draw_binomial(random: Random, n: int, p: float) -> int:
    """Halves the trials at the place where their median falls, which a beta distribution gives (Relles 1972)."""
    successes = 0
    while n > _FEW and 0 < p < 1:
        below = 1 + n // 2
        at = random.betavariate(below, n + 1 - below)
        if at >= p:
            n, p = below - 1, p / at
        else:
            successes += below
            n, p = n - below, (p - at) / (1 - at)
    if p <= 0 or p >= 1:
        return successes + (n if p >= 1 else 0)
    return successes + sum(random.random() < p for _ in range(n))


def draw_poisson(random: Random, mean: float) -> int:
    """Jumps over most of the events at once, at the time that a gamma distribution gives (Ahrens and Dieter 1974)."""
    events = 0
    while mean > _FEW:
        jump = int(mean * 7 / 8)
        passed = random.gammavariate(jump, 1)
        if passed > mean:
            return events + draw_binomial(random, jump - 1, mean / passed)
        events, mean = events + jump, mean - passed
    left = math.exp(-mean)
    product = random.random()
    while product > left:
        events += 1
        product *= random.random()
    return events


def draw_by_inversion(
    random: Random,
    top: int,
    support: tuple[int, int],
    mass: Callable[[int], float],
    ratio: Callable[[int], float],
) -> int:
    """By inversion, from the likeliest value outwards: the steps taken are about as many as it spreads.

    `ratio(k)` is how much more likely k + 1 is than k.
    """
    low, high = support
    left = random.random()
    under = over = mass(top)
    left -= over
    down = up = top
    while left > 0 and (down > low or up < high):
        if up < high:
            over *= ratio(up)
            up += 1
            left -= over
            if left <= 0:
                return up
        if down > low:
            down -= 1
            under /= ratio(down)
            left -= under
            if left <= 0:
                return down
    return top
