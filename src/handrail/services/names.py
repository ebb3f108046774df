"""Under which name a caller writes."""

from __future__ import annotations

from handrail.bus.request import OWN, Caller


def name_of(caller: Caller, node_id: str) -> str:
    """Its id; the program that the node runs in writes as the node."""
    return node_id if caller.trust == OWN.trust and caller.id == OWN.id else caller.id
