"""The models that can be asked for, in the form of either API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from handrail.core.errors import BusError
from handrail.node.gateways.wire import GatewayWire


def model_list_body(wire: GatewayWire, names: Sequence[str], name: str | None = None) -> dict[str, Any]:
    """All of them, or the one of that name.

    Raises:
        BusError: There is none of that name.
    """
    one = _FORMS[wire.name]
    if name is not None:
        if name not in names:
            raise BusError("not_found", f"there is no model {name[:60]!r} here", param="model")
        return one(name)
    models = [one(each) for each in names]
    if wire.name == "openai":
        return {"object": "list", "data": models}
    ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return {"data": models, "has_more": False, **ends}


def _openai(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "handrail"}


def _anthropic(name: str) -> dict[str, Any]:
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


_FORMS = {"openai": _openai, "anthropic": _anthropic}
