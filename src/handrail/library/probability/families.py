"""Distributions by the names and parameters that a caller writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

from handrail.library.probability import continuous as real
from handrail.library.probability import discrete as whole
from handrail.library.probability import gamma_and_beta
from handrail.library.probability.distributions import Distribution, impossible_parameters

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
FAMILIES: Mapping[Name, type[Any]] = {
    "uniform": real.UniformDistribution,
    "triangular": real.Triangular,
    "normal": real.Normal,
    "lognormal": real.LogNormal,
    "exponential": real.Exponential,
    "gamma": gamma_and_beta.Gamma,
    "beta": gamma_and_beta.Beta,
    "weibull": real.Weibull,
    "student_t": gamma_and_beta.StudentT,
    "chi_square": gamma_and_beta.ChiSquare,
    "f": gamma_and_beta.FisherF,
    "integers": whole.DiscreteUniform,
    "binomial": whole.Binomial,
    "poisson": whole.Poisson,
    "geometric": whole.Geometric,
    "negative_binomial": whole.NegativeBinomial,
    "hypergeometric": whole.Hypergeometric,
}


def parameters_of(name: Name) -> dict[str, bool]:
    """What a distribution takes, and of each whether it must be whole."""
    return {each.name: each.type == "int" for each in dataclasses.fields(FAMILIES[name])}


def family_signatures() -> str:
    """All of them in one line, for descriptions: `normal(mean, sd), …`."""
    return ", ".join(f"{name}({', '.join(parameters_of(name))})" for name in NAMES)


def make_distribution(name: Name, parameters: Mapping[str, float]) -> Distribution:
    """Raises:
    ToolError: A parameter is missing, unknown, or such that there is no such distribution.
    """
    wanted = parameters_of(name)
    if set(parameters) != set(wanted):
        given = f"not {', '.join(sorted(parameters))}" if parameters else "and none were given"
        raise impossible_parameters(f"{name} takes the parameters {', '.join(wanted)}, {given}")
    for each, is_whole in wanted.items():
        if is_whole and parameters[each] != int(parameters[each]):
            raise impossible_parameters(f"{each} of {name} must be a whole number, not {parameters[each]:g}")
    made: Distribution = FAMILIES[name](
        **{each: int(parameters[each]) if is_whole else float(parameters[each]) for each, is_whole in wanted.items()}
    )
    return made
