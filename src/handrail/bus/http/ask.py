"""One call as it is put to another node: in headers for a request, in an envelope for a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from handrail.bus.descriptor import NAME
from handrail.bus.port import Calling
from handrail.bus.request import Caller
from handrail.bus.tokens.identity import Identity
from handrail.bus.tokens.signatures import as_headers, sign_call
from handrail.bus.versions import VersionReq, version_of, written
from handrail.core.canonical import canonical
from handrail.core.errors import BusError
from handrail.core.ids import NewId
from handrail.core.ports import Clock
from handrail.core.redact import Secret

_JSON = msgspec.json.Encoder()


class Signing(NamedTuple):
    """Who signs, and for which community the call is."""

    identity: Identity
    community: str
    clock: Clock


class Ask(Struct, frozen=True, kw_only=True):
    """What is called, on whose behalf and until when. It stays the same for every attempt."""

    capability: str
    version: str
    body: Mapping[str, Any]
    payload: bytes
    """The body as it is sent."""
    request_id: str
    signing: Signing | None = None
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
            "x-hearthnet-timeout-ms": _text(self._timeout_ms()),
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
        fields = self._fields(b"" if self.signing is None else canonical(self.body))
        signature = fields.pop("signature", None)
        envelope: dict[str, Any] = {
            **fields,
            "body": self.body,
            "interactive": self.interactive,
            **_stated("token", None if self.token is None else str(self.token)),
            **_stated("timeout_ms", self._timeout_ms()),
            **_stated("depth", self.depth or None),
            **_stated("within", self.within or None),
            **_stated("session_id", self.session_id),
            **_stated("schema_hash", self.schema_hash),
            **_stated("traceparent", self.trace),
        }
        first: dict[str, Any] = {"type": "call", "envelope": envelope, **_stated("signature", signature)}
        if attempt > 1:
            first |= {"type": "resume", "request_id": self.request_id, "after": after}
        return _JSON.encode(first)

    def _timeout_ms(self) -> int | None:
        remaining = self.remaining
        return None if remaining is None else max(0, round(remaining * 1000))

    def _fields(self, body: bytes) -> dict[str, str]:
        """What every envelope has, signed anew for each attempt."""
        called = {"capability": self.capability, "version": self.version, "request_id": self.request_id}
        if self.signing is None:
            return called
        identity, community, clock = self.signing
        return sign_call(identity, **called, community=community, body=body, clock=clock)


def ask_for(
    capability: str,
    version_req: VersionReq,
    body: Mapping[str, Any],
    how: Calling,
    *,
    token: Secret | None,
    signing: Signing | None,
    new_id: NewId,
    interactive: bool = False,
) -> Ask:
    """A call as its caller made it. Our own token and signature speak for this program alone, never for its callers.

    Raises:
        BusError: The version is none, the name cannot be one, or the body is no JSON (`bad_request`, `not_found`).
    """
    if not NAME.fullmatch(capability):
        raise BusError("not_found", f"there is no capability {capability[:100]!r}; names are namespace.verb")
    caller = how.get("caller")
    ours = caller is None or caller.trust == "self"
    given = how.get("token") or (None if caller is None else caller.token)
    return Ask(
        capability=capability,
        version=written(version_of(version_req)),
        body=body,
        payload=encoded(body),
        request_id=how.get("call_id") or new_id("call"),
        signing=signing if ours else None,
        token=Secret(given) if given else (token if ours else None),
        deadline=_until(how),
        depth=how.get("depth", 0),
        within=(*how.get("within", ()), *_narrowed(caller)),
        trace=how.get("trace"),
        session_id=how.get("session_id"),
        schema_hash=how.get("schema_hash"),
        interactive=interactive,
    )


def encoded(body: Any) -> bytes:
    """Raises:
    BusError: It has no JSON form (`bad_request`).
    """
    try:
        return _JSON.encode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise BusError("bad_request", f"the body has no JSON form: {error}") from error


def _until(how: Calling) -> float | None:
    seconds, deadline = how.get("timeout_seconds"), how.get("deadline")
    if seconds is None:
        return deadline
    ends = asyncio.get_running_loop().time() + seconds
    return ends if deadline is None else min(ends, deadline)


def _narrowed(caller: Caller | None) -> tuple[tuple[str, ...], ...]:
    """What a caller may do goes along as a bound, whatever its token says over there."""
    scopes = None if caller is None else caller.principal.scopes
    return () if scopes is None else (scopes,)


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _stated(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}
