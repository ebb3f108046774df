"""`handrail tools call`: one call by hand, through the executor and into the journal like any other."""

from __future__ import annotations

import asyncio
import sys

import click

from handrail.app import open_app
from handrail.cli import complete, text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.live_run import LiveRunPrinter
from handrail.cli.output.view import answer, answer_json, tell, with_output_file
from handrail.cli.resume import is_rlm_run, read_run_record
from handrail.cli.run_options import CliSetup, RunOptions, configured, with_rule_and_yes, with_tools
from handrail.cli.tools.offered import tool_by_name
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.core.events import CallIntended, CallSettled, ConfirmationRequested, Event, Recorded
from handrail.core.ids import new_id
from handrail.run.history import conversation_of
from handrail.tools.tool import Tool


@cli_command(
    "call",
    'handrail tools call add \'{"a": 1, "b": 2}\' --tools tools.py',
    'handrail tools call pay \'{"to": "ada", "amount": 5}\' --tools tools.py --yes',
)
@click.argument("name")
@click.argument("arguments", metavar="JSON", default="{}")
@click.option(
    "--run",
    metavar="RUN",
    shell_complete=complete.runs,
    help="Make the call that waited in this run, after it was approved.",
)
@with_tools
@with_rule_and_yes
@configured
@with_output_file
def command(
    setup: CliSetup,
    name: str,
    arguments: str,
    run: str | None,
    tools: tuple[str, ...],
    rules: tuple[str, ...],
    yes: bool,
) -> None:
    """Call the tool NAME with these arguments; `-` reads them from stdin.

    The arguments are checked like those of a model. The result goes to stdout; exit code 1 means that there is none. If
    nobody can be asked about a side effect, the call waits for handrail confirm; repeat it with --run after the
    approval.
    """
    written = sys.stdin.read() if arguments == "-" else arguments
    chosen = RunOptions(None, tools, rules, yes)
    before: list[Recorded] = []
    if run is None:
        run = new_id("run")
    else:
        run, before = read_run_record(setup.view, run)
    result = asyncio.run(_call(setup, chosen, name, written, run, before))
    if setup.view.as_json:
        answer_json(result.to_dict())
    elif not result.is_error:
        answer(text.spread(result.content))
    if result.is_error:
        if not setup.view.as_json:
            tell(f"{result.outcome}: {text.printable_lines(result.text.removeprefix(f'{result.outcome}: '))}")
        if result.outcome == "invalid_arguments":
            tell(f"Give the arguments as one JSON object; this lists them: handrail tools show {text.printable(name)}")
        if result.outcome == "needs_confirmation":
            tell(
                "Allow it with handrail confirm allow REQUEST, and make the same call with"
                f" --run {text.printable(run)}; or allow it here, with --yes or --rule."
            )
        raise click.exceptions.Exit(1)


async def _call(
    setup: CliSetup, chosen: RunOptions, name: str, written: str, run: str, before: list[Recorded]
) -> ToolResult:
    live = LiveRunPrinter(as_json=False)

    async def beside(event: Event) -> None:
        if not setup.view.as_json and not isinstance(event, CallIntended | CallSettled):  # the result is the answer
            await live(event)

    wanted, person = chosen.wanted(setup.config), chosen.person()
    async with open_app(setup.config, setup.journal, wanted, chosen.ask(), person) as app:
        tool = tool_by_name(app.tools, name)
        call = ToolCall(_asked_about(run, before, tool) if before else "", name, written)
        result = await app.executor.invoke(call, Context(run=run), beside)
        if result.outcome != "needs_confirmation":
            await app.executor.finish(run)
    tell(f"run {text.printable(run)}")
    return result


def _asked_about(run: str, events: list[Recorded], tool: Tool) -> str:
    """The call of this tool that waited in a run: a word is good for that call, and for no other.

    Raises:
        UsageError: None did, or it is a model's, which has to hear of the result.
    """
    if conversation_of(events) or is_rlm_run(run, events):
        raise UsageError(f"the calls of run {run!r} were made by a model; continue with: handrail resume {run}")
    for event in reversed(events):
        if isinstance(event, ConfirmationRequested) and event.tool == tool.scoped_name:
            return event.call_id
    raise UsageError(f"nobody was asked about {tool.scoped_name!r} in run {run!r}; leave out --run for a new call")
