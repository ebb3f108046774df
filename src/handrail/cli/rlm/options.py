"""The options that `handrail rlm ask` and `resume` share: models, the sandbox, and limits."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

import click

from handrail.cli.run_options import CliSetup, RunOptions, complete_models, configured, with_model, with_rule_and_yes
from handrail.config.rlm import RlmSettings
from handrail.sandbox.port import Kind


@dataclass(frozen=True, slots=True)
class RlmOptions:
    """What a person asks for beside `[rlm]`."""

    model: str | None = None
    sub: tuple[str, ...] = ()
    environment: str | None = None
    max_depth: int | None = None
    max_iterations: int | None = None
    max_budget: float | None = None
    max_tokens: int | None = None
    max_timeout: float | None = None
    tools: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    yes: bool = False
    log: Path | None = None
    report: Path | None = None
    code: bool = False

    def settings(self, configured: RlmSettings) -> RlmSettings:
        """The configured ones, and over them what was asked for."""
        asked = {name: getattr(self, name) for name in _OF_SETTINGS if getattr(self, name) is not None}
        return replace(configured, **asked)

    @property
    def chosen(self) -> RunOptions:
        return RunOptions(model=self.model, tools=self.tools, rules=self.rules, yes=self.yes)

    def words(self) -> list[str]:
        """The options as they were written, for a line that goes on with the same."""
        said: list[str] = ["-m", self.model] if self.model else []
        for name in ("environment", "max_depth", "max_iterations", "max_budget", "max_tokens", "max_timeout"):
            if (value := getattr(self, name)) is not None:
                said += [f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
        for option, values in (("--sub", self.sub), ("--tools", self.tools), ("--rule", self.rules)):
            said += [word for value in values for word in (option, value)]
        return said


_OF_SETTINGS = ("environment", "max_depth", "max_iterations", "max_budget", "max_tokens", "max_timeout")
_POSITIVE = click.FloatRange(0, min_open=True)

_OPTIONS = (
    click.option(
        "--sub",
        multiple=True,
        metavar="MODEL",
        shell_complete=complete_models,
        help="A model that the code may ask; can be given several times. Default: sub_models, or the code's own model.",
    ),
    click.option(
        "--environment", type=click.Choice(get_args(Kind)), help="The sandbox in which the code runs. Default: monty."
    ),
    click.option(
        "--max-depth", type=click.IntRange(1), metavar="N", help="The maximum depth of rlm_query. Default: 1."
    ),
    click.option(
        "--max-iterations", type=click.IntRange(1), metavar="N", help="The maximum number of turns. Default: 30."
    ),
    click.option("--max-budget", type=_POSITIVE, metavar="USD", help="The total budget in US dollars."),
    click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="The total budget in tokens."),
    click.option("--max-timeout", type=_POSITIVE, metavar="SECONDS", help="The total time in seconds."),
    click.option(
        "--log", type=click.Path(path_type=Path), metavar="DIR", help="Write a trajectory (JSONL) to this file."
    ),
    click.option(
        "--report", type=click.Path(path_type=Path), metavar="FILE", help="Write the run as a web page to this file."
    ),
    click.option("--code", is_flag=True, help="Show the code as it runs."),
    click.option(
        "--tools",
        multiple=True,
        metavar="WHERE",
        help="FILE.py, FILE.toml, MODULE or MODULE:NAME: tools that the code may call; can be given several times. The"
        " tools of handrail.toml are not included.",
    ),
)


def exploring(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command these options as an `RlmOptions`, after its `CliSetup`."""

    def with_exploring(setup: CliSetup, **options: Any) -> None:
        asked = RlmOptions(**{each.name: options.pop(each.name) for each in fields(RlmOptions)})
        function(setup, asked, **options)

    functools.update_wrapper(with_exploring, function)
    made = configured(with_exploring)
    options: list[Callable[[Any], Any]] = [with_rule_and_yes, *reversed(_OPTIONS), with_model]
    for option in options:
        made = option(made)
    return made
