"""What a distribution can be asked. `continuous` and `incomplete` have those over real numbers, `discrete` the others.

A distribution is a value: its fields are its parameters, checked when it is made.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import ClassVar

from handrail.core.errors import ToolError
from handrail.library.probability.special_functions import TailMasses

LARGEST = 1e7
"""Of a shape, a count or degrees of freedom: beyond it an answer would take seconds."""


def impossible_parameters(why: str) -> ToolError:
    return ToolError("IMPOSSIBLE", why)


def check_positive(largest: float = math.inf, **parameters: float) -> None:
    for name, value in parameters.items():
        if not 0 < value <= largest:
            most = "" if math.isinf(largest) else f" and at most {largest:g}"
            raise impossible_parameters(f"{name} must be more than 0{most}, not {value:g}")


class Distribution(ABC):
    discrete: ClassVar[bool] = False

    @property
    def support(self) -> tuple[float, float]:
        """Between which values all of it lies; infinities included."""
        return -math.inf, math.inf

    @property
    @abstractmethod
    def mean(self) -> float | None:
        """None where it has none."""

    @property
    @abstractmethod
    def variance(self) -> float | None: ...

    @abstractmethod
    def density(self, x: float) -> float:
        """At a point; of whole numbers, the probability of this one."""

    @abstractmethod
    def tails(self, x: float) -> TailMasses:
        """P(X ≤ x) and P(X > x)."""

    def quantile(self, p: float) -> float:
        """The smallest x with P(X ≤ x) ≥ p, for p between 0 and 1."""
        return smallest_where(*self.support, self.reaches(p))

    @abstractmethod
    def draw(self, random: Random) -> float: ...

    def reaches(self, p: float) -> Callable[[float], bool]:
        """Whether x is the quantile or beyond, asked of the smaller tail."""
        return (lambda x: self.tails(x).lower >= p) if p <= 0.5 else (lambda x: self.tails(x).upper <= 1 - p)


class PositiveDistribution(Distribution):
    """Over the numbers from 0 on."""

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf


def smallest_where(low: float, high: float, fits: Callable[[float], bool]) -> float:
    """The smallest number for which a condition holds that holds for all greater ones.

    Bisects the floats themselves and not the line they lie on: 64 steps from anywhere to anywhere.
    """
    under, over = _place(low), _place(high)
    while under + 1 < over:
        middle = (under + over) // 2
        if fits(_at(middle)):
            over = middle
        else:
            under = middle
    return _at(over)


def _place(value: float) -> int:
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return int(bits) if bits >= 0 else -(int(bits) & 0x7FFF_FFFF_FFFF_FFFF)


def _at(place: int) -> float:
    bits = place if place >= 0 else -place | (1 << 63)
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    return float(value)
