"""Numbers about numbers: what a sample looks like, whether two differ, what evidence changes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from handrail.library.probability.families import impossible_parameters, make_distribution

Method = Literal["welch", "student", "paired", "chi_square", "correlation", "regression"]


class Histogram(TypedDict):
    edges: list[float]
    """One more than there are counts; the last bin holds its upper edge too."""
    counts: list[int]


class SampleDescription(TypedDict):
    count: int
    mean: float
    sd: float | None
    """Of the sample, by n - 1; None for a single value. So the variance."""
    variance: float | None
    min: float
    first_quartile: float
    median: float
    third_quartile: float
    max: float
    skewness: float | None
    """Adjusted for the size of the sample; None for fewer than 3 values, or where all are equal."""
    excess_kurtosis: float | None
    histogram: Histogram


class SampleComparison(TypedDict):
    method: Method
    statistic: float | None
    """None where a line fits exactly, so that it would have no end."""
    df: float
    p_value: float
    """Two-sided."""
    estimate: float
    """The difference of means, the correlation, the slope; of chi_square, Cramér's V or the effect w."""
    interval: list[float] | None
    """95 % confidence, of the estimate."""
    intercept: float | None
    r_squared: float | None
    reading: str


class BayesPosterior(TypedDict):
    posterior: dict[str, float]
    evidence: float
    """How probable the observations were, all hypotheses together."""
    likeliest: str


def describe_sample(values: Sequence[float], bins: int) -> SampleDescription:
    count, mean = len(values), statistics.fmean(values)
    variance = statistics.variance(values, mean) if count > 1 else None
    ordered = sorted(values)
    return SampleDescription(
        count=count,
        mean=mean,
        sd=None if variance is None else math.sqrt(variance),
        variance=variance,
        min=ordered[0],
        first_quartile=_quantile(ordered, 0.25),
        median=_quantile(ordered, 0.5),
        third_quartile=_quantile(ordered, 0.75),
        max=ordered[-1],
        skewness=_skewness(values, mean),
        excess_kurtosis=_kurtosis(values, mean),
        histogram=_histogram(ordered, bins),
    )


def compare_samples(method: Method, a: Sequence[float], b: Sequence[float] | None) -> SampleComparison:
    """Tests a hypothesis about two samples, or about counts.

    Raises:
        ToolError: The samples are too small, of different sizes, or without any spread.
    """
    if method == "chi_square":
        return _goodness(a, b)
    if b is None:
        raise impossible_parameters(f"{method} compares two lists; give b too")
    match method:
        case "welch" | "student":
            return _two_means(method, a, b)
        case "paired":
            return _paired(a, b)
        case _:
            return _line(method, a, b)


def independence_test(table: Sequence[Sequence[float]]) -> SampleComparison:
    """Whether the rows of a table of counts have the same shares."""
    widths = {len(row) for row in table}
    if len(table) < 2 or len(widths) != 1 or widths.pop() < 2:
        raise impossible_parameters("table must have at least 2 rows and 2 columns, and as many columns in each row")
    rows, columns = [math.fsum(row) for row in table], [math.fsum(column) for column in zip(*table, strict=True)]
    total = math.fsum(rows)
    if not all(rows) or not all(columns):
        raise impossible_parameters("a row or a column of the table holds only zeros; leave it out")
    statistic = math.fsum(
        (cell - row * column / total) ** 2 / (row * column / total)
        for line, row in zip(table, rows, strict=True)
        for cell, column in zip(line, columns, strict=True)
    )
    df = (len(rows) - 1) * (len(columns) - 1)
    return _chi_square_result(statistic, df, statistic / (total * (min(len(rows), len(columns)) - 1)))


