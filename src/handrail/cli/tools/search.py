"""`handrail tools search`: which tools a question brings, and why."""

from __future__ import annotations

import click

from handrail.cli import text
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import TableColumn, answer_json, table, tell
from handrail.cli.run_options import CliSetup, configured, with_offer_limit, with_tools
from handrail.cli.tools.list import NONE, short_description
from handrail.cli.tools.offered_tools import offered_tools
from handrail.run.offering import Offering
from handrail.tools.finder import ALWAYS, MOST
from handrail.tools.registry import RegisteredTools
from handrail.tools.search import ToolSearchHit

_COLUMNS = (
    TableColumn("tool"),
    TableColumn("score", right=True),
    TableColumn("offered"),
    TableColumn("by"),
    TableColumn("description", cut=True),
)


@click.command(
    "search",
    epilog=examples(
        "handrail tools search 'refund a payment'",
        "handrail tools search 'weather in Lisbon' --tools tools.py --offer-at-most 10",
        "handrail tools search invoice --json | jq -r .name",
    ),
)
@click.argument("query", nargs=-1, required=True)
@click.option("--count", type=click.IntRange(1), default=MOST, show_default=True, help="How many tools to show.")
@with_tools
@with_offer_limit
@configured
def command(
    setup: CliSetup, query: tuple[str, ...], count: int, tools: tuple[str, ...], offer_at_most: int | None
) -> None:
    """Search the tools as a turn does that has more of them than it may offer.

    Shows what would be offered to a model whose user says QUERY, how well each tool fits, and the words it was found
    by. The model can find the others with find_tools, or by its service's own search.
    """
    offering = setup.offering(offer_at_most)
    found = offered_tools(setup.config, tools)
    many = len(found) > offering.most
    hits = found.index.hits(" ".join(query), count)
    rows = [(hit, _offered(found, hit, place, offering, many)) for place, hit in enumerate(hits)]
    if setup.view.as_json:
        for hit, offered in rows:
            answer_json({"name": hit.name, "score": hit.score, "words": hit.words, "offered": offered != "no"})
        return
    if rows:
        table(_COLUMNS, [_row(found, hit, offered) for hit, offered in rows])
    _explain(found, offering, many, bool(rows))


def _offered(tools: RegisteredTools, hit: ToolSearchHit, place: int, offering: Offering, many: bool) -> str:
    if ALWAYS in tools.find(hit.name).definition.tags:
        return "always"
    return "yes" if not many or place < offering.found else "no"


def _row(tools: RegisteredTools, hit: ToolSearchHit, offered: str) -> tuple[str, ...]:
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
        tell(NONE)
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
