"""`handrail eval`: your own cases with your own tools for every model, and a table of what each did."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from handrail.app import AllowAll, App, AppAdditions, model_names, open_app, open_model
from handrail.cli import text
from handrail.cli.evaluate.cases import EvalCase, EvalFile, read_cases
from handrail.cli.evaluate.judge import EvalVerdict, judge_case
from handrail.cli.lazy_groups import cli_command, one_line
from handrail.cli.output.live_run import arguments_line
from handrail.cli.output.view import answer, answer_json, columns, table, tell, with_output_file
from handrail.cli.run_options import CliSetup, complete_models, configured, with_tools
from handrail.cli.terminal.person import terminal_person
from handrail.core.errors import HandrailError, UsageError

_CASES = columns("case", "model", "right", "tool", "arguments", "answer", "cost", "time", right=("cost", "time"))
_MODELS = columns("model", "right", "tokens", "cost", "time", right=("right", "tokens", "cost", "time"))
_WIDE = 40


@cli_command(
    "eval",
    "handrail eval cases.toml",
    "handrail eval cases.toml -m ollama:llama3.2 -m openai:gpt-5 --tools tools.py",
    "handrail eval cases.toml --case refund --failures",
    "handrail eval cases.toml --json | jq 'select(.right | not)'",
)
@click.argument("cases", type=click.Path(path_type=Path))
@click.option(
    "-m",
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    shell_complete=complete_models,
    help="A model to use instead of those in the file; can be given several times.",
)
@click.option("--case", "only", multiple=True, metavar="ID", help="Only this case; can be given several times.")
@click.option("--failures", is_flag=True, help="Also show what was expected where a case failed.")
@with_tools
@configured
@with_output_file
def command(
    setup: CliSetup, cases: Path, models: tuple[str, ...], only: tuple[str, ...], failures: bool, tools: tuple[str, ...]
) -> None:
    """Run your own test cases with several models.

    CASES is a TOML or JSON file with the prompts, the expected calls, and words that a right answer contains. Each case
    is a whole run with your tools. Tools that only read run. Tools with side effects do not run: they answer what the
    file states under [results], or "done". The exit code is 1 if a case failed.
    """
    file = _some(read_cases(cases), only, cases)
    named = models or file.models or model_names(setup.config)
    verdicts = asyncio.run(_evaluate(setup, file, named, AppAdditions(tools=tools)))
    if setup.view.as_json:
        for each in verdicts:
            answer_json({"right": each.right, **text.builtins(each)})
    else:
        _print(verdicts, named)
        _print_problems(verdicts, file, failures)
    if not all(each.right for each in verdicts):
        raise click.exceptions.Exit(1)


def _some(file: EvalFile, only: tuple[str, ...], path: Path) -> EvalFile:
    known = [case.id for case in file.case]
    for id in only:
        if id not in known:
            raise UsageError(f"{path}: has no case {id!r}; the cases are: {', '.join(known)}")
    kept = tuple(case for case in file.case if not only or case.id in only)
    return EvalFile(kept, file.models, file.system, file.results)


async def _evaluate(setup: CliSetup, file: EvalFile, models: Iterable[str], wanted: AppAdditions) -> list[EvalVerdict]:
    verdicts: list[EvalVerdict] = []
    # The record of a trial is no record of what was done: it goes when the command ends.
    with tempfile.TemporaryDirectory(prefix="handrail-eval-") as folder:
        journal = Path(folder) / "journal.db"
        async with open_app(setup.config, journal, wanted, lambda _: AllowAll("a trial"), terminal_person()) as app:
            _check_names(file, app)
            for name in models:
                verdicts += await _ask_all(setup, name, file, app)
    return verdicts


def _check_names(file: EvalFile, app: App) -> None:
    """A misspelt tool would be a case that no model gets right."""
    wanted = {call.tool for case in file.case for call in case.calls or ()} | file.results.keys()
    for name in sorted(wanted):
        if name not in app.tools:
            there = ", ".join(tool.name for tool in app.tools)
            raise UsageError(f"the cases name a tool {name!r} that does not exist; the tools are: {there or 'none'}")


async def _ask_all(setup: CliSetup, name: str, file: EvalFile, app: App) -> list[EvalVerdict]:
    """One that cannot be reached is not asked on and on."""
    done: list[EvalVerdict] = []
    try:
        async with open_model(setup.config, name) as llm:
            for case in file.case:
                done.append(await judge_case(name, llm, app, file, case))
    except HandrailError as error:
        done += [EvalVerdict(case=each.id, model=name, problem=one_line(error)) for each in file.case[len(done) :]]
    return done


def _print(verdicts: Sequence[EvalVerdict], models: Iterable[str]) -> None:
    table(_CASES, [_row(each) for each in verdicts])
    answer()
    table(_MODELS, [_total(name, [each for each in verdicts if each.model == name]) for name in models])


def _row(each: EvalVerdict) -> tuple[str, ...]:
    tools = ", ".join(call.name for call in each.calls)
    arguments = "; ".join(arguments_line(call.arguments) for call in each.calls)
    said = each.problem or each.answer
    shown = (text.printable(text.short(" ".join(part.split()), _WIDE)) or "-" for part in (tools, arguments, said))
    right = "yes" if each.right else "no"
    return text.printable(each.case), text.printable(each.model), right, *shown, _cost(each.cost), _time(each.seconds)


def _total(name: str, of: Sequence[EvalVerdict]) -> tuple[str, ...]:
    costs = [each.cost for each in of if each.cost is not None]
    tokens = sum(each.input_tokens + each.output_tokens for each in of)
    right = f"{sum(each.right for each in of)}/{len(of)}"
    cost = _cost(sum(costs) if costs else None)
    return text.printable(name), right, text.dashed(tokens), cost, _time(sum(each.seconds for each in of))


def _cost(dollars: float | None) -> str:
    return "-" if dollars is None else f"${dollars:.4f}"


def _time(seconds: float) -> str:
    return text.duration_text(int(seconds * 1e6)) if seconds else "-"


def _unnamed(case: EvalCase, found: EvalVerdict) -> list[str]:
    """Arguments that a case leaves out of a call whose arguments it judges."""
    judged = {call.tool: call.arguments for call in case.calls or () if call.arguments is not None}
    given = [(call.name, name) for call in found.calls if isinstance(call.arguments, dict) for name in call.arguments]
    return list(dict.fromkeys(name for tool, name in given if tool in judged and name not in judged[tool]))


def _print_problems(verdicts: Iterable[EvalVerdict], file: EvalFile, failures: bool) -> None:
    cases = {case.id: case for case in file.case}
    for each in verdicts:
        where = f"{text.printable(each.model)} {text.printable(each.case)}"
        if each.problem:
            tell(f"{where}: {text.printable(each.problem)}")
        if failures and each.right_calls is False:
            wanted = [
                f"{call.tool} {arguments_line(call.arguments or {})}".strip() for call in cases[each.case].calls or ()
            ]
            did = [f"{call.name} {arguments_line(call.arguments)}" for call in each.calls]
            more = "".join(f"; the case does not say what {name!r} may be" for name in _unnamed(cases[each.case], each))
            tell(f"{where}: expected {', '.join(wanted) or 'no call'}; got {', '.join(did) or 'no call'}{more}")
        if failures and each.right_answer is False:
            tell(f"{where}: expected {', '.join(map(repr, cases[each.case].words))} in: {text.printable(each.answer)}")
