"""`handrail bus list`: what there is to call."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from handrail.bus.port import Offer
from handrail.cli import text
from handrail.cli.bus_reach import Reach, reaching
from handrail.cli.groups import examples
from handrail.cli.view import Column, answer_json, table, tell

_COLUMNS = (
    Column("capability"),
    Column("changes"),
    Column("trust"),
    Column("node", cut=True),
    Column("what", cut=True),
)


@click.command(
    "list",
    epilog=examples("handrail bus list", "handrail bus list rag.query --json | jq .request_schema"),
)
@click.argument("name", required=False)
@reaching
def command(reach: Reach, name: str | None) -> None:
    """List the capabilities, of one NAME or all. With --json each has its schemas and their hash."""
    offers = asyncio.run(_offers(reach, name))
    if reach.setup.view.as_json:
        for offer in offers:
            answer_json({"node_id": offer.node_id, **offer.descriptor.to_dict()})
        return
    if not offers:
        tell("There is nothing to call; a token shows only what it is good for")
        return
    table(_COLUMNS, [_row(offer) for offer in offers], {})


async def _offers(reach: Reach, name: str | None) -> list[Offer]:
    async with reach.bus() as bus:
        found = await bus.discover(name)
    return sorted(found, key=lambda offer: (offer.descriptor.full_name, offer.node_id))


def _row(offer: Offer) -> tuple[Any, ...]:
    each = offer.descriptor
    changes = "" if not each.side_effects else "yes, repeatable" if each.idempotent else "yes"
    return each.full_name, changes, each.trust_required, text.visible(offer.node_id), text.visible(each.description)
