"""The `probability` ensemble, called as models call it. Exact arithmetic judges the numbers."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from importlib import import_module
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail import Executor, Policy, ToolCall, ToolError, ToolResult
from handrail.library.probability import probability_ensemble
from handrail.library.probability.families import FAMILIES, NAMES, make_distribution, parameters_of
from tests.examples import examples


@pytest.fixture(scope="module", autouse=True)
def scipy_is_loaded() -> None:
    """On a busy machine the first import takes longer than the first call may."""
    import_module("scipy.stats")


async def result(tool: str, **arguments: Any) -> ToolResult:
    async with Executor([probability_ensemble()], policy=Policy(max_output=1_000_000)) as executor:
        return await executor.invoke(ToolCall("c1", tool, arguments))


async def ask(tool: str, **arguments: Any) -> Any:
    answered = await result(tool, **arguments)
    assert answered.outcome == "ok", answered.text
    return answered.content


async def refusal(tool: str, **arguments: Any) -> str:
    answered = await result(tool, **arguments)
    assert answered.outcome in ("failed", "invalid_arguments"), answered.text
    return answered.text


async def facts(name: str, at: list[float], probabilities: list[float], **parameters: float) -> Any:
    return await ask("distribution", distribution=name, parameters=parameters, at=at, probabilities=probabilities)


def near(value: float, relative: float = 1e-12) -> Any:
    return pytest.approx(value, rel=relative, abs=0)


# ── known values ────────────────────────────────────────────────────────────────────

QUANTILES = [
    # as tables print them, to the digits that a double has
    ("normal", {"mean": 0, "sd": 1}, 0.975, 1.959963984540054),
    ("normal", {"mean": 100, "sd": 15}, 0.5, 100.0),
    ("student_t", {"df": 10}, 0.975, 2.228138851986274),
    ("student_t", {"df": 1}, 0.975, math.tan(0.475 * math.pi)),
    ("chi_square", {"df": 1}, 0.95, 3.841458820694124),
    ("chi_square", {"df": 10}, 0.95, 18.307038053275146),
    ("exponential", {"rate": 1}, 0.5, math.log(2)),
    ("weibull", {"shape": 2, "scale": 3}, 0.5, 3 * math.sqrt(math.log(2))),
    ("uniform", {"low": 2, "high": 4}, 0.25, 2.5),
    ("triangular", {"low": 0, "mode": 1, "high": 2}, 0.125, 0.5),
    ("lognormal", {"mu": 0, "sigma": 1}, 0.975, math.exp(1.959963984540054)),
    ("beta", {"a": 1, "b": 3}, 0.875, 0.5),
    ("f", {"df1": 2, "df2": 2}, 0.95, 19.0),
]


@pytest.mark.requirement("converser.standard-ensembles")
@pytest.mark.parametrize(("name", "parameters", "p", "x"), QUANTILES)
async def test_quantiles_are_those_of_the_tables(name: str, parameters: dict[str, float], p: float, x: float) -> None:
    told = await facts(name, [x], [p], **parameters)

    assert told["quantiles"] == [{"p": p, "x": near(x)}]
    assert told["points"][0]["at_most"] == near(p)
    assert told["points"][0]["above"] == near(1 - p, 1e-11)


async def test_the_far_tail_of_the_normal_distribution_keeps_its_digits() -> None:
    told = await facts("normal", [8, 1.96], [], mean=0, sd=1)

    assert told["points"][0]["above"] == near(6.220960574271785e-16, 1e-10)
    assert told["points"][1]["at_most"] == near(0.9750021048517795)


# ── exact arithmetic as the judge ───────────────────────────────────────────────────


def _binomial(n: int, p: Fraction, k: int) -> Fraction:
    return math.comb(n, k) * p**k * (1 - p) ** (n - k)


@pytest.mark.parametrize(
    ("n", "k", "p"), [(10, 3, 0.5), (100, 2, 0.25), (1000, 260, 0.25), (2000, 1990, 0.5), (7, 0, 0.125)]
)
async def test_the_binomial_distribution_is_what_fractions_say(n: int, k: int, p: float) -> None:
    exact = Fraction(p)
    told = (await facts("binomial", [k], [], n=n, p=p))["points"][0]

    assert told["density"] == near(float(_binomial(n, exact, k)), 1e-11)
    assert told["at_most"] == near(float(sum(_binomial(n, exact, each) for each in range(k + 1))), 1e-11)
    assert told["above"] == near(float(sum(_binomial(n, exact, each) for each in range(k + 1, n + 1))), 1e-11)


@pytest.mark.parametrize(("a", "b", "x"), [(2, 3, 0.25), (40, 60, 0.375), (3, 200, 0.03125), (5, 5, 0.9375)])
async def test_the_beta_distribution_is_what_fractions_say(a: int, b: int, x: float) -> None:
    exact, n = Fraction(x), a + b - 1
    told = (await facts("beta", [x], [], a=a, b=b))["points"][0]

    assert told["at_most"] == near(float(sum(_binomial(n, exact, j) for j in range(a, n + 1))), 1e-11)
    assert told["above"] == near(float(sum(_binomial(n, exact, j) for j in range(a))), 1e-11)
    assert told["density"] == near(float(n * _binomial(n - 1, exact, a - 1)), 1e-11)


def _exponential(x: Fraction) -> Fraction:
    """e to the x, far beyond the digits of a double."""
    term = total = Fraction(1)
    for step in range(1, 400):
        term = term * x / step
        total += term
    return total


@pytest.mark.parametrize(("mean", "k"), [(1.0, 0), (3.5, 2), (20.0, 45), (60.0, 40)])
async def test_poisson_and_gamma_are_what_fractions_say(mean: float, k: int) -> None:
    exact = Fraction(mean)
    whole = _exponential(exact)
    lower = sum((exact**j / math.factorial(j) for j in range(k + 1)), Fraction(0)) / whole
    poisson = (await facts("poisson", [k], [], mean=mean))["points"][0]
    gamma = (await facts("gamma", [mean], [], shape=k + 1, scale=1))["points"][0]

    assert poisson["density"] == near(float(exact**k / math.factorial(k) / whole), 1e-12)
    assert (poisson["at_most"], poisson["above"]) == (near(float(lower), 1e-11), near(float(1 - lower), 1e-11))
    assert (gamma["above"], gamma["at_most"]) == (near(float(lower), 1e-11), near(float(1 - lower), 1e-11))


@pytest.mark.parametrize(
    ("population", "successes", "draws", "k"), [(50, 5, 10, 1), (500, 300, 40, 10), (900, 30, 450, 25)]
)
async def test_the_hypergeometric_distribution_is_what_fractions_say(
    population: int, successes: int, draws: int, k: int
) -> None:
    def mass(j: int) -> Fraction:
        ways = math.comb(successes, j) * math.comb(population - successes, draws - j)
        return Fraction(ways, math.comb(population, draws))

    told = (await facts("hypergeometric", [k], [], population=population, successes=successes, draws=draws))["points"][
        0
    ]

    assert told["density"] == near(float(mass(k)), 1e-11)
    assert told["at_most"] == near(float(sum(mass(j) for j in range(k + 1))), 1e-11)
    assert told["above"] == near(float(sum(mass(j) for j in range(k + 1, draws + 1) if j <= successes)), 1e-11)


async def test_students_t_has_the_closed_forms_of_one_and_two_degrees() -> None:
    one = (await facts("student_t", [3.0], [], df=1))["points"][0]
    two = (await facts("student_t", [-3.0], [], df=2))["points"][0]

    assert (one["density"], one["above"]) == (near(1 / (math.pi * 10)), near(0.5 - math.atan(3) / math.pi, 1e-11))
    assert two["at_most"] == near(0.5 - 3 / (2 * math.sqrt(2 + 9)), 1e-11)
    assert two["density"] == near((2 + 9) ** -1.5)


@pytest.mark.parametrize(
    ("shape", "variance"),
    [
        (50, 6.253425856013038e-4),
        (100, 1.6030491620026111e-4),
        (1e9, 1.6449340625451492e-18),
        (1e15, math.pi**2 / 6e30),
    ],
)
async def test_a_narrow_weibull_distribution_keeps_its_digits(shape: float, variance: float) -> None:
    told = await facts("weibull", [0.5, 1e90], [0.5], shape=shape, scale=1)

    assert told["variance"] == near(variance)
    assert [(point["density"], point["at_most"]) for point in told["points"]][1] == (0, 1)


async def test_a_million_trials_lose_no_digits() -> None:
    told = await facts("binomial", [500_000], [0.5], n=1_000_000, p=0.5)

    # Stirling's series for the middle of Pascal's triangle, whose next term is far below the digits of a double.
    n = 1_000_000
    middle = math.sqrt(2 / (math.pi * n)) * (1 - 1 / (4 * n) + 1 / (32 * n**2))
    assert told["points"][0]["density"] == near(middle, 1e-12)
    assert told["points"][0]["at_most"] == near(0.5 + middle / 2, 1e-11)
    assert told["quantiles"][0]["x"] == 500_000


# ── all distributions alike ─────────────────────────────────────────────────────────

EXAMPLES: dict[str, dict[str, float]] = {
    "uniform": {"low": -1, "high": 3},
    "triangular": {"low": 0, "mode": 1, "high": 4},
    "normal": {"mean": 10, "sd": 2},
    "lognormal": {"mu": 0.5, "sigma": 0.4},
    "exponential": {"rate": 2},
    "gamma": {"shape": 2.5, "scale": 3},
    "beta": {"a": 2, "b": 5},
    "weibull": {"shape": 1.5, "scale": 2},
    "student_t": {"df": 8},
    "chi_square": {"df": 5},
    "f": {"df1": 5, "df2": 12},
    "integers": {"low": 1, "high": 6},
    "binomial": {"n": 100, "p": 0.3},
    "poisson": {"mean": 70},
    "geometric": {"p": 0.2},
    "negative_binomial": {"r": 4.5, "p": 0.3},
    "hypergeometric": {"population": 1000, "successes": 300, "draws": 80},
}


def test_every_distribution_is_tried() -> None:
    assert set(EXAMPLES) == set(NAMES) == set(FAMILIES)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(30))
@given(p=st.floats(1e-6, 1 - 1e-6))
def test_a_quantile_is_the_first_value_that_reaches_its_probability(name: Any, p: float) -> None:
    made = make_distribution(name, EXAMPLES[name])
    x = made.quantile(p)
    before = x - 1 if made.discrete else x - 1e-7 * max(abs(x), 1)

    assert made.tails(x).lower >= p * (1 - 1e-9)
    assert made.tails(before).lower < p
    assert sum(made.tails(x)) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_density_adds_up_to_the_probability_between_two_points(name: Any) -> None:
    made = make_distribution(name, EXAMPLES[name])
    low, high = made.quantile(0.05), made.quantile(0.9)
    between = made.tails(high).lower - made.tails(low).lower
    if made.discrete:
        total = math.fsum(made.density(k) for k in range(int(low) + 1, int(high) + 1))
        assert total == near(between, 1e-11)
    else:
        steps = 4000  # Simpson's rule
        width = (high - low) / steps
        weights = [1, *([4, 2] * (steps // 2 - 1)), 4, 1]
        total = math.fsum(w * made.density(low + at * width) for at, w in enumerate(weights)) * width / 3
        assert total == near(between, 1e-6)


@pytest.mark.parametrize("name", NAMES)
async def test_what_is_drawn_has_the_mean_and_the_quarters_of_its_distribution(name: Any) -> None:
    made = make_distribution(name, EXAMPLES[name])
    drawn = await ask("draw", distribution=name, parameters=EXAMPLES[name], count=10_000, seed=7)
    values, mean, variance = drawn["values"], made.mean, made.variance
    assert mean is not None and variance is not None

    assert abs(drawn["mean"] - mean) < 5 * math.sqrt(variance / 10_000)
    for p in (0.1, 0.25, 0.5, 0.75, 0.9):
        x = made.quantile(p)
        reached = made.tails(x).lower
        share = sum(value <= x for value in values) / 10_000
        assert abs(share - reached) < 5 * math.sqrt(reached * (1 - reached) / 10_000) + 1e-9


@pytest.mark.parametrize("name", NAMES)
async def test_wrong_parameters_are_named(name: Any) -> None:
    wanted = ", ".join(parameters_of(name))

    assert wanted in await refusal("distribution", distribution=name, parameters={})
    assert wanted in await refusal("draw", distribution=name, parameters={**EXAMPLES[name], "mu2": 1})


IMPOSSIBLE: list[tuple[str, dict[str, float], str]] = [
    ("normal", {"mean": 0, "sd": 0}, "sd must be more than 0"),
    ("normal", {"mean": 0, "sd": -1}, "sd must be more than 0"),
    ("uniform", {"low": 2, "high": 2}, "low must be less than high"),
    ("binomial", {"n": 10, "p": 1.5}, "p must be a probability"),
    ("binomial", {"n": 2.5, "p": 0.5}, "whole number"),
    ("binomial", {"n": 1e12, "p": 0.5}, "n must be from 0 to 1e+07"),
    ("gamma", {"shape": 1e99, "scale": 1}, "shape must be more than 0 and at most 1e+07"),
    ("hypergeometric", {"population": 10, "successes": 11, "draws": 2}, "successes must be from 0"),
    ("geometric", {"p": 0}, "p must be a probability"),
    ("lognormal", {"mu": 1e99, "sigma": 1}, "too small for a number"),
    ("integers", {"low": 3, "high": 2}, "low must not be more than high"),
]


@pytest.mark.parametrize(("name", "parameters", "said"), IMPOSSIBLE)
async def test_an_impossible_distribution_is_refused_with_why(name: str, parameters: Any, said: str) -> None:
    assert said in await refusal("distribution", distribution=name, parameters=parameters)
    assert said in await refusal("draw", distribution=name, parameters=parameters)


@given(name=st.sampled_from(NAMES), data=st.data())
def test_any_parameters_give_a_distribution_or_a_reason(name: Any, data: st.DataObject) -> None:
    numbers = st.one_of(st.integers(-3, 40), st.floats(-1e3, 1e3), st.sampled_from([0.5, 1e-9, 0.999]))
    parameters = {each: data.draw(numbers) for each in parameters_of(name)}
    try:
        made = make_distribution(name, parameters)
        x = made.quantile(data.draw(st.floats(1e-9, 1 - 1e-9)))
        tails = made.tails(x)
        made.draw(Random(1), 3)
    except (ToolError, OverflowError, ZeroDivisionError):
        return
    assert 0 <= tails.lower <= 1 and 0 <= tails.upper <= 1


# ── dice and samples ────────────────────────────────────────────────────────────────


@settings(max_examples=examples(40))
@given(st.integers(1, 40), st.integers(1, 100), st.integers(-50, 50), st.data())
async def test_dice_show_what_they_can_and_add_up(count: int, sides: int, modifier: int, data: st.DataObject) -> None:
    keep = data.draw(st.integers(1, count))
    kind = data.draw(st.sampled_from(["kh", "kl"]))
    ((roll,), total) = (await ask("roll_dice", dice=f"{count}d{sides}{kind}{keep} {modifier:+d}")).values()
    (thrown,) = roll["dice"]

    assert len(thrown["rolled"]) == count and all(1 <= each <= sides for each in thrown["rolled"])
    assert thrown["kept"] == sorted(thrown["rolled"], reverse=kind == "kh")[:keep]
    assert total == roll["total"] == sum(thrown["kept"]) + modifier


async def test_several_kinds_of_dice_are_added_and_taken_away() -> None:
    told = (await ask("roll_dice", dice="2d8 + 1D6 - 3d4 - 1", seed=3))["rolls"][0]
    first, second, third = told["dice"]

    assert [each["dice"] for each in told["dice"]] == ["2d8", "1d6", "-3d4"]
    assert told["total"] == sum(first["kept"]) + sum(second["kept"]) - sum(third["kept"]) - 1


async def test_advantage_takes_the_better_of_two_and_disadvantage_the_worse() -> None:
    better = (await ask("roll_dice", dice="d20", advantage="advantage", times=50))["rolls"]
    worse = (await ask("roll_dice", dice="d20", advantage="disadvantage", times=50))["rolls"]

    assert all(each["total"] >= each["other_total"] for each in better)
    assert all(each["total"] <= each["other_total"] for each in worse)


@pytest.mark.parametrize(
    "dice",
    [
        "",
        "6",
        "d",
        "3x6",
        "3d6kh0",
        "3d6kh4",
        "3d0",
        "0d6",
        "1001d6",
        "900d6+900d6",
        "2d6 2d6",
        "d6++1",
        "9" * 5000 + "d6",
    ],
)
async def test_what_is_no_dice_is_refused_with_how_to_write_them(dice: str) -> None:
    assert await refusal("roll_dice", dice=dice)


async def test_a_seed_gives_the_same_again_and_none_gives_chance() -> None:
    arguments: dict[str, Any] = {"dice": "20d1000"}

    assert await ask("roll_dice", **arguments, seed=5) == await ask("roll_dice", **arguments, seed=5)
    assert await ask("roll_dice", **arguments) != await ask("roll_dice", **arguments)


async def test_each_call_draws_again_even_if_results_are_remembered_and_shared() -> None:
    """Two equal calls at once, and then one more, under a policy that remembers every read."""
    async with Executor([probability_ensemble()], policy=Policy(deduplicator="exact")) as executor:
        calls = [executor.invoke(ToolCall(f"c{at}", "roll_dice", {"dice": "30d1000"})) for at in range(2)]
        results = [
            *await asyncio.gather(*calls),
            await executor.invoke(ToolCall("c9", "roll_dice", {"dice": "30d1000"})),
        ]
        known = [await executor.invoke(ToolCall(f"d{at}", "describe", {"values": [1, 2]})) for at in range(2)]

    assert len({each.text for each in results}) == 3
    assert known[1].reused_from == "d0"


@settings(max_examples=examples(40))
@given(st.lists(st.integers(), min_size=1, max_size=30), st.data())
async def test_a_sample_holds_items_of_the_list_each_once(items: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(items)))
    weights = data.draw(st.none() | st.lists(st.floats(0.1, 9), min_size=len(items), max_size=len(items)))
    told = await ask("sample", items=items, count=count, weights=weights)

    assert told["chosen"] == [items[at] for at in told["positions"]]
    assert len(set(told["positions"])) == count


async def test_weights_say_how_likely_and_nothing_of_weight_zero_is_chosen() -> None:
    told = await ask("sample", items=["a", "b", "c"], count=9000, weights=[1, 2, 0], replacement=True, seed=11)
    first = Counter(
        [
            (await ask("sample", items=["a", "b", "c"], count=2, weights=[1, 9, 0], seed=seed))["chosen"][0]
            for seed in range(60)
        ]
    )
    counted = Counter(told["chosen"])

    assert counted["c"] == 0 and abs(counted["a"] / 9000 - 1 / 3) < 0.03
    assert first["b"] > 40 and first["c"] == 0


async def test_more_than_there_is_cannot_be_chosen() -> None:
    assert "replacement" in await refusal("sample", items=[1, 2], count=3)
    assert "cannot be chosen from 1" in await refusal("sample", items=[1, 2], count=2, weights=[1, 0])
    assert "one weight for each" in await refusal("sample", items=[1, 2], weights=[1])
    assert "all weights are 0" in await refusal("sample", items=[1, 2], weights=[0, 0])


# ── statistics ──────────────────────────────────────────────────────────────────────


async def test_a_description_has_the_numbers_of_the_textbook() -> None:
    told = await ask("describe", values=[2, 4, 4, 4, 5, 5, 7, 9], bins=7)

    assert told["histogram"] == {"edges": [2, 3, 4, 5, 6, 7, 8, 9], "counts": [1, 0, 3, 2, 0, 1, 1]}
    assert {key: value for key, value in told.items() if key != "histogram"} == {
        "count": 8,
        "mean": 5,
        "sd": near(math.sqrt(32 / 7)),
        "variance": near(32 / 7),
        "min": 2,
        "first_quartile": 4,
        "median": 4.5,
        "third_quartile": 5.5,
        "max": 9,
        # sums of third and fourth powers around the mean are 42 and 356
        "skewness": near(math.sqrt(56) / 6 * (42 / 8) / 8),
        "excess_kurtosis": near(7 / 30 * (9 * (356 / 8 / 16 - 3) + 6)),
    }


async def test_one_value_has_no_spread() -> None:
    told = await ask("describe", values=[3])

    assert (told["sd"], told["skewness"], told["histogram"]) == (None, None, {"edges": [3, 3], "counts": [1]})


@settings(max_examples=examples(40))
@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=50), st.integers(1, 20))
async def test_any_numbers_can_be_described(values: list[float], bins: int) -> None:
    told = await ask("describe", values=values, bins=bins)

    assert sum(told["histogram"]["counts"]) == len(values)
    assert told["min"] <= told["first_quartile"] <= told["median"] <= told["third_quartile"] <= told["max"]


SLEEP = ([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0], [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4])
"""Student's data of 1908: hours of sleep that two drugs added. Their tests are in every textbook."""


