"""Distributions over real numbers whose tails are incomplete gamma or incomplete beta functions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from handrail.library.probability.distributions import (
    LARGEST,
    Distribution,
    PositiveDistribution,
    check_positive,
    impossible_parameters,
)
from handrail.library.probability.special_functions import (
    TailMasses,
    binomial_density,
    incomplete_beta,
    incomplete_gamma,
    poisson_density,
    stirling_error,
)


@dataclass(frozen=True, slots=True)
class Gamma(PositiveDistribution):
    shape: float
    scale: float

    def __post_init__(self) -> None:
        check_positive(LARGEST, shape=self.shape)
        check_positive(scale=self.scale)

    @property
    def mean(self) -> float:
        return self.shape * self.scale

    @property
    def variance(self) -> float:
        return self.shape * self.scale**2

    def density(self, x: float) -> float:
        if x < 0 or (x == 0 and self.shape > 1):
            return 0.0
        if x == 0 and self.shape < 1:
            raise impossible_parameters("the density at 0 has no end")
        inner = x / self.scale
        if self.shape < 1:
            return poisson_density(self.shape, inner) * self.shape / x
        return poisson_density(self.shape - 1, inner) / self.scale

    def tails(self, x: float) -> TailMasses:
        return incomplete_gamma(self.shape, x / self.scale)

    def draw(self, random: Random) -> float:
        return random.gammavariate(self.shape, self.scale)


@dataclass(frozen=True, slots=True)
class ChiSquare(PositiveDistribution):
    df: float

    def __post_init__(self) -> None:
        check_positive(LARGEST, df=self.df)

    @property
    def mean(self) -> float:
        return self.df

    @property
    def variance(self) -> float:
        return 2 * self.df

    def density(self, x: float) -> float:
        return Gamma(self.df / 2, 2).density(x)

    def tails(self, x: float) -> TailMasses:
        return incomplete_gamma(self.df / 2, x / 2)

    def draw(self, random: Random) -> float:
        return random.gammavariate(self.df / 2, 2)


@dataclass(frozen=True, slots=True)
class Beta(Distribution):
    a: float
    b: float

    def __post_init__(self) -> None:
        check_positive(LARGEST, a=self.a, b=self.b)

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, 1.0

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> float:
        total = self.a + self.b
        return self.a * self.b / (total**2 * (total + 1))

    def density(self, x: float) -> float:
        a, b = self.a, self.b
        if not 0 <= x <= 1:
            return 0.0
        if x in (0, 1):
            edge, other = (a, b) if x == 0 else (b, a)
            if edge < 1:
                raise impossible_parameters(f"the density at {x:g} has no end")
            return other if edge == 1 else 0.0
        return a * b / (a + b) * binomial_density(a, a + b, x, 1 - x) / (x * (1 - x))

    def tails(self, x: float) -> TailMasses:
        return incomplete_beta(self.a, self.b, x, 1 - x)

    def draw(self, random: Random) -> float:
        return random.betavariate(self.a, self.b)


@dataclass(frozen=True, slots=True)
class StudentT(Distribution):
    df: float

    def __post_init__(self) -> None:
        check_positive(LARGEST, df=self.df)

    @property
    def mean(self) -> float | None:
        return 0.0 if self.df > 1 else None

    @property
    def variance(self) -> float | None:
        return self.df / (self.df - 2) if self.df > 2 else None

    def density(self, x: float) -> float:
        half = self.df / 2
        # The quotient of the two gamma functions, by what Stirling's formula leaves of each.
        first = stirling_error(half + 0.5) - stirling_error(half) + half * math.log1p(0.5 / half) - 0.5
        second = half * math.log1p(x * x / self.df)
        return math.exp(first - second) / math.sqrt(2 * math.pi * (1 + x * x / self.df))

    def tails(self, x: float) -> TailMasses:
        square = x * x
        if math.isinf(square):
            return TailMasses(0.0, 1.0) if x < 0 else TailMasses(1.0, 0.0)
        outer = incomplete_beta(self.df / 2, 0.5, self.df / (self.df + square), square / (self.df + square)).lower / 2
        return TailMasses(outer, 1 - outer) if x < 0 else TailMasses(1 - outer, outer)

    def draw(self, random: Random) -> float:
        return random.normalvariate(0, 1) / math.sqrt(random.gammavariate(self.df / 2, 2) / self.df)


@dataclass(frozen=True, slots=True)
class FisherF(PositiveDistribution):
    df1: float
    df2: float

    def __post_init__(self) -> None:
        check_positive(LARGEST, df1=self.df1, df2=self.df2)

    @property
    def mean(self) -> float | None:
        return self.df2 / (self.df2 - 2) if self.df2 > 2 else None

    @property
    def variance(self) -> float | None:
        m, n = self.df1, self.df2
        return 2 * n**2 * (m + n - 2) / (m * (n - 2) ** 2 * (n - 4)) if n > 4 else None

    def density(self, x: float) -> float:
        if x < 0 or (x == 0 and self.df1 > 2):
            return 0.0
        if x == 0 and self.df1 < 2:
            raise impossible_parameters("the density at 0 has no end")
        whole = self.df1 * x + self.df2
        inner = Beta(self.df1 / 2, self.df2 / 2).density(self.df1 * x / whole)
        return inner * self.df1 * self.df2 / whole**2

    def tails(self, x: float) -> TailMasses:
        whole = self.df1 * max(x, 0.0) + self.df2
        if math.isinf(whole):
            return TailMasses(1.0, 0.0)
        return incomplete_beta(self.df1 / 2, self.df2 / 2, self.df1 * max(x, 0.0) / whole, self.df2 / whole)

    def draw(self, random: Random) -> float:
        return (random.gammavariate(self.df1 / 2, 2) / self.df1) / (random.gammavariate(self.df2 / 2, 2) / self.df2)
