"""Who is there: the nodes that the bus knows, with what they offer and the names people gave them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Bus, Handler
from handrail.node.bus.request import RouteRequest
from handrail.node.services.schema_parts import NODE, TEXT, array, closed_object, full_object, request_schema_of, text

_PEER = closed_object(
    {
        "node_id": NODE,
        "name": {"type": "string", "description": "Its name for people, if somebody gave it one."},
        "online": {"type": "boolean", "description": "Whether it offers any capability now."},
        "local": {"type": "boolean", "description": "Whether it is the node that answers this call."},
        "capabilities": array(TEXT),
    },
    ["node_id", "online", "local", "capabilities"],
)
LIST = CapabilityDescriptor(
    name="peers.list",
    max_concurrent=64,
    description="List the nodes of this community that this node knows, and what each of them can do.",
    request_schema=request_schema_of(
        closed_object({"capability": text(0, 100, "Only nodes that offer this capability.")})
    ),
    response_schema=full_object({"peers": array(_PEER)}),
    untrusted=True,
)


class PeersService:
    """`peers.list` over what a bus discovers, with names from a directory of node ids."""

    def __init__(self, bus: Bus, names: Mapping[str, str] | None = None) -> None:
        self._bus = bus
        self._names = dict(names or {})

    def capabilities(self) -> Iterator[tuple[CapabilityDescriptor, Handler]]:
        yield LIST, self.list

    async def list(self, request: RouteRequest) -> dict[str, Any]:
        wanted = request.input.get("capability")
        offered: dict[str, set[str]] = {}
        local = {self._bus.node_id}
        for offer in await self._bus.discover():
            offered.setdefault(offer.node_id, set()).add(offer.descriptor.full_name)
            local |= {offer.node_id} if offer.local else set()
        nodes = sorted({*offered, *self._names} - local) + sorted(local & {*offered, *self._names})
        peers = [self._peer_as_json(node, offered.get(node, set()), node in local) for node in nodes]
        return {"output": {"peers": [peer for peer in peers if wanted is None or _offers(peer, wanted)]}}

    def _peer_as_json(self, node: str, capabilities: set[str], local: bool) -> dict[str, Any]:
        name = {"name": self._names[node]} if node in self._names else {}
        return {
            "node_id": node,
            **name,
            "online": bool(capabilities),
            "local": local,
            "capabilities": sorted(capabilities),
        }


def _offers(peer: dict[str, Any], wanted: str) -> bool:
    return any(full == wanted or full.partition("@")[0] == wanted for full in peer["capabilities"])
