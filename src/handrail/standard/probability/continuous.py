"""Distributions over real numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from random import Random
from statistics import NormalDist

from handrail.standard.probability.distributions import LARGEST, Distribution, impossible, positive
from handrail.standard.probability.special import (
    Tails,
    binomial_density,
    incomplete_beta,
    incomplete_gamma,
    poisson_density,
    stirling_error,
)

_STANDARD = NormalDist()
_ROOT_TWO = math.sqrt(2)


@dataclass(frozen=True, slots=True)
class Uniform(Distribution):
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise impossible(f"low must be less than high, not {self.low:g} and {self.high:g}")

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

    def tails(self, x: float) -> Tails:
        width, inside = self.high - self.low, min(max(x, self.low), self.high)
        return Tails((inside - self.low) / width, (self.high - inside) / width)

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
            raise impossible(f"low ≤ mode ≤ high must hold, not {self.low:g}, {self.mode:g}, {self.high:g}")

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

    def tails(self, x: float) -> Tails:
        width = self.high - self.low
        if x <= self.low:
            return Tails(0.0, 1.0)
        if x >= self.high:
            return Tails(1.0, 0.0)
        if x < self.mode:
            lower = (x - self.low) ** 2 / (width * (self.mode - self.low))
            return Tails(lower, 1 - lower)
        upper = (self.high - x) ** 2 / (width * (self.high - self.mode)) if self.high > self.mode else 0.0
        return Tails(1 - upper, upper)

    def draw(self, random: Random) -> float:
        return random.triangular(self.low, self.high, self.mode)


@dataclass(frozen=True, slots=True)
class Normal(Distribution):
    mean: float = field()  # or dataclass would take the property above for its default
    sd: float

    def __post_init__(self) -> None:
        positive(sd=self.sd)

    @property
    def variance(self) -> float:
        return self.sd**2

    def density(self, x: float) -> float:
        z = (x - self.mean) / self.sd
        return math.exp(-z * z / 2) / (self.sd * math.sqrt(2 * math.pi))

    def tails(self, x: float) -> Tails:
        z = (x - self.mean) / self.sd / _ROOT_TWO
        return Tails(math.erfc(-z) / 2, math.erfc(z) / 2)

    def quantile(self, p: float) -> float:
        return self.mean + self.sd * _STANDARD.inv_cdf(p)

    def draw(self, random: Random) -> float:
        return random.normalvariate(self.mean, self.sd)


class _Positive(Distribution):
    """Over the numbers from 0 on."""

    @property
    def support(self) -> tuple[float, float]:
        return 0.0, math.inf


@dataclass(frozen=True, slots=True)
class LogNormal(_Positive):
    """Its logarithm is normal, with mean `mu` and standard deviation `sigma`."""

    mu: float
    sigma: float

    def __post_init__(self) -> None:
        positive(sigma=self.sigma)

    @property
    def mean(self) -> float:
        return math.exp(self.mu + self.sigma**2 / 2)

    @property
    def variance(self) -> float:
        return math.expm1(self.sigma**2) * math.exp(2 * self.mu + self.sigma**2)

    def density(self, x: float) -> float:
        return Normal(self.mu, self.sigma).density(math.log(x)) / x if x > 0 else 0.0

    def tails(self, x: float) -> Tails:
        return Normal(self.mu, self.sigma).tails(math.log(x)) if x > 0 else Tails(0.0, 1.0)

    def quantile(self, p: float) -> float:
        return math.exp(Normal(self.mu, self.sigma).quantile(p))

    def draw(self, random: Random) -> float:
        return random.lognormvariate(self.mu, self.sigma)


@dataclass(frozen=True, slots=True)
class Weibull(_Positive):
    shape: float
    scale: float

    def __post_init__(self) -> None:
        positive(shape=self.shape, scale=self.scale)

    @property
    def mean(self) -> float:
        return self.scale * math.gamma(1 + 1 / self.shape)

    @property
    def variance(self) -> float:
        return self.scale**2 * (math.gamma(1 + 2 / self.shape) - math.gamma(1 + 1 / self.shape) ** 2)

    def density(self, x: float) -> float:
        if x < 0 or (x == 0 and self.shape > 1):
            return 0.0
        if x == 0 and self.shape < 1:
            raise impossible("the density at 0 has no end")
        powered = (x / self.scale) ** self.shape
        return self.shape / self.scale * (powered / (x / self.scale) if x else 1.0) * math.exp(-powered)

    def tails(self, x: float) -> Tails:
        if x <= 0:
            return Tails(0.0, 1.0)
        powered = (x / self.scale) ** self.shape
        return Tails(-math.expm1(-powered), math.exp(-powered))

    def quantile(self, p: float) -> float:
        return float(self.scale * (-math.log1p(-p)) ** (1 / self.shape))

    def draw(self, random: Random) -> float:
        return random.weibullvariate(self.scale, self.shape)


@dataclass(frozen=True, slots=True)
class Exponential(_Positive):
    rate: float

    def __post_init__(self) -> None:
        positive(rate=self.rate)

    @property
    def mean(self) -> float:
        return 1 / self.rate

    @property
    def variance(self) -> float:
        return 1 / self.rate**2

    def density(self, x: float) -> float:
        return self.rate * math.exp(-self.rate * x) if x >= 0 else 0.0

    def tails(self, x: float) -> Tails:
        inside = max(x, 0.0) * self.rate
        return Tails(-math.expm1(-inside), math.exp(-inside))

    def quantile(self, p: float) -> float:
        return -math.log1p(-p) / self.rate

    def draw(self, random: Random) -> float:
        return random.expovariate(self.rate)


@dataclass(frozen=True, slots=True)
class Gamma(_Positive):
    shape: float
    scale: float

    def __post_init__(self) -> None:
        positive(LARGEST, shape=self.shape)
        positive(scale=self.scale)

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
            raise impossible("the density at 0 has no end")
        inner = x / self.scale
        if self.shape < 1:
            return poisson_density(self.shape, inner) * self.shape / x
        return poisson_density(self.shape - 1, inner) / self.scale

    def tails(self, x: float) -> Tails:
        return incomplete_gamma(self.shape, x / self.scale)

    def draw(self, random: Random) -> float:
        return random.gammavariate(self.shape, self.scale)


@dataclass(frozen=True, slots=True)
class ChiSquare(_Positive):
    df: float

    def __post_init__(self) -> None:
        positive(LARGEST, df=self.df)

    @property
    def mean(self) -> float:
        return self.df

    @property
    def variance(self) -> float:
        return 2 * self.df

    def density(self, x: float) -> float:
        return Gamma(self.df / 2, 2).density(x)

    def tails(self, x: float) -> Tails:
        return incomplete_gamma(self.df / 2, x / 2)

    def draw(self, random: Random) -> float:
        return random.gammavariate(self.df / 2, 2)


@dataclass(frozen=True, slots=True)
class Beta(Distribution):
    a: float
    b: float

    def __post_init__(self) -> None:
        positive(LARGEST, a=self.a, b=self.b)

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
                raise impossible(f"the density at {x:g} has no end")
            return other if edge == 1 else 0.0
        return a * b / (a + b) * binomial_density(a, a + b, x, 1 - x) / (x * (1 - x))

    def tails(self, x: float) -> Tails:
        return incomplete_beta(self.a, self.b, x, 1 - x)

    def draw(self, random: Random) -> float:
        return random.betavariate(self.a, self.b)


@dataclass(frozen=True, slots=True)
class StudentT(Distribution):
    df: float

    def __post_init__(self) -> None:
        positive(LARGEST, df=self.df)

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

    def tails(self, x: float) -> Tails:
        square = x * x
        if math.isinf(square):
            return Tails(0.0, 1.0) if x < 0 else Tails(1.0, 0.0)
        outer = incomplete_beta(self.df / 2, 0.5, self.df / (self.df + square), square / (self.df + square)).lower / 2
        return Tails(outer, 1 - outer) if x < 0 else Tails(1 - outer, outer)

    def draw(self, random: Random) -> float:
        return random.normalvariate(0, 1) / math.sqrt(random.gammavariate(self.df / 2, 2) / self.df)


@dataclass(frozen=True, slots=True)
class F(_Positive):
    df1: float
    df2: float

    def __post_init__(self) -> None:
        positive(LARGEST, df1=self.df1, df2=self.df2)

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
            raise impossible("the density at 0 has no end")
        whole = self.df1 * x + self.df2
        inner = Beta(self.df1 / 2, self.df2 / 2).density(self.df1 * x / whole)
        return inner * self.df1 * self.df2 / whole**2

    def tails(self, x: float) -> Tails:
        whole = self.df1 * max(x, 0.0) + self.df2
        if math.isinf(whole):
            return Tails(1.0, 0.0)
        return incomplete_beta(self.df1 / 2, self.df2 / 2, self.df1 * max(x, 0.0) / whole, self.df2 / whole)

    def draw(self, random: Random) -> float:
        return (random.gammavariate(self.df1 / 2, 2) / self.df1) / (random.gammavariate(self.df2 / 2, 2) / self.df2)
