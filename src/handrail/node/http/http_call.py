"""One call as it is put to another node: in headers for a request, in an envelope for a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from handrail.core.canonical import canonical_json
from handrail.core.ids import NewId
from handrail.core.redact import Secret
from handrail.node.bus.interfaces import CallOptions
from handrail.node.bus.outgoing_rights import CallSigner, encode_body, outgoing_rights_of, timeout_ms
from handrail.node.bus.versions import VersionReq, version_of, version_text
from handrail.node.tokens.signatures import as_headers, sign_call

SMALL = 64 * 1024
"""Bytes that a node reads before it knows who sends them."""
LOOK = "node.look"
"""What is signed where nothing is called."""


class HttpCall(Struct, frozen=True, kw_only=True):
    """What is called, on whose behalf and until when. It stays the same for every attempt."""

    capability: str
    version: str
    body: Mapping[str, Any]
    payload: bytes
    """The body as it is sent."""
    request_id: str
    signing: CallSigner | None = None
    token: Secret | None = None
    deadline: float | None = None
    depth: int = 0
    within: tuple[tuple[str, ...], ...] = ()
    trace: str | None = None
    session_id: str | None = None
    schema_hash: str | None = None
    interactive: bool = False

    @property
    def remaining(self) -> float | None:
        if self.deadline is None:
            return None
        return self.deadline - asyncio.get_running_loop().time()

    def headers(self, attempt: int) -> dict[str, str]:
        """All but what the request accepts."""
        found: dict[str, str | None] = {
            "content-type": "application/json",
            **as_headers(self._fields(self.payload)),
            "authorization": None if self.token is None else f"Bearer {self.token}",
            "x-hearthnet-timeout-ms": _text(timeout_ms(self.deadline)),
            "x-hearthnet-depth": _text(self.depth or None),
            "x-hearthnet-within": json.dumps(self.within) if self.within else None,
            "x-hearthnet-session-id": self.session_id,
            "x-hearthnet-schema-hash": self.schema_hash,
            "x-hearthnet-attempt": _text(attempt if attempt > 1 else None),
            "traceparent": self.trace,
        }
        return {name: value for name, value in found.items() if value is not None}

    def message(self, attempt: int, after: int) -> bytes:
        """The first message on a socket: `call`, or `resume` of what was begun."""
        fields = self._fields(b"" if self.signing is None else canonical_json(self.body))
        signature = fields.pop("signature", None)
        envelope: dict[str, Any] = {
            **fields,
            "body": self.body,
            "interactive": self.interactive,
            **_stated("token", None if self.token is None else str(self.token)),
            **_stated("timeout_ms", timeout_ms(self.deadline)),
            **_stated("depth", self.depth or None),
            **_stated("within", self.within or None),
            **_stated("session_id", self.session_id),
            **_stated("schema_hash", self.schema_hash),
            **_stated("traceparent", self.trace),
        }
        first: dict[str, Any] = {"type": "call", "envelope": envelope, **_stated("signature", signature)}
        if attempt > 1:
            first |= {"type": "resume", "request_id": self.request_id, "after": after}
        return encode_body(first)

    def opening(self, size: int) -> dict[str, str]:
        """The headers that open a socket for a first message of so many bytes: a node reads large ones only from those
        that it knows by then."""
        signed: dict[str, str] = {}
        if self.signing is not None and size > SMALL:
            identity, community, clock, to = self.signing
            looked = {"capability": LOOK, "version": "1.0", "request_id": f"{self.request_id[:100]}-{clock.now()}"}
            signed = as_headers(sign_call(identity, **looked, community=community, body=b"", to=to, clock=clock))
        return {**signed, **_stated("authorization", None if self.token is None else f"Bearer {self.token}")}

    def _fields(self, body: bytes) -> dict[str, str]:
        """What every envelope has, signed anew for each attempt."""
        called = {"capability": self.capability, "version": self.version, "request_id": self.request_id}
        if self.signing is None:
            return called
        identity, community, clock, to = self.signing
        return sign_call(identity, **called, community=community, body=body, to=to, clock=clock)


def http_call_for(
    capability: str,
    version_req: VersionReq,
    body: Mapping[str, Any],
    how: CallOptions,
    *,
    token: Secret | None,
    signing: CallSigner | None,
    new_id: NewId,
    interactive: bool = False,
) -> HttpCall:
    """A call as its caller made it.

    Raises:
        BusError: The version is none, the name cannot be one, or the body is no JSON (`bad_request`, `not_found`).
    """
    for_whom = outgoing_rights_of(capability, how, token=token, signing=signing)
    return HttpCall(
        capability=capability,
        version=version_text(version_of(version_req)),
        body=body,
        payload=encode_body(body),
        request_id=how.get("call_id") or new_id("call"),
        signing=for_whom.signing,
        token=for_whom.token,
        deadline=for_whom.deadline,
        depth=how.get("depth", 0),
        within=for_whom.within,
        trace=how.get("trace"),
        session_id=how.get("session_id"),
        schema_hash=how.get("schema_hash"),
        interactive=interactive,
    )


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _stated(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}
