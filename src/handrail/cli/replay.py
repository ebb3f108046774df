"""`handrail replay`: a run told again from its record."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from handrail.cli import complete, text
from handrail.cli.groups import examples
from handrail.cli.live import Live
from handrail.cli.reply_extras import files_option
from handrail.cli.resume import recorded
from handrail.cli.view import View, common, tell
from handrail.core.events import ConversationChanged, Event
from handrail.core.messages import UserMessage
from handrail.run.history import replay


@click.command(
    "replay",
    epilog=examples(
        "handrail replay run_0193",
        "handrail replay run_0193 --json | jq .type",
        "handrail replay run_0193 --files pictures",
    ),
)
@click.argument("run", shell_complete=complete.runs)
@files_option
@common
def command(view: View, run: str, files: Path | None) -> None:
    """Tell a run again from its record, without model or tools.

    The events are those of the run, in their order; nothing is asked and nothing runs.
    """
    _, events = recorded(view, run)
    live = Live(as_json=view.as_json, files=files)

    async def show(event: Event) -> None:
        if not view.as_json and isinstance(event, ConversationChanged):
            live.end_line()
            for message in event.messages or ():
                if isinstance(message, UserMessage):
                    tell(f"> {text.block(message.text)}")
        await live(event)

    asyncio.run(replay(events, show))
    live.end_line()
