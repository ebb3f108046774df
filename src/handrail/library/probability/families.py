"""Distributions by the names and parameters that a caller writes. Their arithmetic is scipy's, loaded when needed.

Parameters are checked here, since scipy answers NaN for impossible ones.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

from handrail.core.errors import MissingExtra, ToolError

if TYPE_CHECKING:
    from handrail.library.probability.scipy_distribution import ScipyDistribution

Distribution: TypeAlias = "ScipyDistribution | EqualIntegers"
Name = Literal[
    "uniform",
    "triangular",
    "normal",
    "lognormal",
    "exponential",
    "gamma",
    "beta",
    "weibull",
    "student_t",
    "chi_square",
    "f",
    "integers",
    "binomial",
    "poisson",
    "geometric",
    "negative_binomial",
    "hypergeometric",
]
NAMES: tuple[Name, ...] = get_args(Name)
LARGEST = 1e7
"""The largest shape, count or degrees of freedom: beyond it an answer would take seconds."""
_URN = 1_000_000
"""The largest population of a hypergeometric distribution."""
SLACK = 64 * 2.0**-52
"""A sum of probabilities that misses the goal by its last digits has reached it."""
_NARROW = 60.0
"""The shape from which on a Weibull distribution is so narrow that a difference loses more digits than a series."""
_ZETA = (
    *(1.6449340668482264, 1.2020569031595942, 1.0823232337111382, 1.0369277551433699),
    *(1.0173430619844491, 1.0083492773819228, 1.0040773561979443, 1.0020083928260822),
)
"""Riemann's function at 2, 3, 4, …"""


class TailMasses(NamedTuple):
    """P(X ≤ x) and P(X > x)."""

    lower: float
    upper: float


def impossible_parameters(why: str) -> ToolError:
    return ToolError("IMPOSSIBLE", why)


@dataclass(frozen=True, slots=True)
class EqualIntegers:
    """Every whole number from low to high with the same probability, as a die. They may be of any size; scipy's may
    not."""

    low: int
    high: int
    discrete = True

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    @property
    def mean(self) -> float:
        return (self.low + self.high) / 2

    @property
    def variance(self) -> float:
        return (self.count**2 - 1) / 12

    def density(self, x: float) -> float:
        return 1 / self.count if x == math.floor(x) and self.low <= x <= self.high else 0.0

    def tails(self, x: float) -> TailMasses:
        inside = min(max(math.floor(x), self.low - 1), self.high)
        return TailMasses((inside - self.low + 1) / self.count, (self.high - inside) / self.count)

    def quantile(self, p: float) -> float:
        if p <= 0.5:
            return self.low + math.ceil(self.count * p * (1 - SLACK)) - 1
        return self.high - math.floor(self.count * (1 - p) * (1 + SLACK))

    def draw(self, random: Random, count: int) -> list[float]:
        return [random.randint(self.low, self.high) for _ in range(count)]


def _scipy(name: str, *shapes: float, **known: Any) -> Distribution:
    try:
        from handrail.library.probability.scipy_distribution import scipy_distribution
    except ImportError as error:
        raise MissingExtra("computing with distributions", "probability") from error
    return scipy_distribution(name, *shapes, **known)


def _uniform(low: float, high: float) -> Distribution:
    if not low < high:
        raise impossible_parameters(f"low must be less than high, not {low:g} and {high:g}")
    return _scipy("uniform", low, high - low)


def _triangular(low: float, mode: float, high: float) -> Distribution:
    if not (low <= mode <= high and low < high):
        raise impossible_parameters(f"low ≤ mode ≤ high must hold, not {low:g}, {mode:g}, {high:g}")
    return _scipy("triang", (mode - low) / (high - low), low, high - low)


def _normal(mean: float, sd: float) -> Distribution:
    _check_positive(sd=sd)
    return _scipy("norm", mean, sd)


def _lognormal(mu: float, sigma: float) -> Distribution:
    _check_positive(sigma=sigma)
    return _scipy("lognorm", sigma, scale=math.exp(mu))


def _exponential(rate: float) -> Distribution:
    _check_positive(rate=rate)
    return _scipy("expon", scale=1 / rate)


def _gamma(shape: float, scale: float) -> Distribution:
    _check_positive(LARGEST, shape=shape)
    _check_positive(scale=scale)
    return _scipy("gamma", shape, scale=scale)


def _beta(a: float, b: float) -> Distribution:
    _check_positive(LARGEST, a=a, b=b)
    return _scipy("beta", a, b)


def _weibull(shape: float, scale: float) -> Distribution:
    _check_positive(shape=shape, scale=scale)
    return _scipy("weibull_min", shape, scale=scale, variance=_narrow_weibull(shape, scale))