async def test_the_means_of_students_sleep_data_compare_as_published() -> None:
    a, b = SLEEP
    welch = await ask("compare", method="welch", a=a, b=b)
    student = await ask("compare", method="student", a=a, b=b)
    paired = await ask("compare", method="paired", a=a, b=b)

    assert (welch["statistic"], welch["df"]) == (near(-1.8608, 1e-4), near(17.776, 1e-4))
    assert (welch["p_value"], student["df"], student["p_value"]) == (near(0.07939, 1e-4), 18, near(0.07919, 1e-3))
    assert (paired["statistic"], paired["p_value"]) == (near(-4.0621, 1e-4), near(0.002833, 1e-3))
    assert welch["interval"] == [near(-3.3654832, 1e-6), near(0.2054832, 1e-6)]


async def test_a_line_through_points_is_the_one_with_the_least_squares() -> None:
    told = await ask("compare", method="regression", a=[1, 2, 3, 4, 5], b=[2, 4, 5, 4, 5])
    related = await ask("compare", method="correlation", a=[1, 2, 3, 4, 5], b=[2, 4, 5, 4, 5])

    assert (told["estimate"], told["intercept"], told["r_squared"]) == (near(0.6), near(2.2), near(0.6))
    assert (told["statistic"], told["df"]) == (near(math.sqrt(4.5)), 3)
    assert related["estimate"] == near(math.sqrt(0.6))
    assert related["p_value"] == told["p_value"] == near(0.12402706265755456, 1e-9)


