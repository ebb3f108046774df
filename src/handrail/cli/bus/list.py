"""`handrail bus list`: what there is to call."""

from __future__ import annotations

import asyncio

import click

from handrail.cli import text
from handrail.cli.bus.connection import BusConnectionOptions, with_bus_connection
from handrail.cli.lazy_groups import examples
from handrail.cli.output.view import TableColumn, answer_json, is_terminal, table, tell
from handrail.node.bus.interfaces import CapabilityOffer

_COLUMNS = (
    TableColumn("capability"),
    TableColumn("effects"),
    TableColumn("trust"),
    TableColumn("node"),
    TableColumn("description", cut=True),
)


@click.command(
    "list",
    epilog=examples("handrail bus list", "handrail bus list rag.query --json | jq .request_schema"),
)
@click.argument("name", required=False)
@with_bus_connection
def command(reach: BusConnectionOptions, name: str | None) -> None:
    """List the capabilities, of one NAME or all. With --json each has its schemas and their hash."""
    offers = asyncio.run(_offers(reach, name))
    if reach.setup.view.as_json:
        for offer in offers:
            answer_json({"node_id": offer.node_id, **offer.descriptor.to_dict()})
        return
    if not offers:
        tell(
            f"There is {'nothing' if name is None else f'no {name!r}'} to call; a token shows only what it is good for"
        )
        return
    nodes = reach.setup.view.ids(offer.node_id for offer in offers)
    if len(nodes) == 1 and is_terminal():
        nodes = dict.fromkeys(nodes, "-")  # the same in every row, and long
    table(_COLUMNS, [_row(offer, nodes[offer.node_id]) for offer in offers], {})


async def _offers(reach: BusConnectionOptions, name: str | None) -> list[CapabilityOffer]:
    async with reach.bus() as bus:
        found = await bus.discover(name)
    return sorted(found, key=lambda offer: (offer.descriptor.full_name, offer.node_id))


def _row(offer: CapabilityOffer, node: str) -> tuple[str, ...]:
    each = offer.descriptor
    effects = "reads" if not each.side_effects else "writes, idempotent" if each.idempotent else "writes"
    return (
        each.full_name,
        effects,
        each.trust_required,
        text.printable(node),
        text.printable(each.description) or "-",
    )
