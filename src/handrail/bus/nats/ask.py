"""A call as its caller made it: the same for every attempt, each of which is signed anew."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from handrail.bus.descriptor import NAME
from handrail.bus.nats.wire import Request
from handrail.bus.port import Calling
from handrail.bus.tokens.identity import Identity
from handrail.bus.tokens.signatures import sign_call
from handrail.bus.versions import Version, VersionReq, version_of, written
from handrail.core.canonical import canonical
from handrail.core.errors import BusError
from handrail.core.ports import Clock
from handrail.core.redact import Secret


class Signing(Struct, frozen=True):
    identity: Identity
    community: str
    clock: Clock


class Ask(Struct, frozen=True, kw_only=True):
    capability: str
    version: Version
    body: dict[str, Any]
    call_id: str
    signing: Signing | None
    token: Secret | None
    deadline: float | None
    depth: int
    within: tuple[tuple[str, ...], ...]
    trace: str
    session_id: str | None
    schema_hash: str | None
    window: int
    stream: bool
    interactive: bool

    def request(self, ref: str, community: str) -> Request:
        """One attempt."""
        version = written(self.version)
        signed: dict[str, str] = {}
        if self.signing is not None:
            signed = sign_call(
                self.signing.identity,
                capability=self.capability,
                version=version,
                request_id=f"{self.call_id}/{ref}",
                community=self.signing.community,
                body=canonical(self.body),
                clock=self.signing.clock,
            )
        return Request(
            ref=ref,
            call_id=self.call_id,
            capability=self.capability,
            version=version,
            body=self.body,
            sender=signed.get("from", ""),
            community=community,
            timestamp=signed.get("timestamp", ""),
            signature=signed.get("signature", ""),
            token=str(self.token or ""),
            timeout_ms=self.timeout_ms,
            depth=self.depth,
            within=self.within,
            traceparent=self.trace,
            window=self.window,
            stream=self.stream,
            interactive=self.interactive,
            session_id=self.session_id,
            schema_hash=self.schema_hash,
        )

    @property
    def timeout_ms(self) -> int | None:
        if self.deadline is None:
            return None
        return max(0, round((self.deadline - asyncio.get_running_loop().time()) * 1000))


def ask_for(
    capability: str,
    version_req: VersionReq,
    body: Mapping[str, Any],
    how: Calling,
    *,
    token: Secret | None,
    signing: Signing | None,
    call_id: str,
    window: int,
    stream: bool,
    interactive: bool = False,
) -> Ask:
    """Our own token and signature speak for this program alone, never for those whom it calls for.

    Raises:
        BusError: The version is none, or no capability can be called that (`bad_request`, `not_found`).
    """
    if not NAME.fullmatch(capability):
        raise BusError("not_found", f"there is no capability {capability[:100]!r}; names are namespace.verb")
    caller = how.get("caller")
    ours = caller is None or caller.trust == "self"
    given = how.get("token") or (None if caller is None else caller.token)
    scopes = None if caller is None else caller.principal.scopes
    return Ask(
        capability=capability,
        version=version_of(version_req),
        body=dict(body),
        call_id=call_id,
        signing=signing if ours else None,
        token=Secret(given) if given else (token if ours else None),
        deadline=_until(how),
        depth=how.get("depth", 0),
        within=(*how.get("within", ()), *(() if scopes is None else (scopes,))),
        trace=how.get("trace") or "",
        session_id=how.get("session_id"),
        schema_hash=how.get("schema_hash"),
        window=window,
        stream=stream,
        interactive=interactive,
    )


def encoded(message: msgspec.Struct) -> bytes:
    try:
        return msgspec.json.encode(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise BusError("bad_request", f"the body has no JSON form: {error}") from error


def _until(how: Calling) -> float | None:
    seconds, deadline = how.get("timeout_seconds"), how.get("deadline")
    if seconds is None:
        return deadline
    ends = asyncio.get_running_loop().time() + seconds
    return ends if deadline is None else min(ends, deadline)
