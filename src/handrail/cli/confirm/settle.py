"""`handrail confirm settle`: what a person found out about a call in doubt."""

from __future__ import annotations

import asyncio

import click

from handrail.cli import text
from handrail.cli.complete import calls, runs
from handrail.cli.confirm import answers
from handrail.cli.ids import resolve_id
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import CommandView, answer, answer_json, with_common_options
from handrail.core.calls import JSON, Problem, ToolResult
from handrail.core.errors import UsageError
from handrail.core.jsontext import JSONTextError, parse
from handrail.journal.summaries import CallRecord


@click.command(
    "settle",
    epilog=examples(
        "handrail confirm settle run_0193 call_4f --ran 'paid 5 to ada'",
        "handrail confirm settle run_0193 call_4f --not-run --by ada",
    ),
)
@click.argument("run", shell_complete=runs)
@click.argument("call", shell_complete=calls)
@click.option("--ran", metavar="RESULT", help="It took effect, and this is its result: JSON, or else text.")
@click.option("--not-run", is_flag=True, help="It did not take effect. The model may call it again.")
@click.option("--by", metavar="NAME", help="Who says so. Default: your login name.")
@with_common_options
def command(view: CommandView, run: str, call: str, ran: str | None, not_run: bool, by: str | None) -> None:
    """Say what became of a CALL that was under way when its program ended, after you have looked.

    The answer is written to the journal, and is the call's result when the RUN is taken up with handrail resume.
    Without it the model is told that the call is in doubt.
    """
    if (ran is None) is not not_run:
        raise UsageError("say what became of the call: either --ran RESULT or --not-run")
    with view.reader() as reader:
        run = resolve_id(run, (each.run for each in reader.runs()), "run")
        doubtful = {each.call_id: each for each in reader.calls(run) if each.in_doubt}
    found = doubtful[resolve_id(call, doubtful, "call in doubt")]
    from handrail.journal.answering import settle  # it loads the journal, which other commands do not need

    result = _result(found, ran, by or answers.login_name())
    said = asyncio.run(settle(view.path, run, found.tool, result))
    if view.as_json:
        answer_json(said)
        return
    answer(
        f"{text.printable(said.call_id)} is settled: {said.outcome}; go on with: handrail resume {text.printable(run)}"
    )


def _result(call: CallRecord, ran: str | None, by: str) -> ToolResult:
    name = call.tool.rpartition(":")[2]
    looked = f"{by} looked what became of it, after the program had ended"
    if ran is None:
        said = f"it did not run: {looked}; it may be called again"
        return ToolResult(call.call_id, name, said, "cancelled", Problem("cancelled", said))
    return ToolResult(call.call_id, name, _value(ran), warnings=(looked,))


def _value(written: str) -> JSON:
    try:
        return parse(written)
    except JSONTextError:
        return written
