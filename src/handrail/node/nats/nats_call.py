"""A call as its caller made it: the same for every attempt, each of which is signed anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from handrail.core.canonical import canonical_json
from handrail.core.redact import Secret
from handrail.node.bus.interfaces import CallOptions
from handrail.node.bus.outgoing_rights import CallSigner, outgoing_rights_of, timeout_ms
from handrail.node.bus.versions import Version, VersionReq, version_of, version_text
from handrail.node.nats.messages import NatsRequest
from handrail.node.tokens.signatures import sign_call


class NatsCall(Struct, frozen=True, kw_only=True):
    capability: str
    version: Version
    body: dict[str, Any]
    call_id: str
    signing: CallSigner | None
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

    def request(self, ref: str, community: str) -> NatsRequest:
        """One attempt."""
        version = version_text(self.version)
        signed: dict[str, str] = {}
        if self.signing is not None:
            signed = sign_call(
                self.signing.identity,
                capability=self.capability,
                version=version,
                request_id=f"{self.call_id}/{ref}",
                community=self.signing.community,
                body=canonical_json(self.body),
                clock=self.signing.clock,
            )
        return NatsRequest(
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
        return timeout_ms(self.deadline)


def nats_call_for(
    capability: str,
    version_req: VersionReq,
    body: Mapping[str, Any],
    how: CallOptions,
    *,
    token: Secret | None,
    signing: CallSigner | None,
    call_id: str,
    window: int,
    stream: bool,
    interactive: bool = False,
) -> NatsCall:
    """A call as its caller made it.

    Raises:
        BusError: The version is none, or no capability can be called that (`bad_request`, `not_found`).
    """
    for_whom = outgoing_rights_of(capability, how, token=token, signing=signing)
    return NatsCall(
        capability=capability,
        version=version_of(version_req),
        body=dict(body),
        call_id=call_id,
        signing=for_whom.signing,
        token=for_whom.token,
        deadline=for_whom.deadline,
        depth=how.get("depth", 0),
        within=for_whom.within,
        trace=how.get("trace") or "",
        session_id=how.get("session_id"),
        schema_hash=how.get("schema_hash"),
        window=window,
        stream=stream,
        interactive=interactive,
    )