def bayes_posterior(priors: Mapping[str, float], likelihoods: Mapping[str, Sequence[float]]) -> BayesPosterior:
    """Returns how probable each hypothesis is after the observations, by sums of logarithms.

    Raises:
        ToolError: The two are not about the same hypotheses, or what was observed cannot happen under any.
    """
    if set(priors) != set(likelihoods):
        raise impossible_parameters("priors and likelihoods must be about the same hypotheses, by the same names")
    if len({len(row) for row in likelihoods.values()}) != 1:
        raise impossible_parameters(
            "each hypothesis needs a likelihood for each observation, as many as the others have"
        )
    total = math.fsum(priors.values())
    if total <= 0:
        raise impossible_parameters("all priors are 0; one hypothesis at least must be possible beforehand")
    weights = {
        name: _logarithm(prior / total) + sum(map(_logarithm, likelihoods[name])) for name, prior in priors.items()
    }
    most = max(weights.values())
    if most == -math.inf:
        raise impossible_parameters("no hypothesis can explain the observations: each has a prior or a likelihood of 0")
    shares = {name: math.exp(weight - most) for name, weight in weights.items()}
    whole = math.fsum(shares.values())
    posterior = {name: share / whole for name, share in shares.items()}
    return BayesPosterior(
        posterior=posterior, evidence=math.exp(most) * whole, likeliest=max(posterior, key=posterior.__getitem__)
    )


def _two_means(method: Method, a: Sequence[float], b: Sequence[float]) -> SampleComparison:
    n, m = _at_least(2, a, "a"), _at_least(2, b, "b")
    first, second = statistics.variance(a), statistics.variance(b)
    if method == "welch":
        squared = first / n + second / m
        share = first / n / squared if squared else 0.0  # of the whole, so that no square is too large for a number
        df = 1 / (share**2 / (n - 1) + (1 - share) ** 2 / (m - 1))
    else:
        df = n + m - 2.0
        squared = ((n - 1) * first + (m - 1) * second) / df * (1 / n + 1 / m)
    return _mean_test(method, statistics.fmean(a) - statistics.fmean(b), squared, df)


def _paired(a: Sequence[float], b: Sequence[float]) -> SampleComparison:
    n = _same_size(2, a, b)
    differences = [x - y for x, y in zip(a, b, strict=True)]
    return _mean_test("paired", statistics.fmean(differences), statistics.variance(differences) / n, n - 1.0)


def _mean_test(method: Method, difference: float, squared: float, df: float) -> SampleComparison:
    if squared <= 0:
        raise impossible_parameters("the values have no spread, so there is nothing to measure the difference by")
    return _t_result(method, difference, math.sqrt(squared), df)


def _line(method: Method, x: Sequence[float], y: Sequence[float]) -> SampleComparison:
    """Correlation and regression are one computation, with another estimate."""
    n = _same_size(3, x, y)
    mean_x, mean_y = statistics.fmean(x), statistics.fmean(y)
    xx = math.fsum((each - mean_x) ** 2 for each in x)
    yy = math.fsum((each - mean_y) ** 2 for each in y)
    if not xx or not yy:
        raise impossible_parameters("one of the lists holds only equal values, so no line tells anything")
    xy = math.fsum((one - mean_x) * (other - mean_y) for one, other in zip(x, y, strict=True))
    r = min(max(xy / (math.sqrt(xx) * math.sqrt(yy)), -1.0), 1.0)
    slope, df = xy / xx, n - 2.0
    intercept = mean_y - slope * mean_x
    left = math.fsum((other - intercept - slope * one) ** 2 for one, other in zip(x, y, strict=True))
    if left <= yy * 1e-28:
        exact = _result(method, None, df, 0.0, slope if method == "regression" else r)
        return {**exact, "intercept": intercept, "r_squared": r * r}
    error = math.sqrt(left / df / xx)
    made = _t_result(method, slope, error, df)
    if method == "correlation":
        made = {**made, "estimate": r, "interval": _fisher(r, n)}
    return {**made, "intercept": intercept, "r_squared": r * r}


