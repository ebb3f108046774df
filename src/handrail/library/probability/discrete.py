"""Distributions over whole numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from handrail.library.probability.distributions import LARGEST, Distribution, check_positive, impossible_parameters
from handrail.library.probability.random_integers import draw_binomial, draw_by_inversion, draw_poisson
from handrail.library.probability.special_functions import (
    TailMasses,
    binomial_density,
    incomplete_beta,
    incomplete_gamma,
    poisson_density,
)

_SLACK = 64 * 2.0**-52
"""A sum of probabilities that misses the goal by its last digits has reached it."""
_END = 10**18
"""Where nobody looks any further for a quantile."""
_FEW = 60
"""Trials whose binomial coefficients every float has, or nearly."""
_URN = 1_000_000
"""Of a hypergeometric distribution: what is drawn from it is found step by step."""


def _share(name: str, value: float, *, least: float = 0.0) -> None:
    if not least <= value <= 1:
        raise impossible_parameters(f"{name} must be a probability from {least:g} to 1, not {value:g}")


class DiscreteDistribution(Distribution):
    discrete: ClassVar[bool] = True

    def density(self, x: float) -> float:
        return self.mass(int(x)) if x == math.floor(x) else 0.0

    def tails(self, x: float) -> TailMasses:
        return self.sums(math.floor(x))

    def mass(self, k: int) -> float:
        raise NotImplementedError

    def sums(self, k: int) -> TailMasses:
        """P(X ≤ k) and P(X > k)."""
        raise NotImplementedError

    def quantile(self, p: float) -> float:
        low, high = self.support
        reached = self._reached(p)
        end = int(high) if math.isfinite(high) else _END
        under, over = int(low) - 1, int(low)
        while over < end and not reached(over):
            under, over = over, min(2 * over + 1 - int(low), end)
        while under + 1 < over:
            middle = (under + over) // 2
            under, over = (under, middle) if reached(middle) else (middle, over)
        return over

    def _reached(self, p: float) -> Callable[[int], bool]:
        if p <= 0.5:
            return lambda k: self.sums(k).lower >= p * (1 - _SLACK)
        return lambda k: self.sums(k).upper <= (1 - p) * (1 + _SLACK)


@dataclass(frozen=True, slots=True)
class DiscreteUniform(DiscreteDistribution):
    """Each whole number from low to high alike, as a die."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise impossible_parameters(f"low must not be more than high, not {self.low} and {self.high}")

    @property
    def support(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> float:
        return ((self.high - self.low + 1) ** 2 - 1) / 12

    def mass(self, k: int) -> float:
        return 1 / (self.high - self.low + 1) if self.low <= k <= self.high else 0.0

    def sums(self, k: int) -> TailMasses:
        whole, inside = self.high - self.low + 1, min(max(k, self.low - 1), self.high)
        return TailMasses((inside - self.low + 1) / whole, (self.high - inside) / whole)

    def draw(self, random: Random) -> float:
        return random.randint(self.low, self.high)


@dataclass(frozen=True, slots=True)
class Binomial(DiscreteDistribution):
    """Successes in n trials."""

    n: int
    p: float

    def __post_init__(self) -> None:
        if not 0 <= self.n <= LARGEST:
            raise impossible_parameters(f"n must be from 0 to {LARGEST:g}, not {self.n}")
        _share("p", self.p)

    @property
    def support(self) -> tuple[float, float]:
        return 0, self.n

    @property
    def mean(self) -> float:
        return self.n * self.p

    @property
    def variance(self) -> float:
        return self.n * self.p * (1 - self.p)

    def mass(self, k: int) -> float:
        if self.n <= _FEW and 0 <= k <= self.n:
            powers = self.p**k * (1 - self.p) ** (self.n - k)
            if powers > 1e-250:
                return math.comb(self.n, k) * powers  # what people check by hand has all digits
        return binomial_density(k, self.n, self.p, 1 - self.p)

    def sums(self, k: int) -> TailMasses:
        if k < 0:
            return TailMasses(0.0, 1.0)
        if k >= self.n:
            return TailMasses(1.0, 0.0)
        return incomplete_beta(k + 1, self.n - k, self.p, 1 - self.p).swapped()

    def draw(self, random: Random) -> float:
        return draw_binomial(random, self.n, self.p)


@dataclass(frozen=True, slots=True)
class Poisson(DiscreteDistribution):
    mean: float = field()  # or dataclass would take the property above for its default

    def __post_init__(self) -> None:
        check_positive(LARGEST, mean=self.mean)

    @property
    def support(self) -> tuple[float, float]:
        return 0, math.inf

    @property
    def variance(self) -> float:
        return self.mean

    def mass(self, k: int) -> float:
        return poisson_density(k, self.mean)

    def sums(self, k: int) -> TailMasses:
        return incomplete_gamma(k + 1, self.mean).swapped() if k >= 0 else TailMasses(0.0, 1.0)

    def draw(self, random: Random) -> float:
        return draw_poisson(random, self.mean)


@dataclass(frozen=True, slots=True)
class Geometric(DiscreteDistribution):
    """Trials up to and with the first success."""

    p: float

    def __post_init__(self) -> None:
        _share("p", self.p, least=1e-9)

    @property
    def support(self) -> tuple[float, float]:
        return 1, math.inf

    @property
    def mean(self) -> float:
        return 1 / self.p

    @property
    def variance(self) -> float:
        return (1 - self.p) / self.p**2

    def mass(self, k: int) -> float:
        if k < 1:
            return 0.0
        return self.p * self.sums(k - 1).upper

    def sums(self, k: int) -> TailMasses:
        if k < 1:
            return TailMasses(0.0, 1.0)
        if self.p == 1:
            return TailMasses(1.0, 0.0)
        logarithm = k * math.log1p(-self.p)
        return TailMasses(-math.expm1(logarithm), math.exp(logarithm))

    def draw(self, random: Random) -> float:
        return 1 if self.p == 1 else 1 + math.floor(math.log1p(-random.random()) / math.log1p(-self.p))


@dataclass(frozen=True, slots=True)
class NegativeBinomial(DiscreteDistribution):
    """Failures before the r-th success; r need not be whole."""

    r: float
    p: float

    def __post_init__(self) -> None:
        check_positive(LARGEST, r=self.r)
        _share("p", self.p, least=1e-9)

    @property
    def support(self) -> tuple[float, float]:
        return 0, math.inf

    @property
    def mean(self) -> float:
        return self.r * (1 - self.p) / self.p

    @property
    def variance(self) -> float:
        return self.r * (1 - self.p) / self.p**2

    def mass(self, k: int) -> float:
        if k < 0:
            return 0.0
        return self.r / (self.r + k) * binomial_density(self.r, self.r + k, self.p, 1 - self.p)

    def sums(self, k: int) -> TailMasses:
        return incomplete_beta(self.r, k + 1, self.p, 1 - self.p) if k >= 0 else TailMasses(0.0, 1.0)

    def draw(self, random: Random) -> float:
        return 0 if self.p == 1 else draw_poisson(random, random.gammavariate(self.r, (1 - self.p) / self.p))


@dataclass(frozen=True, slots=True)
class Hypergeometric(DiscreteDistribution):
    """Successes among draws without replacement from a population that has so many of them."""

    population: int
    successes: int
    draws: int

    def __post_init__(self) -> None:
        if not 1 <= self.population <= _URN:
            raise impossible_parameters(f"population must be from 1 to {_URN:,}, not {self.population}")
        for name in ("successes", "draws"):
            if not 0 <= getattr(self, name) <= self.population:
                raise impossible_parameters(f"{name} must be from 0 to the population, not {getattr(self, name)}")

    @property
    def support(self) -> tuple[float, float]:
        return max(0, self.draws + self.successes - self.population), min(self.draws, self.successes)

    @property
    def mean(self) -> float:
        return self.draws * self.successes / self.population

    @property
    def variance(self) -> float:
        size, share = self.population, self.successes / self.population
        return self.draws * share * (1 - share) * (size - self.draws) / (size - 1) if size > 1 else 0.0

    def mass(self, k: int) -> float:
        low, high = self.support
        if not low <= k <= high:
            return 0.0
        # As a quotient of binomial probabilities, which keeps the digits.
        p = self.draws / self.population
        q = (self.population - self.draws) / self.population
        among = binomial_density(k, self.successes, p, q)
        others = binomial_density(self.draws - k, self.population - self.successes, p, q)
        return among * others / binomial_density(self.draws, self.population, p, q)

    def sums(self, k: int) -> TailMasses:
        low, high = map(int, self.support)
        if k < low:
            return TailMasses(0.0, 1.0)
        if k >= high:
            return TailMasses(1.0, 0.0)
        if k < self.mean:
            lower = min(self.mass(k) * self._down(k, low), 1.0)
            return TailMasses(lower, 1 - lower)
        upper = min(self.mass(k + 1) * self._up(k + 1, high), 1.0)
        return TailMasses(1 - upper, upper)

    def ratio(self, k: int) -> float:
        """How much more likely k + 1 is than k."""
        rest = self.population - self.successes - self.draws
        return (self.successes - k) * (self.draws - k) / ((k + 1) * (rest + k + 1))

    def _down(self, k: int, low: int) -> float:
        total = term = 1.0
        while k > low and term > total * 1e-18:
            k -= 1
            term /= self.ratio(k)
            total += term
        return total

    def _up(self, k: int, high: int) -> float:
        total = term = 1.0
        while k < high and term > total * 1e-18:
            term *= self.ratio(k)
            total += term
            k += 1
        return total

    def draw(self, random: Random) -> float:
        low, high = map(int, self.support)
        top = (self.draws + 1) * (self.successes + 1) // (self.population + 2)
        return draw_by_inversion(random, min(max(top, low), high), (low, high), self.mass, self.ratio)
