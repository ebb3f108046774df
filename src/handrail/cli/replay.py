"""`handrail replay`: a run told again from its record."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from handrail.cli import complete, text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.live_run import LiveRunPrinter
from handrail.cli.output.view import CommandView, tell, with_common_options, with_output_file
from handrail.cli.resume import read_run_record
from handrail.cli.run_options import files_option
from handrail.core.events import ConversationChanged, Event
from handrail.core.messages import UserMessage
from handrail.run.history import replay


@cli_command(
    "replay",
    "handrail replay run_0193",
    "handrail replay run_0193 --json | jq .type",
    "handrail replay run_0193 --files pictures",
)
@click.argument("run", shell_complete=complete.runs)
@files_option
@with_common_options
@with_output_file
def command(view: CommandView, run: str, files: Path | None) -> None:
    """Replay a recorded run, without a model and without tools.

    The events are those of the run, in their order.
    """
    _, events = read_run_record(view, run)
    live = LiveRunPrinter(as_json=view.as_json, files=files)

    async def show(event: Event) -> None:
        if not view.as_json and isinstance(event, ConversationChanged):
            live.end_line()
            for message in event.messages or ():
                if isinstance(message, UserMessage):
                    tell(f"> {text.printable_lines(message.text)}")
        await live(event)

    asyncio.run(replay(events, show))
    live.end_line()
