"""`handrail what-if`: recorded runs against another model, prompt or policy, with effects shut."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click

from handrail.app import AppAdditions, open_app, open_model
from handrail.cli import complete, text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.live_run import arguments_line
from handrail.cli.output.view import answer_json, columns, table, tell, with_output_file
from handrail.cli.resume import is_rlm_run, read_run_record
from handrail.cli.run_driver import tools_of_run
from handrail.cli.run_options import CliSetup, complete_models, configured, with_tools
from handrail.cli.terminal.person import terminal_person
from handrail.cli.what_if.divergence import Alternative, TurnComparison, compare_turn
from handrail.cli.what_if.recorded_run import RecordedPerson, RecordedRun, TurnCall, read_turns
from handrail.config.load import load_config
from handrail.core.errors import UsageError
from handrail.execute.executor import Executor
from handrail.execute.policy import Policy
from handrail.execute.rules import Rule, Rules
from handrail.execute.spill import READ_OUTPUT
from handrail.tools.registry import RegisteredTools, registered

_COLUMNS = columns("run", "turn", "recorded", "now", "diverges", right=("turn",))
_WIDE = 48


@cli_command(
    "what-if",
    "handrail what-if --run run_0193 -m openai:gpt-5",
    "handrail what-if --run run_0193 --run run_0194 --rules stricter.rules",
    "handrail what-if --run run_0193 --system 'Always look before you answer.' -m local",
    "handrail what-if --run run_0193 -m local --json | jq 'select(.diverges)'",
)
@click.option(
    "--run", "runs", multiple=True, required=True, metavar="RUN", shell_complete=complete.runs, help="A recorded run."
)
@click.option(
    "-m",
    "--model",
    metavar="MODEL",
    shell_complete=complete_models,
    help="The model to ask. Without it, the recorded replies are used.",
)
@click.option("--system", metavar="TEXT", help="Another system prompt. Requires a model.")
@click.option(
    "--rules",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Rules to use instead of the configured ones, one per line; or a .toml with the rules and the policy of a"
    " configuration.",
)
@with_tools
@configured
@with_output_file
def command(
    setup: CliSetup,
    runs: tuple[str, ...],
    model: str | None,
    system: str | None,
    rules: Path | None,
    tools: tuple[str, ...],
) -> None:
    """Replay recorded runs with another model, prompt or policy.

    It shows where they diverge. The model gets each turn with everything before it as recorded, and its calls are
    checked, authorised and compared with the rules. No tool runs, and nothing is written to the journal. A call
    diverges if the model makes another call, or if a call that ran would be refused now, or the reverse. Where no rule
    decides, the recorded decision of the person counts. The exit code is 1 if calls or their outcomes diverge; an
    answer in other words is only reported.
    """
    if system is not None and model is None:
        raise UsageError("another prompt needs a model to read it; name one with -m MODEL")
    recorded = [_read(setup, run) for run in runs]
    policy, decided = _policy(setup, rules)
    compared = asyncio.run(_compare(setup, recorded, model, system, policy, decided, AppAdditions(tools=tools)))
    if setup.view.as_json:
        for each in compared:
            answer_json(each)
    else:
        table(_COLUMNS, [_row(setup, each) for each in compared])
        _print_first(compared)
    if any(each.is_failure for each in compared):
        raise click.exceptions.Exit(1)


def _read(setup: CliSetup, given: str) -> RecordedRun:
    run, events = read_run_record(setup.view, given)
    if is_rlm_run(run, events):
        raise UsageError(f"run {run!r} is one of handrail rlm, whose turns are code; this command cannot replay it")
    found = read_turns(run, events)
    if not found.turns:
        raise UsageError(f"no model replied in run {run!r}, so there is nothing to compare")
    return found


def _policy(setup: CliSetup, file: Path | None) -> tuple[Policy, tuple[Rule, ...]]:
    """The policy and the rules to try: those of the file, or else the configured ones.

    Raises:
        UsageError: The file cannot be read, or has something else than rules.
    """
    if file is None:
        return setup.config.policy, setup.config.rules
    if file.suffix == ".toml":
        other = load_config(file)
        return other.policy, other.rules
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"the rules {str(file)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"the rules {str(file)!r} are no text: {error}") from error
    written = (line.partition("#")[0].strip() for line in lines)
    return setup.config.policy, tuple(Rule.parse(line) for line in written if line)


async def _compare(
    setup: CliSetup,
    recorded: Sequence[RecordedRun],
    model: str | None,
    system: str | None,
    policy: Policy,
    rules: tuple[Rule, ...],
    wanted: AppAdditions,
) -> list[TurnComparison]:
    found: list[TurnComparison] = []
    async with AsyncExitStack() as stack:
        # What did not happen is in no record that stays.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="handrail-what-if-")))
        llm = None if model is None else await stack.enter_async_context(open_model(setup.config, model))
        app = await stack.enter_async_context(
            open_app(setup.config, folder / "journal.db", wanted, person=terminal_person())
        )
        for each in recorded:
            tools = _tools_of(each, app.tools)
            if tools_of_run(each.events) != tools.digest:
                tell(f"Run {text.printable(each.run)} had other tools; give the same ones with --tools.")
            approver = Rules(rules, RecordedPerson(each.events))
            async with Executor(tools, policy=policy, approver=approver, journal=app.journal) as executor:
                other = Alternative(executor, setup.config.offering, llm, system)
                found += [await compare_turn(each, number, other) for number in range(len(each.turns))]
    return found


def _tools_of(run: RecordedRun, tools: RegisteredTools) -> RegisteredTools:
    """The tools that a run had. A very small model had all but the one that reads on in long outputs."""
    fewer = registered(*(tool for tool in tools if tool.name != READ_OUTPUT))
    return fewer if tools_of_run(run.events) == fewer.digest else tools


def _row(setup: CliSetup, each: TurnComparison) -> tuple[str, ...]:
    run = setup.view.ids((each.run,))[each.run]
    now = text.printable(text.short(each.problem, _WIDE)) if each.problem else _turn_in_words(each.calls, each.text)
    then = _turn_in_words(each.recorded_calls, each.recorded_text)
    return text.printable(run), str(each.turn), then, now, each.diverges or "-"


def _turn_in_words(calls: Sequence[TurnCall], words: str) -> str:
    """The calls of a turn with what became of them; without any, its words."""
    told = "; ".join(_call(each) for each in calls) or " ".join(words.split()) or "-"
    return text.printable(text.short(told, _WIDE))


def _call(call: TurnCall) -> str:
    made = f"{call.tool} {arguments_line(call.arguments)}".strip()
    return f"{made}: {call.outcome}" if call.outcome else made


def _print_first(compared: Iterable[TurnComparison]) -> None:
    """Prints, for each run, the first place where it diverges, in full."""
    seen: set[str] = set()
    for each in compared:
        if each.is_failure and each.run not in seen:
            seen.add(each.run)
            then = "; ".join(map(_call, each.recorded_calls)) or f"the answer {each.recorded_text!r}"
            now = each.problem or "; ".join(map(_reason, each.calls)) or f"the answer {each.text!r}"
            tell(f"{text.printable(each.run)} first diverges at turn {each.turn}: recorded {text.printable(then)}")
            tell(f"  now {text.printable(now)}")


def _reason(call: TurnCall) -> str:
    return f"{_call(call)} ({call.words})" if call.words else _call(call)