async def test_a_perfect_line_is_no_error() -> None:
    told = await ask("compare", method="regression", a=[1, 2, 3], b=[3, 5, 7])

    assert (told["estimate"], told["intercept"], told["statistic"], told["p_value"]) == (near(2), near(1), None, 0)


async def test_counts_are_compared_with_what_was_expected_and_with_each_other() -> None:
    fair = await ask("compare", method="chi_square", a=[22, 24, 38, 30, 46, 44], b=[34] * 6)
    table = await ask("compare", method="chi_square", table=[[10, 20], [30, 40]])

    assert (fair["statistic"], fair["df"]) == (near(sum((n - 34) ** 2 / 34 for n in (22, 24, 38, 30, 46, 44))), 5)
    assert (table["statistic"], table["df"]) == (near(50 / 63), 1)
    assert table["p_value"] == near(math.erfc(math.sqrt(50 / 63 / 2)))


async def test_means_compare_alike_whatever_the_unit_up_to_the_largest_numbers_there_are() -> None:
    a, b = ([each * 1e99 for each in part] for part in SLEEP)
    welch = await ask("compare", method="welch", a=a, b=b)
    assert (welch["statistic"], welch["df"]) == (near(-1.8608, 1e-4), near(17.776, 1e-4))
    tiny = await refusal("compare", method="regression", a=[0, 1e-200, 3e-200], b=[0, 1, 7])
    assert "equal values" in tiny or "too small" in tiny


