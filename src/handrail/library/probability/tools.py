"""The tools of the `probability` ensemble: bounds, words, and one call of what does the work."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from handrail.library.probability import families, random_choices, statistics
from handrail.library.probability.families import impossible_parameters
from handrail.tools.ensemble import Ensemble
from handrail.tools.tool import Tool

MOST = 10_000
"""Values in one call."""
Number = Annotated[float, Meta(ge=-1e100, le=1e100)]
Share = Annotated[float, Meta(ge=0, le=1)]
Weight = Annotated[float, Meta(ge=0, le=1e100)]
Values = Annotated[list[Number], Meta(min_length=1, max_length=MOST)]
Count = Annotated[int, Meta(ge=1, le=MOST)]
Seed = Annotated[int | None, Meta(description="The same seed gives the same again; without one, pure chance.")]
Parameters = Annotated[dict[str, Number], Meta(description="As {'mean': 0, 'sd': 1} for normal.")]


class DiceRolls(TypedDict):
    rolls: list[random_choices.DiceRoll]
    sum: int


class ChosenItems(TypedDict):
    chosen: list[Any]
    positions: list[int]
    """Of the chosen items in the list, from 0."""


class DrawnNumbers(TypedDict):
    values: list[float]
    mean: float


class DistributionPoint(TypedDict):
    x: float
    density: float
    """Of a distribution over whole numbers: the probability of exactly x."""
    at_most: float
    above: float


class DistributionQuantile(TypedDict):
    p: float
    x: float


class DistributionFacts(TypedDict):
    mean: float | None
    variance: float | None
    sd: float | None
    points: list[DistributionPoint]
    quantiles: list[DistributionQuantile]


@dataclass(frozen=True, slots=True)
class _RandomTools:
    """The tools that draw."""

    system: Random

    def roll_dice(
        self,
        dice: Annotated[str, Meta(max_length=200)],
        times: Annotated[int, Meta(ge=1, le=100)] = 1,
        advantage: random_choices.Advantage = "none",
        seed: Seed = None,
    ) -> DiceRolls:
        """Roll dice and say what each die showed.

        Args:
            dice: As 3d6+2, 4d6kh3 (keep the highest 3), 2d20kl1 (keep the lowest), 3d6dl1 (drop the lowest), d%.
            times: How often all of it is rolled.
            advantage: Roll each time twice, and take the higher or the lower total.
        """
        expression, random = random_choices.DiceExpression.parse(dice), self._random(seed)
        rolls = [random_choices.roll_expression(expression, advantage, random) for _ in range(times)]
        return DiceRolls(rolls=rolls, sum=sum(each["total"] for each in rolls))

    def sample(
        self,
        items: Annotated[list[Any], Meta(min_length=1, max_length=MOST)],
        count: Count = 1,
        weights: Annotated[list[Weight], Meta(max_length=MOST)] | None = None,
        replacement: bool = False,
        seed: Seed = None,
    ) -> ChosenItems:
        """Choose items of a list at random.

        Args:
            items: What is chosen from.
            count: How many are chosen.
            weights: How likely each item is, compared with the others; all alike unless given.
            replacement: Whether an item can be chosen again.
        """
        places = random_choices.choose_positions(items, count, weights, replacement, self._random(seed))
        return ChosenItems(chosen=[items[at] for at in places], positions=places)

    def draw(
        self, distribution: families.Name, parameters: Parameters, count: Count = 1, seed: Seed = None
    ) -> DrawnNumbers:
        with _in_numbers("these parameters give"):
            values = families.make_distribution(distribution, parameters).draw(self._random(seed), count)
        return DrawnNumbers(values=values, mean=math.fsum(values) / count)

    def _random(self, seed: int | None) -> Random:
        return self.system if seed is None else Random(seed)


def distribution(
    distribution: families.Name,
    parameters: Parameters,
    at: Annotated[list[Number], Meta(max_length=100)] | None = None,
    probabilities: Annotated[list[Annotated[float, Meta(gt=0, lt=1)]], Meta(max_length=100)] | None = None,
) -> DistributionFacts:
    with _in_numbers("these parameters give"):
        made = families.make_distribution(distribution, parameters)
        variance = made.variance
        return DistributionFacts(
            mean=made.mean,
            variance=variance,
            sd=None if variance is None else math.sqrt(variance),
            points=[_point(made, x) for x in at or ()],
            quantiles=[DistributionQuantile(p=p, x=made.quantile(p)) for p in probabilities or ()],
        )


def describe(values: Values, bins: Annotated[int, Meta(ge=1, le=1000)] = 10) -> statistics.SampleDescription:
    """Describe a list of numbers: mean, spread, quartiles, skewness, kurtosis, histogram.

    Args:
        values: The numbers.
        bins: Into how many equal bins the histogram counts them.
    """
    with _in_numbers("these numbers have"):
        return statistics.describe_sample(values, bins)


def compare(
    method: statistics.Method,
    a: Values | None = None,
    b: Values | None = None,
    table: Annotated[list[Annotated[list[Weight], Meta(max_length=100)]], Meta(max_length=100)] | None = None,
) -> statistics.SampleComparison:
    """Test whether two lists of numbers differ or belong together.

    Args:
        method: Means of a and b: welch (unequal variances), student (equal ones), paired (pair by pair). How a and b
            go together: correlation, regression (b = intercept + slope · a). Counts: chi_square (counts a against the
            expected b, or all alike; or whether the rows of table have the same shares).
        a: The first list; of regression, what explains; of chi_square, counts.
        b: The second list.
        table: For chi_square: rows of counts, instead of a and b.
    """
    if table is not None:
        if method != "chi_square" or a is not None or b is not None:
            raise impossible_parameters("table is for chi_square, and instead of a and b")
        with _in_numbers("these numbers have"):
            return statistics.independence_test(table)
    if a is None:
        raise impossible_parameters(f"{method} needs a{' or a table' if method == 'chi_square' else ' and b'}")
    with _in_numbers("these numbers have"):
        return statistics.compare_samples(method, a, b)


def bayes(
    priors: Annotated[dict[str, Weight], Meta(min_length=1, max_length=1000)],
    likelihoods: Annotated[dict[str, Annotated[list[Share], Meta(max_length=1000)]], Meta(max_length=1000)],
) -> statistics.BayesPosterior:
    """Say how probable each hypothesis is after what was observed (Bayes' rule).

    Args:
        priors: How probable each hypothesis was before, by name. They are scaled to a sum of 1.
        likelihoods: For each hypothesis, how probable each observation is if it is true, in the order of observations.
    """
    return statistics.bayes_posterior(priors, likelihoods)


def probability_ensemble(random: Random | None = None) -> Ensemble:
    """Make the group of tools; `random` is the source of randomness for calls without a seed."""
    chance = _RandomTools(random or SystemRandom())
    known = families.family_signatures()
    return Ensemble(
        "probability",
        [
            _tool(chance.roll_dice, repeats=True),
            _tool(chance.sample, repeats=True),
            _tool(chance.draw, repeats=True, description=f"Draw random values from a distribution: {known}."),
            _tool(
                distribution,
                description="Mean and variance of a distribution; density and probabilities at the points `at`;"
                f" quantiles of `probabilities`. Distributions: {known}.",
            ),
            _tool(describe),
            _tool(compare),
            _tool(bayes),
        ],
    )


def _tool(function: Callable[..., Any], *, repeats: bool = False, description: str | None = None) -> Tool:
    """What draws must draw again for each call: it is neither shared nor remembered."""
    made = Tool.from_function(function, side_effects=False, idempotent=True, tags=("probability",))
    if description is not None:
        made = made.changed(description=description)
    return made.changed(share=False, deduplicator="none") if repeats else made


@contextmanager
def _in_numbers(what: str) -> Iterator[None]:
    """What no float can hold is told as that."""
    try:
        yield
    except ArithmeticError as error:
        raise impossible_parameters(f"{what} values that are too large or too small for a number") from error


def _point(made: families.Distribution, x: float) -> DistributionPoint:
    tails = made.tails(x)
    return DistributionPoint(x=x, density=made.density(x), at_most=tails.lower, above=tails.upper)