def _goodness(observed: Sequence[float], expected: Sequence[float] | None) -> SampleComparison:
    count = _at_least(2, observed, "a")
    total = math.fsum(observed)
    if total <= 0 or min(observed) < 0:
        raise impossible_parameters("a must hold counts, of which not all are 0")
    shares = [1.0] * count if expected is None else list(expected)
    if len(shares) != count or min(shares) <= 0:
        raise impossible_parameters("b must hold what is expected, more than 0, for each count of a")
    scale = total / math.fsum(shares)
    statistic = math.fsum((o - e * scale) ** 2 / (e * scale) for o, e in zip(observed, shares, strict=True))
    return _chi_square_result(statistic, count - 1, statistic / total)


def _chi_square_result(statistic: float, df: int, effect_squared: float) -> SampleComparison:
    p_value = make_distribution("chi_square", {"df": df}).tails(statistic).upper
    return _result("chi_square", statistic, df, p_value, math.sqrt(effect_squared))


def _t_result(method: Method, estimate: float, error: float, df: float) -> SampleComparison:
    t, student = estimate / error, make_distribution("student_t", {"df": df})
    reach = student.quantile(0.975) * error
    made = _result(method, t, df, 2 * student.tails(abs(t)).upper, estimate)
    return {**made, "interval": [estimate - reach, estimate + reach]}


def _result(method: Method, statistic: float | None, df: float, p_value: float, estimate: float) -> SampleComparison:
    return SampleComparison(
        method=method,
        statistic=statistic,
        df=df,
        p_value=p_value,
        estimate=estimate,
        interval=None,
        intercept=None,
        r_squared=None,
        reading=_reading(p_value),
    )


def _reading(p_value: float) -> str:
    often = "less than 1 time in 1,000" if p_value < 0.001 else f"about {p_value * 100:.2g} times in 100"
    return f"If there were no difference or relation, a result at least this far off would come {often}."


def _fisher(r: float, n: int) -> list[float] | None:
    if n < 4 or abs(r) >= 1:
        return None
    middle, reach = math.atanh(r), statistics.NormalDist().inv_cdf(0.975) / math.sqrt(n - 3)
    return [math.tanh(middle - reach), math.tanh(middle + reach)]


def _quantile(ordered: Sequence[float], p: float) -> float:
    """The quantile, interpolated between the two nearest values, as spreadsheets and NumPy do."""
    at = p * (len(ordered) - 1)
    under = math.floor(at)
    over = min(under + 1, len(ordered) - 1)
    return ordered[under] + (ordered[over] - ordered[under]) * (at - under)


def _skewness(values: Sequence[float], mean: float) -> float | None:
    n = len(values)
    scaled = _standardised(values, mean)
    if n < 3 or scaled is None:
        return None
    return math.sqrt(n * (n - 1)) / (n - 2) * math.fsum(z**3 for z in scaled) / n


def _kurtosis(values: Sequence[float], mean: float) -> float | None:
    n = len(values)
    scaled = _standardised(values, mean)
    if n < 4 or scaled is None:
        return None
    plain = math.fsum(z**4 for z in scaled) / n - 3
    return (n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * plain + 6)


def _standardised(values: Sequence[float], mean: float) -> list[float] | None:
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / spread for value in values] if spread else None


def _histogram(ordered: Sequence[float], bins: int) -> Histogram:
    low, high = ordered[0], ordered[-1]
    if low == high:
        return Histogram(edges=[low, high], counts=[len(ordered)])
    counts = [0] * bins
    for value in ordered:
        counts[min(int((value - low) / (high - low) * bins), bins - 1)] += 1
    edges = [low + (high - low) * at / bins for at in range(bins)]
    return Histogram(edges=[*edges, high], counts=counts)


def _at_least(least: int, values: Sequence[float], name: str) -> int:
    if len(values) < least:
        raise impossible_parameters(f"{name} has {len(values)} values; at least {least} are needed")
    return len(values)


def _same_size(least: int, a: Sequence[float], b: Sequence[float]) -> int:
    if len(a) != len(b):
        raise impossible_parameters(
            f"the lists belong together pair by pair, but a has {len(a)} values and b has {len(b)}"
        )
    return _at_least(least, a, "each list")


def _logarithm(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf
