"""Distributions over scipy. This module loads numpy and `scipy.stats`, which takes most of a second.

Quantiles are searched for here: the inverse functions of scipy 1.17 end the whole process at some parameters
(`nbinom(1e7, 1e-9).ppf(0.1)`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy
from scipy import stats

from handrail.library.probability.families import SLACK, TailMasses, impossible_parameters

_END = 10**18
"""The end of the search for a quantile over whole numbers."""


@dataclass(frozen=True, slots=True)
class ScipyDistribution:
    """A distribution of scipy that raises OverflowError where it would answer NaN or infinity."""

    frozen: Any
    discrete: bool
    moments: int
    """How many of mean and variance there are."""
    known_variance: float | None
    """The variance where scipy's has too few digits."""

    @property
    def mean(self) -> float | None:
        """The mean; None if the distribution has none."""
        return self._at("mean") if self.moments > 0 else None

    @property
    def variance(self) -> float | None:
        if self.known_variance is not None:
            return self.known_variance
        return self._at("var") if self.moments > 1 else None

    def density(self, x: float) -> float:
        """The density at a point; of whole numbers, the probability of this one."""
        with numpy.errstate(all="ignore"):
            density = float(self.frozen.pmf(x) if self.discrete else self.frozen.pdf(x))
            if math.isnan(density):  # far out, where infinity times 0 is 0
                density = float(numpy.exp(self.frozen.logpdf(x)))
        if math.isinf(density):
            raise impossible_parameters(f"the density at {x:g} has no end")
        return _finite(density)

    def tails(self, x: float) -> TailMasses:
        return TailMasses(self._at("cdf", x), self._at("sf", x))

    def quantile(self, p: float) -> float:
        """The smallest x with P(X ≤ x) ≥ p, for p between 0 and 1."""
        return self._quantiles([p])[0]

    def draw(self, random: Random, count: int) -> list[float]:
        """Draws by quantile, so that a seed gives the same numbers with every version of scipy."""
        return self._quantiles([max(random.random(), 2.0**-54) for _ in range(count)])

    def _at(self, method: str, *x: float) -> float:
        with numpy.errstate(all="ignore"):
            return _finite(float(getattr(self.frozen, method)(*x)))

    def _quantiles(self, probabilities: Sequence[float]) -> list[float]:
        """Bisects for all of them at once: whole numbers, or the floats themselves in 64 steps from any to any."""
        p = numpy.array(probabilities, dtype=float)
        low, high = map(float, self.frozen.support())
        ends = [max(low - 1, -_END), min(high, _END)] if self.discrete else _places(numpy.array([low, high]))
        under, over = (numpy.full(p.shape, int(end), dtype=numpy.int64) for end in ends)
        while (under + 1 < over).any():
            middle = (under >> 1) + (over >> 1) + (under & over & 1)
            reached = self._reaches(p, middle if self.discrete else _floats_at(middle))
            under, over = numpy.where(reached, under, middle), numpy.where(reached, middle, over)
        found: Any = over if self.discrete else _floats_at(over)
        return list(map(_finite, found.tolist()))

    def _reaches(self, p: Any, x: Any) -> Any:
        """Tells of each x whether it is the quantile or beyond, by the smaller tail."""
        slack = SLACK if self.discrete else 0.0
        low, reached = p <= 0.5, numpy.empty(p.shape, dtype=bool)
        with numpy.errstate(all="ignore"):
            if low.any():
                reached[low] = _at_each(self.frozen.cdf, x[low]) >= p[low] * (1 - slack)
            if not low.all():
                reached[~low] = _at_each(self.frozen.sf, x[~low]) <= (1 - p[~low]) * (1 + slack)
        return reached


def scipy_distribution(
    name: str, *shapes: float, moments: int = 2, variance: float | None = None, **scale: float
) -> ScipyDistribution:
    family = getattr(stats, name)
    return ScipyDistribution(family(*shapes, **scale), isinstance(family, stats.rv_discrete), moments, variance)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise OverflowError
    return value


def _at_each(function: Callable[[Any], Any], x: Any) -> Any:
    """The function's values at an array that holds many numbers more than once."""
    different, where = numpy.unique(x, return_inverse=True)
    return function(different)[where]


def _places(x: Any) -> Any:
    """The places of floats among all floats in their order, from 0 for 0.0 on."""
    bits = x.view(numpy.int64)
    return numpy.where(bits >= 0, bits, -(bits & 0x7FFF_FFFF_FFFF_FFFF))


def _floats_at(places: Any) -> Any:
    return numpy.where(places >= 0, places, -places | numpy.int64(-(2**63))).view(numpy.float64)
