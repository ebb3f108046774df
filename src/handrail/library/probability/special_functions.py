"""The two functions that nearly every distribution rests on: the incomplete gamma and the incomplete beta function.

Their leading factors are written as densities of the Poisson and of the binomial
distribution after Loader ("Fast and Accurate Computation of Binomial Probabilities",
2000), which keeps all digits where differences of logarithms of large factorials
would lose them. Real arguments are meant throughout.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

_TINY = sys.float_info.min
_EPSILON = sys.float_info.epsilon
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_STEPS = 1_000_000
"""More than any argument takes that the distributions let through."""


class TailMasses(NamedTuple):
    """The mass on both sides of a point. Each is computed by itself where it is the smaller one."""

    lower: float
    upper: float

    def swapped(self) -> TailMasses:
        return TailMasses(self.upper, self.lower)


def poisson_density(x: float, mean: float) -> float:
    """`mean ** x * exp(-mean) / gamma(x + 1)`."""
    if x < 0:
        return 0.0
    if mean == 0:
        return 1.0 if x == 0 else 0.0
    if x == 0:
        return math.exp(-mean)
    return math.exp(-stirling_error(x) - _deviance(x, mean)) / math.sqrt(2 * math.pi * x)


def binomial_density(x: float, n: float, p: float, q: float) -> float:
    """`gamma(n + 1) / (gamma(x + 1) * gamma(n - x + 1)) * p ** x * q ** (n - x)`, where `p + q` is 1."""
    if x < 0 or x > n:
        return 0.0
    if p == 0 or q == 0:
        return 1.0 if x == (0 if p == 0 else n) else 0.0
    if x == 0 or x == n:
        share, other = (q, p) if x == 0 else (p, q)
        return math.exp(n * (math.log1p(-other) if other < 0.5 else math.log(share)))
    logarithm = stirling_error(n) - stirling_error(x) - stirling_error(n - x)
    logarithm -= _deviance(x, n * p) + _deviance(n - x, n * q)
    return math.exp(logarithm) * math.sqrt(n / (2 * math.pi * x)) / math.sqrt(n - x)


def incomplete_gamma(a: float, x: float) -> TailMasses:
    """The mass of a gamma distribution of shape `a` and scale 1 on both sides of `x`."""
    if x <= 0:
        return TailMasses(0.0, 1.0)
    if math.isinf(x):
        return TailMasses(1.0, 0.0)
    if x < a + 1:
        lower = min(poisson_density(a, x) * _gamma_series(a, x), 1.0)
        return TailMasses(lower, 1.0 - lower)
    upper = min(a * poisson_density(a, x) * _gamma_fraction(a, x), 1.0)
    return TailMasses(1.0 - upper, upper)


def incomplete_beta(a: float, b: float, x: float, y: float) -> TailMasses:
    """The mass of a beta distribution on both sides of `x`; `y` is `1 - x`, given because that may lose its digits."""
    if x <= 0:
        return TailMasses(0.0, 1.0)
    if y <= 0:
        return TailMasses(1.0, 0.0)
    if x > (a + 1) / (a + b + 2):
        return incomplete_beta(b, a, y, x).swapped()
    lower = min(b / (a + b) * binomial_density(a, a + b, x, y) * _beta_fraction(a, b, x), 1.0)
    return TailMasses(lower, 1.0 - lower)


def stirling_error(n: float) -> float:
    """What Stirling's formula leaves of the logarithm of `n!`."""
    if n <= 16:
        return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - _LOG_ROOT_TWO_PI
    square = n * n
    terms = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
    total = 0.0
    for term in reversed(terms):
        total = total / square + term
    return total / n


def _deviance(x: float, mean: float) -> float:
    """`x * log(x / mean) + mean - x` without the loss of digits where the two are near each other."""
    if mean == 0:  # it is too small for a number
        return math.inf
    if abs(x - mean) >= 0.1 * (x + mean):
        return x * (math.log(x) - math.log(mean)) + mean - x
    share = (x - mean) / (x + mean)
    total = (x - mean) * share
    term = 2 * x * share
    for step in range(1, 1000):
        term *= share * share
        following = total + term / (2 * step + 1)
        if following == total:
            break
        total = following
    return total


def _gamma_series(a: float, x: float) -> float:
    total = term = 1.0
    for step in range(1, _STEPS):
        term *= x / (a + step)
        total += term
        if term < total * _EPSILON / 4:
            return total
    raise ArithmeticError("the incomplete gamma function does not settle")


def _gamma_fraction(a: float, x: float) -> float:
    """Lentz's way with a continued fraction."""
    b = x + 1 - a
    c, d = 1 / _TINY, 1 / (b or _TINY)
    total = d
    for step in range(1, _STEPS):
        term = -step * (step - a)
        b += 2
        d = 1 / ((term * d + b) or _TINY)
        c = (b + term / c) or _TINY
        total *= c * d
        if abs(c * d - 1) < _EPSILON:
            return total
    raise ArithmeticError("the incomplete gamma function does not settle")


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The same for the beta function; each step takes an even and an odd term."""
    c, d = 1.0, 1 / ((1 - (a + b) * x / (a + 1)) or _TINY)
    total = d
    for step in range(1, _STEPS):
        at = a + 2 * step
        even = step * (b - step) * x / ((at - 1) * at)
        odd = -(a + step) * (a + b + step) * x / (at * (at + 1))
        for term in (even, odd):
            d = 1 / ((1 + term * d) or _TINY)
            c = (1 + term / c) or _TINY
            total *= c * d
        if abs(c * d - 1) < _EPSILON * 2:
            return total
    raise ArithmeticError("the incomplete beta function does not settle")
