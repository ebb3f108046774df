"""`handrail confirm list`, `allow`, `deny` and `settle`: the calls that wait for a person, or are in doubt."""

from __future__ import annotations

import asyncio
import sys

import click

from handrail.cli import text
from handrail.cli.complete import calls, requests, runs
from handrail.cli.confirm import answers
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import (
    CommandView,
    ask,
    columns,
    is_terminal,
    table,
    tell,
    with_common_options,
    with_output_file,
)
from handrail.core.calls import JSON, Problem, ToolResult
from handrail.core.errors import UsageError
from handrail.core.events import ConfirmationRequested
from handrail.core.jsontext import JSONTextError, parse
from handrail.journal.summaries import CallRecord

_COLUMNS = columns("request", "asked", "tool", "arguments", "run", cut="arguments")


@cli_command("list", "handrail confirm list", "handrail confirm list --json | jq -r .request")
@with_common_options
@with_output_file
def list_requests(view: CommandView) -> None:
    """List the calls that wait for approval, oldest first."""
    with view.reader() as reader:
        waiting = reader.pending()
        runs = view.ids([run.run for run in reader.runs()])
    if view.wrote_json(*waiting):
        return
    if not waiting:
        tell("No call waits for approval.")
        return
    requests = view.ids([question.request for question in waiting])
    table(_COLUMNS, [_row(view, each, requests[each.request], runs[each.run]) for each in waiting])
    if is_terminal():
        tell("Answer with: handrail confirm allow REQUEST, or handrail confirm deny REQUEST")


def _row(view: CommandView, question: ConfirmationRequested, request: str, run: str) -> tuple[str, ...]:
    arguments = "[erased]" if question.arguments is None else text.inline(question.arguments, 100)
    return (
        text.printable(request),
        view.when(question.at),
        text.printable(question.tool),
        arguments,
        text.printable(run),
    )


@cli_command("allow", "handrail confirm allow confirm_0193", "handrail confirm allow confirm_0193 --by ada --yes")
@click.argument("request", shell_complete=requests)
@click.option("--by", metavar="NAME", help="The name on record. Default: your login name.")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
@with_common_options
def allow(view: CommandView, request: str, by: str | None, yes: bool) -> None:
    """Allow the call of this REQUEST to run once, with exactly the arguments shown.

    On a terminal you see the arguments and are asked. The call runs at once if its program is waiting; otherwise it
    runs when the program makes the call again.
    """
    question = answers.find(view, request)
    answers.describe(view, question)
    question.refuse_unseen()
    if not yes and sys.stdin.isatty() and not ask("Allow it?"):
        tell("Nothing was decided; the request still waits.")
        raise click.exceptions.Exit(1)
    said = answers.give(view.path, question.asked, "allow", by or answers.login_name())
    view.reply(said, f"allowed by {text.printable(said.by)}; it runs when its program asks for it again")


@cli_command(
    "deny", "handrail confirm deny confirm_0193", "handrail confirm deny confirm_0193 --by ada --reason 'wrong account'"
)
@click.argument("request", shell_complete=requests)
@click.option("--by", metavar="NAME", help="The name on record. Default: your login name.")
@click.option("--reason", default="", metavar="TEXT", help="The reason, which the model reads.")
@with_common_options
def deny(view: CommandView, request: str, by: str | None, reason: str) -> None:
    """Deny the call of this REQUEST. It does not run, and the model is told not to repeat it."""
    question = answers.find(view, request)
    answers.describe(view, question)
    said = answers.give(view.path, question.asked, "deny", by or answers.login_name(), reason)
    view.reply(said, f"denied by {text.printable(said.by)}; it will not run")


@cli_command(
    "settle",
    "handrail confirm settle run_0193 call_4f --ran 'paid 5 to ada'",
    "handrail confirm settle run_0193 call_4f --not-run --by ada",
)
@click.argument("run", shell_complete=runs)
@click.argument("call", shell_complete=calls)
@click.option("--ran", metavar="RESULT", help="The call took effect, and this is its result: JSON or text.")
@click.option("--not-run", is_flag=True, help="The call did not take effect. The model may make it again.")
@click.option("--by", metavar="NAME", help="The name on record. Default: your login name.")
@with_common_options
def settle_call(view: CommandView, run: str, call: str, ran: str | None, not_run: bool, by: str | None) -> None:
    """Say whether a CALL took effect that was running when its program ended.

    Check this first, for example in the service that the tool calls. Your answer is written to the journal and becomes
    the result of the call when you resume the RUN. Without an answer the model is told that the call is in doubt.
    """
    if (ran is None) is not not_run:
        raise UsageError("say what became of the call: either --ran RESULT or --not-run")
    with view.reader() as reader:
        run = resolve_id(run, (each.run for each in reader.runs()), "run")
        doubtful = {each.call_id: each for each in reader.calls(run) if each.in_doubt}
    found = doubtful[resolve_id(call, doubtful, "call in doubt")]
    from handrail.journal.person_answers import settle  # it loads the journal, which other commands do not need

    result = _result(found, ran, by or answers.login_name())
    said = asyncio.run(settle(view.path, run, found.tool, result))
    view.reply(
        said,
        f"{text.printable(said.call_id)} is settled: {said.outcome};"
        f" continue with: handrail resume {text.printable(run)}",
    )


def _result(call: CallRecord, ran: str | None, by: str) -> ToolResult:
    name = call.tool.rpartition(":")[2]
    looked = f"{by} checked what became of it, after the program had ended"
    if ran is None:
        said = f"it did not run: {looked}; it may be called again"
        return ToolResult(call.call_id, name, said, "cancelled", Problem("cancelled", said))
    return ToolResult(call.call_id, name, _value(ran), warnings=(looked,))


def _value(written: str) -> JSON:
    try:
        return parse(written)
    except JSONTextError:
        return written
