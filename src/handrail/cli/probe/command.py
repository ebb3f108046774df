"""`handrail probe`: the same tool prompts to every model, and a table of what each made of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import get_args

import click

from handrail.app import model_names, open_model
from handrail.cli import text
from handrail.cli.lazy_groups import cli_command, one_line
from handrail.cli.output.live_run import arguments_line
from handrail.cli.output.view import answer_json, columns, table, tell, with_output_file
from handrail.cli.probe.cases import Kind, ProbeSuite, load_suite
from handrail.cli.probe.judge import ProbeScore, ProbeVerdict, probe_model
from handrail.cli.run_options import CliSetup, configured
from handrail.core.errors import HandrailError

_COLUMNS = columns(
    "model",
    "right",
    "well-formed",
    "right tool",
    "right arguments",
    "no tool",
    "median",
    right=("right", "well-formed", "right tool", "right arguments", "no tool", "median"),
)
_SHARES = ("well_formed", "right_tool", "right_arguments", "no_tool")


@cli_command(
    "probe",
    "handrail probe",
    "handrail probe local ollama:llama3.2 openai:gpt-5",
    "handrail probe local --kind none --failures",
    "handrail probe --json | jq '{model, right}'",
)
@click.argument("models", nargs=-1)
@click.option("--kind", "kinds", type=click.Choice(get_args(Kind)), multiple=True, help="Only cases of this kind.")
@click.option("--failures", is_flag=True, help="Also show what went wrong in each failed case.")
@configured
@with_output_file
def command(setup: CliSetup, models: tuple[str, ...], kinds: tuple[str, ...], failures: bool) -> None:
    """Send the same tool prompts to several models, and compare.

    There are forty cases: choosing a tool, its arguments, needing no tool, several calls at once, continuing after an
    error. The tools do nothing. A call is well formed if it names a tool that was offered and its arguments are JSON
    that fits the schema, as the usual validator decides. Without MODELS, all configured models are tried.
    """
    suite = _some(load_suite(), kinds)
    scores = [_score(setup, name, suite) for name in models or model_names(setup.config)]
    if setup.view.as_json:
        for score in scores:
            answer_json(_score_as_json(score))
    else:
        table(_COLUMNS, [_row(score, len(suite.case)) for score in scores])
        for score in scores:
            _print_failures(score, failures)
    if any(score.problem for score in scores):
        raise click.exceptions.Exit(1)


def _some(suite: ProbeSuite, kinds: tuple[str, ...]) -> ProbeSuite:
    return ProbeSuite(suite.tools, tuple(case for case in suite.case if not kinds or case.kind in kinds))


def _score(setup: CliSetup, name: str, suite: ProbeSuite) -> ProbeScore:
    try:
        return asyncio.run(_probe(setup, name, suite))
    except HandrailError as error:
        return ProbeScore(model=name, problem=one_line(error))


async def _probe(setup: CliSetup, name: str, suite: ProbeSuite) -> ProbeScore:
    async with open_model(setup.config, name) as llm:
        return await probe_model(name, llm, suite, _progress(name, len(suite.case)))


def _progress(name: str, total: int) -> Callable[[ProbeVerdict], None]:
    """A line that counts, on a terminal."""
    done = 0

    def heard(verdict: ProbeVerdict) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            click.echo(f"\r\x1b[K{text.printable(name)} {done}/{total}", nl=done == total, err=True)

    return heard


def _row(score: ProbeScore, total: int) -> tuple[str, ...]:
    shares = [f"{so}/{asked}" if asked else "-" for so, asked in map(score.share, _SHARES)]
    seconds = text.duration_text(int(score.seconds * 1e6)) if score.verdicts else "-"
    return text.printable(score.model), f"{score.right}/{total}", *shares, seconds


def _score_as_json(score: ProbeScore) -> dict[str, object]:
    shares = {name: dict(zip(("so", "asked"), score.share(name), strict=True)) for name in _SHARES}
    summary = {"model": score.model, "right": score.right, "cases": len(score.verdicts), **shares}
    cases = [{**text.builtins(each), "right": each.right} for each in score.verdicts]
    return {**summary, "median_seconds": score.seconds, "problem": score.problem, "verdicts": cases}


def _print_failures(score: ProbeScore, failures: bool) -> None:
    if score.problem:
        tell(f"{text.printable(score.model)} did not finish the cases: {text.printable(score.problem)}")
    for each in score.verdicts if failures else ():
        if not each.right:
            did = ", ".join(f"{call.name} {arguments_line(call.arguments)}" for call in each.calls) or "no call"
            why = f" ({each.problem})" if each.problem else ""
            tell(f"{text.printable(score.model)} {each.case}: {text.printable(did + why)}")
