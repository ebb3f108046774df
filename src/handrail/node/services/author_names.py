"""Under which name a caller writes."""

from __future__ import annotations

from handrail.node.bus.request import OWN, Caller


def author_name(caller: Caller, node_id: str) -> str:
    """Its id; the program that the node runs in writes as the node."""
    return node_id if caller.trust == OWN.trust and caller.id == OWN.id else caller.id