async def test_what_cannot_be_compared_is_refused_with_why() -> None:
    assert "give b" in await refusal("compare", method="welch", a=[1, 2])
    assert "pair by pair" in await refusal("compare", method="paired", a=[1, 2], b=[1, 2, 3])
    assert "no spread" in await refusal("compare", method="student", a=[1, 1], b=[2, 2])
    assert "equal values" in await refusal("compare", method="correlation", a=[1, 1, 1], b=[1, 2, 3])
    assert "only zeros" in await refusal("compare", method="chi_square", table=[[1, 0], [1, 0]])
    assert "needs a" in await refusal("compare", method="welch")


async def test_a_rare_illness_stays_rare_after_one_good_test() -> None:
    told = await ask("bayes", priors={"ill": 1, "well": 99}, likelihoods={"ill": [0.9], "well": [0.05]})

    assert told["posterior"] == {"ill": near(0.009 / 0.0585), "well": near(0.0495 / 0.0585)}
    assert (told["evidence"], told["likeliest"]) == (near(0.0585), "well")


async def test_a_thousand_small_likelihoods_do_not_vanish() -> None:
    told = await ask("bayes", priors={"a": 1, "b": 1}, likelihoods={"a": [1e-9] * 1000, "b": [1e-9] * 999 + [2e-9]})

    assert told["posterior"]["b"] == near(2 / 3, 1e-9)


