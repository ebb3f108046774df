"""`handrail ask`: one question to a model, with tools."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import with_output_file
from handrail.cli.run_options import CliSetup, RunOptions, files_option, with_run_options
from handrail.core.errors import UsageError

if TYPE_CHECKING:
    from handrail.core.messages import Conversation


@cli_command(
    "ask",
    "handrail ask --tools tools.py 'What is the weather in Lisbon?'",
    "handrail ask -m openai:gpt-5 --rule 'allow write_file path=docs/**' 'Write a summary of README.md'",
    "handrail ask 'What does this change?' < changes.diff",
    "handrail ask --json 'What is 2 + 2?' | jq -r 'select(.type == \"result\") | .text'",
)
@click.argument("question", nargs=-1)
@click.option("--system", metavar="TEXT", help="The system prompt.")
@files_option
@with_run_options
@with_output_file
def command(
    setup: CliSetup, chosen: RunOptions, question: tuple[str, ...], system: str | None, files: Path | None
) -> None:
    """Ask a model a question, with tools.

    The answer goes to stdout, followed by the sources that it cites. Calls, questions and the id of the run go to
    stderr. Before a tool changes something, you are asked on a terminal; without a terminal the call waits, and one
    line says how to allow it. Text on stdin is given to the model together with the QUESTION. The journal records
    everything, so an interrupted run can be resumed. With --json, every event is one line, and the last line is the
    result: the text, the run, the tokens and the calls that wait.
    """
    from handrail.cli.run_driver import drive_run
    from handrail.core.ids import new_id

    drive_run(setup, chosen, new_id("run"), _conversation(" ".join(question), system), files=files)


def _conversation(question: str, system: str | None) -> Conversation:
    piped = "" if sys.stdin.isatty() else sys.stdin.read()
    if not question:
        question, piped = piped, ""
    if not question.strip():
        raise UsageError("there is no question; write one: handrail ask 'What is 2 + 2?'")
    from handrail.core.messages import Conversation, DocumentMessage

    conversation = Conversation() if system is None else Conversation().supervised(system)
    if piped.strip():
        conversation = conversation.add(DocumentMessage("standard input", piped))
    return conversation.say(question)