def _narrow_weibull(shape: float, scale: float) -> float | None:
    """The variance where the two squares would be too alike: by the series of the logarithm of gamma at 1."""
    if shape < _NARROW:
        return None
    terms = (zeta * (2**n - 2) / n * (-1 / shape) ** n for n, zeta in enumerate(_ZETA, 2))
    return (scale * math.gamma(1 + 1 / shape)) ** 2 * math.expm1(math.fsum(terms))


def _student_t(df: float) -> Distribution:
    _check_positive(LARGEST, df=df)
    return _scipy("t", df, moments=(df > 1) + (df > 2))


def _chi_square(df: float) -> Distribution:
    _check_positive(LARGEST, df=df)
    return _scipy("chi2", df)


def _f(df1: float, df2: float) -> Distribution:
    _check_positive(LARGEST, df1=df1, df2=df2)
    return _scipy("f", df1, df2, moments=(df2 > 2) + (df2 > 4))


def _integers(low: int, high: int) -> Distribution:
    if low > high:
        raise impossible_parameters(f"low must not be more than high, not {low} and {high}")
    return EqualIntegers(low, high)


def _binomial(n: int, p: float) -> Distribution:
    if not 0 <= n <= LARGEST:
        raise impossible_parameters(f"n must be from 0 to {LARGEST:g}, not {n}")
    _check_share("p", p)
    return _scipy("binom", n, p)


def _poisson(mean: float) -> Distribution:
    _check_positive(LARGEST, mean=mean)
    return _scipy("poisson", mean)


def _geometric(p: float) -> Distribution:
    """Trials up to and with the first success."""
    _check_share("p", p, least=1e-9)
    return _scipy("geom", p)


def _negative_binomial(r: float, p: float) -> Distribution:
    """Failures before the r-th success; r need not be whole."""
    _check_positive(LARGEST, r=r)
    _check_share("p", p, least=1e-9)
    return _scipy("nbinom", r, p)


def _hypergeometric(population: int, successes: int, draws: int) -> Distribution:
    """Successes among draws without replacement from a population that has so many of them."""
    if not 1 <= population <= _URN:
        raise impossible_parameters(f"population must be from 1 to {_URN:,}, not {population}")
    for name, value in {"successes": successes, "draws": draws}.items():
        if not 0 <= value <= population:
            raise impossible_parameters(f"{name} must be from 0 to the population, not {value}")
    return _scipy("hypergeom", population, successes, draws, variance=0.0 if population == 1 else None)


_MAKERS: tuple[Callable[..., Distribution], ...] = (
    *(_uniform, _triangular, _normal, _lognormal, _exponential, _gamma, _beta, _weibull, _student_t, _chi_square, _f),
    *(_integers, _binomial, _poisson, _geometric, _negative_binomial, _hypergeometric),
)
FAMILIES: Mapping[str, Callable[..., Distribution]] = {make.__name__.removeprefix("_"): make for make in _MAKERS}
"""What makes each distribution, by its name. The names and types of its parameters are those of the function."""


def parameters_of(name: Name) -> dict[str, bool]:
    """The parameters of a distribution, and of each whether it must be whole."""
    return {each.name: each.annotation == "int" for each in inspect.signature(FAMILIES[name]).parameters.values()}


def family_signatures() -> str:
    """All families in one line, for descriptions: `normal(mean, sd), …`."""
    return ", ".join(f"{name}({', '.join(parameters_of(name))})" for name in NAMES)


def make_distribution(name: Name, parameters: Mapping[str, float]) -> Distribution:
    """Makes the distribution of this name.

    Raises:
        ToolError: A parameter is missing, unknown, or such that there is no such distribution.
        OverflowError: A parameter is too large or too small to compute with.
        MissingExtra: scipy is not installed.
    """
    wanted = parameters_of(name)
    if set(parameters) != set(wanted):
        given = f"not {', '.join(sorted(parameters))}" if parameters else "and none were given"
        raise impossible_parameters(f"{name} takes the parameters {', '.join(wanted)}, {given}")
    for each, is_whole in wanted.items():
        if is_whole and parameters[each] != int(parameters[each]):
            raise impossible_parameters(f"{each} of {name} must be a whole number, not {parameters[each]:g}")
    return FAMILIES[name](
        **{each: int(parameters[each]) if is_whole else float(parameters[each]) for each, is_whole in wanted.items()}
    )


def _check_positive(largest: float = math.inf, **parameters: float) -> None:
    for name, value in parameters.items():
        if not 0 < value <= largest:
            most = "" if math.isinf(largest) else f" and at most {largest:g}"
            raise impossible_parameters(f"{name} must be more than 0{most}, not {value:g}")


def _check_share(name: str, value: float, *, least: float = 0.0) -> None:
    if not least <= value <= 1:
        raise impossible_parameters(f"{name} must be a probability from {least:g} to 1, not {value:g}")
