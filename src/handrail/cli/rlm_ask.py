"""`handrail rlm ask`: one question over files of any size."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from handrail.cli.groups import examples
from handrail.cli.rlm_options import Exploring, exploring
from handrail.cli.rlm_work import explore
from handrail.cli.setup import Setup
from handrail.core.errors import UsageError
from handrail.core.ids import new_id
from handrail.rlm.contexts.load import Files


@click.command(
    "ask",
    epilog=examples(
        "handrail rlm ask --context book.txt 'Who wrote the letter?'",
        "handrail rlm ask --context logs/ -m openai:gpt-5 --sub openai:gpt-5-mini 'Which service failed first?'",
        "zcat dump.gz | handrail rlm ask --max-budget 0.50 'How many users are there?'",
        "handrail rlm ask --context src/ --code --report run.html 'Where is the cache filled?'",
    ),
)
@click.argument("question", nargs=-1, required=True)
@click.option(
    "--context",
    "contexts",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="A file or a directory, read only where code asks for it; can be given several times.",
)
@exploring
def command(setup: Setup, exploring: Exploring, question: tuple[str, ...], contexts: tuple[Path, ...]) -> None:
    """Ask a question over files of any size.

    A model writes Python that reads the context and asks other models; you see which turn it is at, how many
    queries are in flight, and what was spent. The answer goes to stdout. Without --context, what is piped in is the
    context. The embedded model is too small to write code: there a fixed plan searches for the words of the QUESTION,
    and the model reads what was found.
    """
    explore(setup, exploring, " ".join(question), _context(contexts), run=new_id("run"), files=contexts)


def _context(paths: tuple[Path, ...]) -> Any:
    if paths:
        return Files.of(*(path.absolute() for path in paths))
    if sys.stdin.isatty():
        raise UsageError("there is no context; name files with --context, or pipe a text in")
    return sys.stdin.buffer
