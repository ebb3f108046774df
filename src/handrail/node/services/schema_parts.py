"""Pieces of schemas that the services share, and short ways to write the common ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
TIME = {"type": "string", "format": "date-time"}
CID = {"type": "string", "pattern": "^blake3:[0-9a-f]{64}$", "description": "A blob, by the hash of its bytes."}
LANGUAGE = {"type": "string", "pattern": "^[A-Za-z]{2,3}$", "description": "A language, as `de`."}


def text(least: int, most: int, description: str = "") -> dict[str, Any]:
    """A text of so many characters."""
    shape: dict[str, Any] = {"type": "string", **({"minLength": least} if least else {}), "maxLength": most}
    return {**shape, "description": description} if description else shape


def whole(least: int, most: int, **more: Any) -> dict[str, Any]:
    """A whole number between these two."""
    return {"type": "integer", "minimum": least, "maximum": most, **more}


def choice(*words: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "enum": list(words), **more}


def array(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


def full_object(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with these fields and no others, each of which is there."""
    return closed_object(properties, list(properties))


def closed_object(properties: dict[str, Any], required: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """An object with these fields and no others."""
    shape: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    return {**shape, "required": list(required)} if required else shape


def request_schema_of(input: dict[str, Any] | None = None, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """The request schema of a capability, of its two halves. One that cannot be empty is required."""
    halves = {"params": params or closed_object({}), "input": input or closed_object({})}
    return closed_object(halves, [name for name, half in halves.items() if half.get("required") or "oneOf" in half])


LAMPORT = whole(0, 2**53 - 1, description="A counter that rises with every event that this node has seen.")
NODE = text(1, 200, "The id of a node, as `ed25519:…`.")
_SAME = "An id that the caller chooses: the same id again is the same event. Default: the id of the call."
CLIENT_ID = text(1, 100, _SAME)
