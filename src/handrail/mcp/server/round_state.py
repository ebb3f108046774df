"""What a client carries for us from one round of a call to the next: sealed, bound and short-lived.

The library seals it (AES-256-GCM, with a key of this process), binds it to method, tool, arguments and
owner, and refuses what was changed or is too old. Here is only what is inside.
"""

from __future__ import annotations

import os

import msgspec
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from msgspec import Struct

from handrail.mcp.server.caller import Request, owner_of
from handrail.mcp.server.definition import McpServerDefinition

LIFE = 900.0
"""Seconds in which a person may answer."""


class CallAwaitingConfirmation(Struct, frozen=True, tag="confirm"):
    """A call that waits for a person's word."""

    run: str
    call: str
    request: str
    """The question, so that the word is good for no other."""

    def written(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str | None) -> CallAwaitingConfirmation | None:
        """None for what is not of this kind: it was sealed by us, so it is somebody else's round."""
        try:
            return None if text is None else msgspec.json.decode(text, type=cls)
        except msgspec.MsgspecError:
            return None


def state_sealing(served: McpServerDefinition, *, life: float = LIFE) -> RequestStateBoundary:
    """Seals what goes out and opens what comes back, for every method that may take several rounds."""

    def bound_to(request: Request) -> str:
        return owner_of(served, request)

    security = RequestStateSecurity(keys=[os.urandom(32)], ttl=life, bind_principal=bound_to)
    return RequestStateBoundary(security, default_audience=served.name)
