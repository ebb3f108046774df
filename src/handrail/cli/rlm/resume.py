"""`handrail rlm resume`: going on with a question that was cut off, or that waited for a person's word."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli import complete, text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import answer, answer_json, tell
from handrail.cli.resume import read_run_record
from handrail.cli.rlm.context_option import context_of, with_context
from handrail.cli.rlm.options import RlmOptions, exploring
from handrail.cli.rlm.report_page import check_page_path, write_page
from handrail.cli.rlm.run_driver import drive_rlm_run
from handrail.cli.rlm.run_kind import is_rlm_run
from handrail.cli.run_options import CliSetup
from handrail.core.errors import UsageError
from handrail.core.messages import Conversation, UserMessage
from handrail.rlm.outcome import answer_in
from handrail.rlm.prompts import question_in
from handrail.run.history import conversation_of


@click.command(
    "resume",
    epilog=examples(
        "handrail rlm resume run_0193 --context book.txt",
        "handrail rlm resume run_0193 --context logs/ -m openai:gpt-5 --max-budget 2",
    ),
)
@click.argument("run", shell_complete=complete.runs)
@with_context("The same files and directories as before; - is stdin; can be given several times.")
@exploring
def command(setup: CliSetup, exploring: RlmOptions, run: str, contexts: tuple[Path, ...]) -> None:
    """Go on with a question that was cut off, or that waited for a person.

    Nothing that was asked or called before is asked or called again. Give the same context, models, tools and
    environment as before; the limits may be others, and count what was spent before. A call that has been allowed in
    the meantime runs now. A RUN that has its answer gives it again, and needs no context for that.
    """
    run, events = read_run_record(setup.view, run)
    if not is_rlm_run(run, events):
        raise UsageError(f"run {run!r} is none of handrail rlm; take it up with: handrail resume {run}")
    conversation = conversation_of(events)
    if (answered := answer_in(conversation)) is not None:
        _tell_again(setup, exploring, run, answered)
        return
    context = context_of(contexts) if contexts else None
    drive_rlm_run(setup, exploring, _question(conversation), context, run=run, files=contexts, again=True)


def _question(conversation: Conversation) -> str:
    said = (message.text for message in conversation.messages if isinstance(message, UserMessage))
    return question_in(next(said, ""))


def _tell_again(setup: CliSetup, exploring: RlmOptions, run: str, answered: str) -> None:
    if exploring.report is not None:
        check_page_path(exploring.report)
    tell(f"Run {text.printable(run)} has its answer; this was it:")
    if setup.view.as_json:
        answer_json({"type": "rlm.completion", "run": run, "response": answered, "partial": False})
    else:
        answer(text.printable_lines(answered))
    if exploring.report is not None:
        write_page(setup.view, run, exploring.report)
        tell(f"The page of it is {text.printable(str(exploring.report))}")
