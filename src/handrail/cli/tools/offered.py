"""`handrail tools list`, `show` and `search`: the tools that models are offered. None of them is run."""

from __future__ import annotations

import asyncio

import click

from handrail.app.app import open_tools
from handrail.cli import text
from handrail.cli.lazy_groups import cli_command
from handrail.cli.output.timeline import print_body, print_fields
from handrail.cli.output.view import answer, columns, table, tell, with_output_file
from handrail.cli.run_options import CliSetup, configured, with_offer_limit, with_tools
from handrail.cli.terminal.person import terminal_person
from handrail.cli.tools.labels import label_rows
from handrail.config.tools import tools_of
from handrail.config.values import Config
from handrail.core.errors import UnknownTool, UsageError
from handrail.run.offering import Offering
from handrail.tools.finder import ALWAYS, MOST, description_line
from handrail.tools.registry import RegisteredTools, registered
from handrail.tools.search import ToolSearchHit
from handrail.tools.tool import Tool

_LISTED = columns("tool", "effects", "timeout", "description", right=("timeout",), cut="description")
_NONE = "There are no tools; name some with --tools, or list files under `ensembles` in handrail.toml."


@cli_command(
    "list", "handrail tools list", "handrail tools list --tools tools.py", "handrail tools list --json | jq -r .name"
)
@with_tools
@configured
@with_output_file
def list_tools(setup: CliSetup, tools: tuple[str, ...]) -> None:
    """List the tools: their names, whether they have side effects, and what they do."""
    found = offered_tools(setup.config, tools)
    if setup.view.wrote_json(*({**tool.definition.to_dict(), "scoped_name": tool.scoped_name} for tool in found)):
        return
    if not len(found):
        tell(_NONE)
        return
    table(_LISTED, [_listed(tool, setup.config.policy.timeout) for tool in found])


def _listed(tool: Tool, timeout: float) -> tuple[str, ...]:
    seconds = f"{tool.definition.timeout or timeout:g} s"
    return text.printable(tool.scoped_name), tool.effects, seconds, short_description(tool)


def short_description(tool: Tool) -> str:
    """The beginning of a description, for a table."""
    return text.printable(text.short(description_line(tool), 100)) or "-"


@cli_command(
    "show", "handrail tools show add --tools tools.py", "handrail tools show io:read_file --json | jq .input_schema"
)
@click.argument("name")
@with_tools
@configured
@with_output_file
def show(setup: CliSetup, name: str, tools: tuple[str, ...]) -> None:
    """Show the tool NAME: what a model is told, and how its calls are handled."""
    tool = tool_by_name(offered_tools(setup.config, tools), name)
    if setup.view.wrote_json({**tool.definition.to_dict(), "scoped_name": tool.scoped_name}):
        return
    answer(text.printable(tool.scoped_name), "title")
    for line in text.printable_lines(tool.definition.description).splitlines():
        answer(f"  {line}")
    print_fields(
        [
            ("effects", tool.effects),
            ("timeout", f"{tool.definition.timeout or setup.config.policy.timeout:g} s"),
            ("runs", f"in {_WHERE[tool.isolation or 'thread']}"),
            ("models", text.printable(", ".join(tool.definition.models or ("all",)))),
            *label_rows(tool.definition),
            ("digest", tool.digest),
        ]
    )
    print_body("arguments", tool.definition.input_schema)
    if tool.definition.output_schema is not None:
        print_body("result", tool.definition.output_schema)


_WHERE = {
    "loop": "the event loop",
    "thread": "a thread",
    "process": "a process of its own",
    "sandbox": "the sandbox",
}


def tool_by_name(tools: RegisteredTools, name: str) -> Tool:
    """The tool of this name; a `UsageError` lists the tools if there is none."""
    try:
        return tools.find(name)
    except UnknownTool as error:
        there = ", ".join(tool.scoped_name for tool in tools) or "none; name some with --tools"
        raise UsageError(f"{error.message}; there are {there}") from error


_FOUND = columns("tool", "score", "offered", "by", "description", right=("score",), cut="description")


@cli_command(
    "search",
    "handrail tools search 'refund a payment'",
    "handrail tools search 'weather in Lisbon' --tools tools.py --offer-at-most 10",
    "handrail tools search invoice --json | jq -r .name",
)
@click.argument("query", nargs=-1, required=True)
@click.option("--count", type=click.IntRange(1), default=MOST, show_default=True, help="The number of tools to show.")
@with_tools
@with_offer_limit
@configured
@with_output_file
def search(
    setup: CliSetup, query: tuple[str, ...], count: int, tools: tuple[str, ...], offer_at_most: int | None
) -> None:
    """Search the tools as a turn does that has more tools than it may offer.

    Shows which tools would be offered to a model when the user says QUERY, how well each tool matches, and the matching
    words. The model can find the other tools with find_tools, or with the search of its service.
    """
    offering = setup.offering(offer_at_most)
    found = offered_tools(setup.config, tools)
    many = len(found) > offering.most
    hits = found.index.hits(" ".join(query), count)
    rows = [(hit, _offered(found, hit, place, offering, many)) for place, hit in enumerate(hits)]
    if setup.view.wrote_json(
        *(
            {"name": hit.name, "score": hit.score, "words": hit.words, "offered": offered != "no"}
            for hit, offered in rows
        )
    ):
        return
    if rows:
        table(_FOUND, [_found(found, hit, offered) for hit, offered in rows])
    _explain(found, offering, many, bool(rows))


def _offered(tools: RegisteredTools, hit: ToolSearchHit, place: int, offering: Offering, many: bool) -> str:
    if ALWAYS in tools.find(hit.name).definition.tags:
        return "always"
    return "yes" if not many or place < offering.found else "no"


def _found(tools: RegisteredTools, hit: ToolSearchHit, offered: str) -> tuple[str, ...]:
    tool = tools.find(hit.name)
    by = ", ".join((*hit.words, *(("its name",) if hit.named else ())))
    return (
        text.printable(tool.scoped_name),
        f"{hit.score:.2f}",
        offered,
        text.printable(by),
        short_description(tool),
    )


def _explain(tools: RegisteredTools, offering: Offering, many: bool, any_found: bool) -> None:
    if not len(tools):
        tell(_NONE)
        return
    if not any_found:
        tell("No tool has any of these words.")
    there = text.count_text(len(tools), "tool")
    if not many:
        tell(f"{there}, and a turn may offer {offering.most}: all are offered, whatever is said.")
        return
    tell(
        f"{there}, and a turn may offer {offering.most}: those tagged {ALWAYS!r}, find_tools, what was called or found"
        f" before, and the first {offering.found} that fit what is said."
    )


def offered_tools(config: Config, wanted: tuple[str, ...]) -> RegisteredTools:
    """What is wanted, or else what is configured; servers are connected to be asked."""
    return registered(*tools_of(config, wanted)) if wanted else asyncio.run(_open_tools(config))


async def _open_tools(config: Config) -> RegisteredTools:
    async with open_tools(config, terminal_person()) as tools:
        return tools
