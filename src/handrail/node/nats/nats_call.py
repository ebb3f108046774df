"""A call as its caller made it: the same for every attempt, each of which has a signature of its own."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from handrail.core.canonical import canonical_json
from handrail.node.bus.outgoing_rights import CallSigner, timeout_ms
from handrail.node.bus.request import CallTerms
from handrail.node.bus.versions import Version, version_text
from handrail.node.nats.messages import NatsRequest
from handrail.node.tokens.signatures import sign_call


class NatsCall(Struct, frozen=True, kw_only=True):
    capability: str
    version: Version
    body: dict[str, Any]
    terms: CallTerms
    """The terms as they leave this process, so with a `call_id`."""
    signing: CallSigner | None
    window: int
    stream: bool

    @property
    def call_id(self) -> str:
        return self.terms.call_id or ""

    def request(self, ref: str, community: str) -> NatsRequest:
        """The request of one attempt."""
        version, terms = version_text(self.version), self.terms
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
            token=str(terms.token or ""),
            timeout_ms=self.timeout_ms,
            depth=terms.depth,
            within=terms.within,
            traceparent=terms.trace or "",
            window=self.window,
            stream=self.stream,
            interactive=terms.interactive,
            session_id=terms.session_id,
            schema_hash=terms.schema_hash,
        )

    @property
    def timeout_ms(self) -> int | None:
        return timeout_ms(self.terms.deadline)
