"""Distributions by the names and parameters that a caller writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, get_args

from handrail.standard.probability import continuous as real
from handrail.standard.probability import discrete as whole
from handrail.standard.probability import incomplete
from handrail.standard.probability.distributions import Distribution, impossible

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
    "uniform": real.Uniform,
    "triangular": real.Triangular,
    "normal": real.Normal,
    "lognormal": real.LogNormal,
    "exponential": real.Exponential,
    "gamma": incomplete.Gamma,
    "beta": incomplete.Beta,
    "weibull": real.Weibull,
    "student_t": incomplete.StudentT,
    "chi_square": incomplete.ChiSquare,
    "f": incomplete.F,
    "integers": whole.Integers,
    "binomial": whole.Binomial,
    "poisson": whole.Poisson,
    "geometric": whole.Geometric,
    "negative_binomial": whole.NegativeBinomial,
    "hypergeometric": whole.Hypergeometric,
}


def parameters_of(name: Name) -> dict[str, bool]:
    """What a distribution takes, and of each whether it must be whole."""
    return {each.name: each.type == "int" for each in dataclasses.fields(FAMILIES[name])}


def signatures() -> str:
    """All of them in one line, for descriptions: `normal(mean, sd), …`."""
    return ", ".join(f"{name}({', '.join(parameters_of(name))})" for name in NAMES)


def make(name: Name, parameters: Mapping[str, float]) -> Distribution:
    """Raises:
    ToolError: A parameter is missing, unknown, or such that there is no such distribution.
    """
    wanted = parameters_of(name)
    if set(parameters) != set(wanted):
        given = f"not {', '.join(sorted(parameters))}" if parameters else "and none were given"
        raise impossible(f"{name} takes the parameters {', '.join(wanted)}, {given}")
    for each, is_whole in wanted.items():
        if is_whole and parameters[each] != int(parameters[each]):
            raise impossible(f"{each} of {name} must be a whole number, not {parameters[each]:g}")
    made: Distribution = FAMILIES[name](
        **{each: int(parameters[each]) if is_whole else float(parameters[each]) for each, is_whole in wanted.items()}
    )
    return made
