"""Distributions over real numbers whose tails can be written down. `incomplete` has the others."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from statistics import NormalDist

from handrail.library.probability.distributions import (
    Distribution,
    PositiveDistribution,
    check_positive,
    impossible_parameters,
)
from handrail.library.probability.special_functions import TailMasses

_STANDARD = NormalDist()
_ROOT_TWO = math.sqrt(2)
_ZETA = (
    *(1.6449340668482264, 1.2020569031595942, 1.0823232337111382, 1.0369277551433699),
    *(1.0173430619844491, 1.0083492773819228, 1.0040773561979443, 1.0020083928260822),
)
"""Riemann's function at 2, 3, 4, …"""
_NARROW = 60.0
"""From this shape on, a Weibull distribution is so narrow that a difference loses more digits than a series."""


@dataclass(frozen=True, slots=True)
class UniformDistribution(Distribution):
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise impossible_parameters(f"low must be less than high, not {self.low:g} and {self.high:g}")

    @property
    def support(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def mean(self) -> float:
        return self.low + (self.high - self.low) / 2

    @property
    def variance(self) -> float:
        return (self.high - self.low) ** 2 / 12

    def density(self, x: float) -> float:
        return 1 / (self.high - self.low) if self.low <= x <= self.high else 0.0

    def tails(self, x: float) -> TailMasses:
        width, inside = self.high - self.low, min(max(x, self.low), self.high)
        return TailMasses((inside - self.low) / width, (self.high - inside) / width)

    def quantile(self, p: float) -> float:
        return self.low + p * (self.high - self.low)

    def draw(self, random: Random) -> float:
        return random.uniform(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Triangular(Distribution):
    low: float
    mode: float
    high: float

    def __post_init__(self) -> None:
        if not (self.low <= self.mode <= self.high and self.low < self.high):
            raise impossible_parameters(f"low ≤ mode ≤ high must hold, not {self.low:g}, {self.mode:g}, {self.high:g}")

    @property
    def support(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def mean(self) -> float:
        return (self.low + self.mode + self.high) / 3

    @property
    def variance(self) -> float:
        a, b, c = self.low, self.high, self.mode
        return ((b - a) ** 2 + (c - a) * (c - b)) / 18

    def density(self, x: float) -> float:
        if not self.low <= x <= self.high:
            return 0.0
        side = x - self.low if x < self.mode else self.high - x
        width = self.mode - self.low if x < self.mode else self.high - self.mode
        return 2 / (self.high - self.low) * (side / width if width else 1.0)

    def tails(self, x: float) -> TailMasses:
        width = self.high - self.low
        if x <= self.low:
            return TailMasses(0.0, 1.0)
        if x >= self.high:
            return TailMasses(1.0, 0.0)
        if x < self.mode:
            lower = (x - self.low) ** 2 / (width * (self.mode - self.low))
            return TailMasses(lower, 1 - lower)
        upper = (self.high - x) ** 2 / (width * (self.high - self.mode)) if self.high > self.mode else 0.0
        return TailMasses(1 - upper, upper)

    def draw(self, random: Random) -> float:
        return random.triangular(self.low, self.high, self.mode)


@dataclass(frozen=True, slots=True)
class Normal(Distribution):
    mean: float = field()  # or dataclass would take the property above for its default
    sd: float

    def __post_init__(self) -> None:
        check_positive(sd=self.sd)

    @property
    def variance(self) -> float:
        return self.sd**2

    def density(self, x: float) -> float:
        z = (x - self.mean) / self.sd
        return math.exp(-z * z / 2) / (self.sd * math.sqrt(2 * math.pi))

    def tails(self, x: float) -> TailMasses:
        z = (x - self.mean) / self.sd / _ROOT_TWO
        return TailMasses(math.erfc(-z) / 2, math.erfc(z) / 2)

    def quantile(self, p: float) -> float:
        return self.mean + self.sd * _STANDARD.inv_cdf(p)

    def draw(self, random: Random) -> float:
        return random.normalvariate(self.mean, self.sd)


@dataclass(frozen=True, slots=True)
class LogNormal(PositiveDistribution):
    """Its logarithm is normal, with mean `mu` and standard deviation `sigma`."""

    mu: float
    sigma: float

    def __post_init__(self) -> None:
        check_positive(sigma=self.sigma)

    @property
    def mean(self) -> float:
        return math.exp(self.mu + self.sigma**2 / 2)

    @property
    def variance(self) -> float:
        return math.expm1(self.sigma**2) * math.exp(2 * self.mu + self.sigma**2)

    def density(self, x: float) -> float:
        return Normal(self.mu, self.sigma).density(math.log(x)) / x if x > 0 else 0.0

    def tails(self, x: float) -> TailMasses:
        return Normal(self.mu, self.sigma).tails(math.log(x)) if x > 0 else TailMasses(0.0, 1.0)

    def quantile(self, p: float) -> float:
        return math.exp(Normal(self.mu, self.sigma).quantile(p))

    def draw(self, random: Random) -> float:
        return random.lognormvariate(self.mu, self.sigma)


@dataclass(frozen=True, slots=True)
class Weibull(PositiveDistribution):
    shape: float
    scale: float

    def __post_init__(self) -> None:
        check_positive(shape=self.shape, scale=self.scale)

    @property
    def mean(self) -> float:
        return self.scale * math.gamma(1 + 1 / self.shape)

    @property
    def variance(self) -> float:
        one, two = math.gamma(1 + 1 / self.shape), math.gamma(1 + 2 / self.shape)
        if self.shape < _NARROW:
            return self.scale**2 * (two - one**2)
        # The two would be too alike: by the series of the logarithm of the gamma function at 1.
        terms = (zeta * (2**n - 2) / n * (-1 / self.shape) ** n for n, zeta in enumerate(_ZETA, 2))
        return (self.scale * one) ** 2 * math.expm1(math.fsum(terms))

    def density(self, x: float) -> float:
        if x < 0 or (x == 0 and self.shape > 1):
            return 0.0
        if x == 0 and self.shape < 1:
            raise impossible_parameters("the density at 0 has no end")
        powered = self._powered(x)
        if math.isinf(powered):
            return 0.0
        return self.shape / self.scale * (powered / (x / self.scale) if x else 1.0) * math.exp(-powered)

    def tails(self, x: float) -> TailMasses:
        if x <= 0:
            return TailMasses(0.0, 1.0)
        powered = self._powered(x)
        return TailMasses(-math.expm1(-powered), math.exp(-powered))

    def quantile(self, p: float) -> float:
        return float(self.scale * (-math.log1p(-p)) ** (1 / self.shape))

    def draw(self, random: Random) -> float:
        return random.weibullvariate(self.scale, self.shape)

    def _powered(self, x: float) -> float:
        try:
            return float((x / self.scale) ** self.shape)
        except OverflowError:
            return math.inf


@dataclass(frozen=True, slots=True)
class Exponential(PositiveDistribution):
    rate: float

    def __post_init__(self) -> None:
        check_positive(rate=self.rate)

    @property
    def mean(self) -> float:
        return 1 / self.rate

    @property
    def variance(self) -> float:
        return 1 / self.rate**2

    def density(self, x: float) -> float:
        return self.rate * math.exp(-self.rate * x) if x >= 0 else 0.0

    def tails(self, x: float) -> TailMasses:
        inside = max(x, 0.0) * self.rate
        return TailMasses(-math.expm1(-inside), math.exp(-inside))

    def quantile(self, p: float) -> float:
        return -math.log1p(-p) / self.rate

    def draw(self, random: Random) -> float:
        return random.expovariate(self.rate)
