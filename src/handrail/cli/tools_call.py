"""`handrail tools call`: one call by hand, through the executor and into the journal like any other."""

from __future__ import annotations

import asyncio
import sys

import click

from handrail.app import open_app
from handrail.cli import text
from handrail.cli.groups import examples
from handrail.cli.live import Live
from handrail.cli.setup import Chosen, Setup, configured, with_tools, with_word
from handrail.cli.tools_show import find
from handrail.cli.view import answer, answer_json, tell
from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.events import CallIntended, CallSettled, Event
from handrail.core.ids import new_id


@click.command(
    "call",
    epilog=examples(
        'handrail tools call add \'{"a": 1, "b": 2}\' --tools tools.py',
        'handrail tools call pay \'{"to": "ada", "amount": 5}\' --tools tools.py --yes',
    ),
)
@click.argument("name")
@click.argument("arguments", metavar="JSON", default="{}")
@with_tools
@with_word
@configured
def command(setup: Setup, name: str, arguments: str, tools: tuple[str, ...], rules: tuple[str, ...], yes: bool) -> None:
    """Call the tool of this NAME with these arguments; `-` reads them from stdin.

    They are checked like a model's. The result goes to stdout; exit code 1 means that there is none.
    """
    written = sys.stdin.read() if arguments == "-" else arguments
    chosen = Chosen(None, tools, rules, yes)
    result = asyncio.run(_call(setup, chosen, name, written))
    if setup.view.as_json:
        answer_json(result.to_dict())
    elif not result.is_error:
        answer(text.spread(result.content))
    if result.is_error:
        if not setup.view.as_json:
            tell(f"{result.outcome}: {text.block(result.text.removeprefix(f'{result.outcome}: '))}")
        if result.outcome == "needs_confirmation":
            tell("Allow it with --yes or --rule, or call it on a terminal, where you are asked.")
        raise click.exceptions.Exit(1)


async def _call(setup: Setup, chosen: Chosen, name: str, written: str) -> ToolResult:
    run = new_id("run")
    live = Live(as_json=False)

    async def beside(event: Event) -> None:
        if not setup.view.as_json and not isinstance(event, CallIntended | CallSettled):  # the result is the answer
            await live(event)

    wanted, person = chosen.wanted(setup.config), chosen.person()
    async with open_app(setup.config, setup.journal, wanted, chosen.ask(), person) as app:
        find(app.tools, name)
        result = await app.executor.invoke(ToolCall("", name, written), Context(run=run), beside)
        await app.executor.finish(run)
    tell(f"run {run}")
    return result