async def test_hypotheses_that_explain_nothing_are_refused() -> None:
    assert "same hypotheses" in await refusal("bayes", priors={"a": 1}, likelihoods={"b": [1]})
    assert "no hypothesis can explain" in await refusal("bayes", priors={"a": 1}, likelihoods={"a": [0]})
    assert "as many" in await refusal("bayes", priors={"a": 1, "b": 1}, likelihoods={"a": [1], "b": [1, 1]})


async def test_without_scipy_dice_work_and_distributions_name_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "handrail.library.probability.scipy_distribution", raising=False)
    monkeypatch.setitem(sys.modules, "scipy", None)

    assert "[probability]" in await refusal("draw", distribution="normal", parameters={"mean": 0, "sd": 1})
    assert "[probability]" in await refusal("compare", method="welch", a=[1, 2], b=[2, 4])
    assert (await ask("describe", values=[1, 3]))["mean"] == 2
    assert await ask("roll_dice", dice="d6") and await ask("bayes", priors={"a": 1}, likelihoods={"a": [1]})


def test_scipy_is_loaded_only_when_a_distribution_is_asked_for() -> None:
    program = "import sys, handrail.library.probability; print('scipy' in sys.modules, 'numpy' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert told.stdout.split() == ["False", "False"]


async def test_a_seed_draws_the_same_numbers_for_ever() -> None:
    drawn = await ask("draw", distribution="gamma", parameters={"shape": 2, "scale": 3}, count=3, seed=1)
    counted = await ask("draw", distribution="binomial", parameters={"n": 100, "p": 0.3}, count=3, seed=1)

    assert drawn["values"] == [near(1.912205256448174), near(10.051293724829488), near(8.310179354065113)]
    assert counted["values"] == [25, 35, 33]


@pytest.mark.parametrize(("r", "p"), [(1e7, 1e-9), (1e7, 1.0), (1e-9, 1e-9)])
async def test_extreme_parameters_end_no_process(r: float, p: float) -> None:
    """scipy's own inverse of the first ends the process."""
    told = await facts("negative_binomial", [0], [0.1], r=r, p=p)

    assert told["quantiles"][0]["x"] >= 0


def test_every_tool_says_what_it_gives_and_changes_nothing() -> None:
    tools = probability_ensemble().tools

    assert [each.name for each in tools] == [
        "roll_dice",
        "sample",
        "draw",
        "distribution",
        "describe",
        "compare",
        "bayes",
    ]
    assert all(each.definition.output_schema is not None and not each.definition.side_effects for each in tools)
