"""What models give the tools of `probability`: dice, lists, parameters of distributions.

The laws: a call gives what its schema promises, or a `ToolError`; and the same seed gives the same again.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from fuzz.called import called
from fuzz.law import Target
from fuzz.mutate import texts, values
from handrail.library.probability import probability_ensemble
from handrail.tools.tool import Tool

DICE = (
    "3d6+2",
    "4d6kh3",
    "2d20kl1-1",
    "3d6dl1",
    "d%",
    "1d4+1d4+1d4",
    "d6",
    "10d10dh9",
    "0d6",
    "d0",
    "1000d2",
    "٣d٦",
    "d²",
)
ODDS: list[dict[str, Any]] = [
    {"tool": "roll_dice", "dice": "3d6+2", "times": 2, "advantage": "advantage", "seed": 1},
    {"tool": "sample", "items": [1, "a", None], "count": 2, "weights": [1, 0, 2.5], "replacement": True, "seed": 3},
    *(
        {"tool": tool, "distribution": name, "parameters": given, **more}
        for name, given in (
            ("normal", {"mean": 0, "sd": 1}), ("uniform", {"low": 0, "high": 1}), ("lognormal", {"mu": 0, "sigma": 1}),
            ("gamma", {"shape": 2, "scale": 1}), ("beta", {"a": 0.5, "b": 2}), ("student_t", {"df": 3}),
            ("binomial", {"n": 10, "p": 0.3}), ("poisson", {"mean": 4}), ("geometric", {"p": 0.2}),
            ("hypergeometric", {"population": 20, "successes": 5, "draws": 3}), ("weibull", {"shape": 1, "scale": 2}),
            ("triangular", {"low": 0, "mode": 1, "high": 2}), ("chi_square", {"df": 2}), ("f", {"df1": 2, "df2": 5}),
            ("exponential", {"rate": 2}), ("negative_binomial", {"r": 2, "p": 0.5}), 
            ("integers", {"low": 1, "high": 6}),
        )
        for tool, more in (
            ("draw", {"count": 3, "seed": 1}),
            ("distribution", {"at": [0, 1, -2.5], "probabilities": [0.1, 0.999]}),
        )
    ),
    {"tool": "describe", "values": [1, 2, 2, 3.5], "bins": 3},
    {"tool": "compare", "method": "welch", "a": [1, 2, 3], "b": [2, 3, 4.5]},
    {"tool": "compare", "method": "regression", "a": [1, 2, 3], "b": [2, 3, 4.5]},
    {"tool": "compare", "method": "chi_square", "table": [[1, 2], [3, 4]]},
    {"tool": "bayes", "priors": {"a": 1, "b": 3}, "likelihoods": {"a": [0.1, 0.5], "b": [0.9, 0]}},
]  # fmt: skip
NUMBERS = st.sampled_from((0, 1, -1, 0.5, 1e-300, 1e100, -1e100, 1e7, 1e-9, 3, 17, 10_000, 1e308, 2**53, 0.9999999999))


def _odds(call: Any) -> None:
    tools = _probability()
    tool = tools.get(call.get("tool", "")) if isinstance(call, dict) and isinstance(call.get("tool"), str) else None
    if tool is not None:
        given = {key: item for key, item in call.items() if key != "tool"}
        first = called(tool, given)
        if "seed" in given and isinstance(given["seed"], int):
            assert called(tool, given) == first, "the same seed gives the same again"


@cache
def _probability() -> dict[str, Tool]:
    return {tool.name: tool for tool in probability_ensemble().tools}


@st.composite
def _numbers(draw: st.DrawFn) -> Any:
    """A good call with some of its numbers exchanged."""

    def changed(value: Any) -> Any:
        match value:
            case dict():
                return {key: changed(item) for key, item in value.items()}
            case list():
                return [changed(item) for item in value]
            case bool():
                return value
            case int() | float():
                return draw(NUMBERS) if draw(st.integers(0, 2)) == 0 else value
        return value

    return changed(draw(st.sampled_from(ODDS)))


def _dice(text: str) -> None:
    found = called(_probability()["roll_dice"], {"dice": text, "seed": 1, "advantage": "disadvantage"})
    if found is not None:
        roll = found["rolls"][0]
        assert roll["total"] <= roll["other_total"] and found["sum"] == roll["total"]


TARGETS = (
    Target("dice", texts(DICE, ("d", "kh", "kl", "+", "-", "9" * 11)), _dice),
    Target("odds", _numbers() | values(ODDS), _odds),
)
