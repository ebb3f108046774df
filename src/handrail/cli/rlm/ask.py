"""`handrail rlm ask`: one question over files of any size."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from handrail.cli.lazy_groups import examples
from handrail.cli.rlm.context_option import STDIN, context_of, with_context
from handrail.cli.rlm.options import RlmOptions, exploring
from handrail.cli.rlm.run_driver import drive_rlm_run
from handrail.cli.run_options import CliSetup
from handrail.core.errors import UsageError
from handrail.core.ids import new_id


@click.command(
    "ask",
    epilog=examples(
        "handrail rlm ask --context book.txt 'Who wrote the letter?'",
        "handrail rlm ask --context logs/ -m openai:gpt-5 --sub openai:gpt-5-mini 'Which service failed first?'",
        "handrail rlm ask --max-budget 0.50 'How many users are there?' < dump.sql",
        "handrail rlm ask --context src/ --code --report run.html 'Where is the cache filled?'",
    ),
)
@click.argument("question", nargs=-1, required=True)
@with_context("A file or a directory, read only where code asks for it; - is stdin; can be given several times.")
@exploring
def command(setup: CliSetup, exploring: RlmOptions, question: tuple[str, ...], contexts: tuple[Path, ...]) -> None:
    """Ask a question over files of any size.

    A model writes Python that reads the context and asks other models; you see which turn it is at, how many
    queries are in flight, and what was spent. The answer goes to stdout. Without --context, what is piped in is the
    context. Before the code changes something by a tool you are asked on a terminal; elsewhere the run waits there, and
    one line says how to allow it. A limit that ends the run leaves the best answer so far, and exit code 1.

    The embedded model is too small to write code: there a fixed program counts and searches lines by the words of the
    QUESTION, and the answer cites them. Of what the model says, only what those lines say is shown.
    """
    if not contexts and sys.stdin.isatty():
        raise UsageError("there is no context; name files with --context, or pipe a text in")
    named = contexts or (STDIN,)
    drive_rlm_run(setup, exploring, " ".join(question), context_of(named), run=new_id("run"), files=named)
