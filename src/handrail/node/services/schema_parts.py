"""Pieces of schemas that the services share. Data and two helpers, nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CID = {"type": "string", "pattern": "^blake3:[0-9a-f]{64}$", "description": "A blob, by the hash of its bytes."}
LAMPORT = {
    "type": "integer",
    "minimum": 0,
    "maximum": 2**53 - 1,
    "description": "Counts up with every event this node has seen.",
}
NODE = {"type": "string", "minLength": 1, "maxLength": 200, "description": "The id of a node, as `ed25519:…`."}
CLIENT_ID = {
    "type": "string",
    "minLength": 1,
    "maxLength": 100,
    "description": "Made by the caller: the same one again is the same event, not another. Without it, the call's id.",
}
LANGUAGE = {"type": "string", "pattern": "^[A-Za-z]{2,3}$", "description": "A language, as `de`."}


def closed_object(properties: dict[str, Any], required: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """An object with these fields and no others."""
    shape: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    return {**shape, "required": list(required)} if required else shape


def request_schema_of(input: dict[str, Any] | None = None, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """The request schema of a capability, of its two halves. One that cannot be empty is required."""
    halves = {"params": params or closed_object({}), "input": input or closed_object({})}
    return closed_object(halves, [name for name, half in halves.items() if half.get("required") or "oneOf" in half])
