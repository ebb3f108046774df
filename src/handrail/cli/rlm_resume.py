"""`handrail rlm resume`: going on with a question that was cut off."""

from __future__ import annotations

from pathlib import Path

import click

from handrail.cli import complete
from handrail.cli.groups import examples
from handrail.cli.resume import recorded
from handrail.cli.rlm_options import Exploring, exploring
from handrail.cli.rlm_work import explore
from handrail.cli.setup import Setup
from handrail.core.messages import UserMessage
from handrail.rlm.contexts.load import Files
from handrail.rlm.report.logged import question_in
from handrail.run.history import conversation_of


@click.command(
    "resume",
    epilog=examples(
        "handrail rlm resume run_0193 --context book.txt",
        "handrail rlm resume run_0193 --context logs/ -m openai:gpt-5 --max-budget 2",
    ),
)
@click.argument("run", shell_complete=complete.runs)
@click.option(
    "--context",
    "contexts",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="The same files and directories as before; can be given several times.",
)
@exploring
def command(setup: Setup, exploring: Exploring, run: str, contexts: tuple[Path, ...]) -> None:
    """Go on with a question that was cut off.

    Nothing that was asked or called before is asked or called again. Give the same context, models and environment
    as before; the limits may be others. A RUN that has its answer gives it again.
    """
    run, events = recorded(setup.view, run)
    said = (message.text for message in conversation_of(events).messages if isinstance(message, UserMessage))
    question = question_in(next(said, ""))
    context = Files.of(*(path.absolute() for path in contexts)) if contexts else None
    explore(setup, exploring, question, context, run=run, files=contexts, again=True)
