"""`handrail tui`: conversations, tools and proofs in a terminal."""

from __future__ import annotations

import asyncio
import importlib.util
import select
import signal
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from handrail.app import Person, settings_of
from handrail.app.app import cancel_and_wait
from handrail.app.node_state import opened_state
from handrail.cli import complete
from handrail.cli.lazy_groups import cli_command
from handrail.cli.resume import read_run_record
from handrail.cli.run_options import (
    CliSetup,
    RunOptions,
    configured,
    rule_option,
    with_fallback,
    with_model,
    with_offer_limit,
    with_tools,
)
from handrail.config.values import Config
from handrail.core.errors import MissingExtra, UsageError
from handrail.mcp.values import Endpoint
from handrail.run.history import conversation_of

if TYPE_CHECKING:
    from handrail.desk.tui.app import TuiApp

_LOOK = 1.0
"""Seconds between two looks whether the terminal is still there."""


@cli_command(
    "tui",
    "handrail tui",
    "handrail tui -m openai:gpt-5 --tools tools.py",
    "handrail tui run_0193                  continue that conversation",
)
@click.argument("run", required=False, shell_complete=complete.runs)
@click.option("--system", metavar="TEXT", help="The system prompt.")
@with_model
@with_fallback
@with_tools
@with_offer_limit
@rule_option("deny io:write_*")
@configured
def command(setup: CliSetup, run: str | None, system: str | None, **chosen: Any) -> None:
    """Chat with a model in a full-screen terminal program.

    Every call has a pane with its arguments, progress and result. Before a tool changes something, you are asked: allow
    it once or always, deny it, or change its arguments. F1 shows the keys; Ctrl+Q quits. With a RUN, its conversation
    continues.
    """
    if not all(each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError("handrail tui needs a terminal; in a pipe or a script, use handrail chat or handrail ask")
    if importlib.util.find_spec("textual") is None:
        raise MissingExtra("the terminal program", "tui")
    raise click.exceptions.Exit(asyncio.run(_run(setup, RunOptions(**chosen), run, system or "")))


async def _run(setup: CliSetup, chosen: RunOptions, run: str | None, system: str) -> int:
    """Runs the program until the person leaves; returns the exit code."""
    from handrail.desk.desk import open_desk
    from handrail.desk.tui.app import TuiApp

    setup = setup.adjusted(lambda config: _with_choice(config, chosen))
    if setup.config.default_model is not None:
        settings_of(setup.config, setup.config.default_model)  # a name that is none is said here, and not by a turn
    talk = None if run is None else await asyncio.to_thread(_find_conversation, setup, run)
    relay = _NoticeRelay(chosen.person())
    opening = open_desk(setup.config, setup.journal, chosen.wanted(setup.config), relay.person, adjust=setup.adjust)
    async with opening as desk:
        app = TuiApp(desk, talk or await desk.begin(system=system))
        relay.app = app
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):  # the terminal is given back, and the record is closed
            loop.add_signal_handler(number, partial(app.exit, return_code=128 + number))
        watching = asyncio.create_task(_end_with_terminal(app))
        try:
            await app.run_async()
        finally:
            await cancel_and_wait(watching)
            relay.app = None
        return app.return_code or 0


async def _end_with_terminal(app: TuiApp) -> None:
    """Ends the program once its terminal is gone. SIGHUP does not come from every terminal that is closed, and the
    program would read the end of its input for ever."""
    terminal = select.poll()
    terminal.register(sys.stdin.fileno(), 0)  # that it was hung up is always told
    while True:
        if terminal.poll(0):
            return app.exit(return_code=128 + signal.SIGHUP)
        await asyncio.sleep(_LOOK)


def _with_choice(config: Config, chosen: RunOptions) -> Config:
    """The configuration with the model that is asked for here, who answers in its place, and how much is offered."""
    if chosen.offer_at_most is not None:
        config = replace(config, offering=replace(config.offering, most=chosen.offer_at_most))
    name = chosen.model or config.default_model
    if name is None:
        return config
    if chosen.fallback:
        settings = replace(settings_of(config, name), fallback=chosen.fallback)
        config = replace(config, models={**config.models, name: settings})
    return replace(config, default_model=name)


def _find_conversation(setup: CliSetup, run: str) -> str:
    """The conversation that is meant: one that is kept, or one that only the record has, which is kept from now on.

    Raises:
        UsageError: There is none, or several.
    """
    with opened_state(setup.config, setup.journal) as state:
        store = state.conversations()
        kept = store.list() if state.database is not None or setup.journal.exists() else ()
        fits = [about.id for about in kept if about.id.startswith(run)]
        if len(fits) == 1 or run in fits:
            return run if run in fits else fits[0]
        run, events = read_run_record(setup.view, run)
        store.save(run, conversation_of(events))
        return run


class _NoticeRelay:
    """Tells things at the terminal until the program has it, and then in the program."""

    def __init__(self, person: Person) -> None:
        self.app: TuiApp | None = None
        self._before = person
        self.person = replace(person, tell=self._tell, consent=self._consent)

    def _tell(self, line: str) -> None:
        if self.app is None:
            self._before.tell(line)
        else:
            self.app.tell(line)

    async def _consent(self, server: str, endpoint: Endpoint, why: str) -> bool:
        if self.app is None:
            return self._before.consent is not None and await self._before.consent(server, endpoint, why)
        self.app.tell(f"MCP server {server!r} is not approved, because {why}; run: handrail mcp approve {server}")
        return False
