"""`handrail rlm ask` and `resume`: a question over files of any size, and going on with one that was cut off."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import click

from handrail.cli import complete, text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.view import tell
from handrail.cli.resume import is_rlm_run, read_run_record
from handrail.cli.rlm.options import RlmOptions, exploring
from handrail.cli.rlm.report import check_page_path, write_page
from handrail.cli.rlm.run_driver import drive_rlm_run
from handrail.cli.run_options import CliSetup
from handrail.core.errors import UsageError
from handrail.core.ids import new_id
from handrail.core.messages import Conversation, UserMessage
from handrail.rlm.contexts.load import Files
from handrail.rlm.outcome import answer_in
from handrail.rlm.prompts import question_in
from handrail.run.history import conversation_of

STDIN = Path("-")


def with_context(says: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command `--context` as `contexts`."""
    return click.option(
        "--context",
        "contexts",
        multiple=True,
        type=click.Path(exists=True, allow_dash=True, path_type=Path),
        metavar="PATH",
        help=says,
    )


@cli_command(
    "ask",
    "handrail rlm ask --context book.txt 'Who wrote the letter?'",
    "handrail rlm ask --context logs/ -m openai:gpt-5 --sub openai:gpt-5-mini 'Which service failed first?'",
    "handrail rlm ask --max-budget 0.50 'How many users are there?' < dump.sql",
    "handrail rlm ask --context src/ --code --report run.html 'Where is the cache filled?'",
)
@click.argument("question", nargs=-1, required=True)
@with_context("A file or a directory, read only where code asks for it; - is stdin; can be given several times.")
@exploring
def command(setup: CliSetup, exploring: RlmOptions, question: tuple[str, ...], contexts: tuple[Path, ...]) -> None:
    """Ask a question about files of any size.

    A model writes Python that reads the context and asks other models. You see the current turn, the queries in flight
    and the cost. The answer goes to stdout. Without --context, stdin is the context. Before the code changes something
    with a tool, you are asked on a terminal; without a terminal the run waits, and one line says how to allow the call.
    If a limit ends the run, you get the best answer so far and exit code 1.

    The embedded model is too small to write code. With it, a fixed program counts and searches lines by the words of
    the QUESTION, and the answer cites them. Of what the model says, only what those lines say is shown.
    """
    if not contexts and sys.stdin.isatty():
        raise UsageError("there is no context; name files with --context, or pipe a text in")
    named = contexts or (STDIN,)
    drive_rlm_run(setup, exploring, " ".join(question), context_of(named), run=new_id("run"), files=named)


@cli_command(
    "resume",
    "handrail rlm resume run_0193 --context book.txt",
    "handrail rlm resume run_0193 --context logs/ -m openai:gpt-5 --max-budget 2",
)
@click.argument("run", shell_complete=complete.runs)
@with_context("The same files and directories as before; - is stdin; can be given several times.")
@exploring
def resume(setup: CliSetup, exploring: RlmOptions, run: str, contexts: tuple[Path, ...]) -> None:
    """Continue a question that was interrupted or that waited for approval.

    No query and no call is repeated. Give the same context, models, tools and environment as before. Limits may differ;
    they include what was spent before. A call that was approved in the meantime runs now. A RUN that has an answer
    prints it again, and needs no context for that.
    """
    run, events = read_run_record(setup.view, run)
    if not is_rlm_run(run, events):
        raise UsageError(f"run {run!r} is not a run of handrail rlm; resume it with: handrail resume {run}")
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
    tell(f"Run {text.printable(run)} has already ended with this answer:")
    setup.view.reply(
        {"type": "rlm.completion", "run": run, "response": answered, "partial": False}, text.printable_lines(answered)
    )
    if exploring.report is not None:
        write_page(setup.view, run, exploring.report)
        tell(f"The report is in {text.printable(str(exploring.report))}")


def context_of(paths: Sequence[Path]) -> Files | BinaryIO:
    """What the paths name. Standard input beside others, or an empty one, is a `UsageError`."""
    if STDIN not in paths:
        return Files.of(*(path.absolute() for path in paths))
    if len(paths) > 1:
        raise UsageError("stdin is a separate context; give --context - alone, or put the text into a file")
    piped = sys.stdin.buffer
    stream = piped if isinstance(piped, io.BufferedReader) else io.BufferedReader(piped)  # type: ignore[type-var]
    if not stream.peek(1):
        raise UsageError("there is no context: nothing was piped in; name files with --context, or pipe a text in")
    return stream
