"""One call as it is put to another node: in headers for a request, in an envelope for a socket."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from handrail.core.canonical import canonical_json
from handrail.core.ids import NewId
from handrail.core.redact import Secret
from handrail.node.bus.outgoing_rights import CallSigner, encode_body, is_own, outgoing_terms, timeout_ms
from handrail.node.bus.request import CallTerms
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
    terms: CallTerms
    """The terms as they leave this process, so with a `call_id`."""
    signing: CallSigner | None = None

    @property
    def request_id(self) -> str:
        return self.terms.call_id or ""

    def headers(self, attempt: int) -> dict[str, str]:
        """All headers except what the request accepts."""
        terms = self.terms
        found: dict[str, str | None] = {
            "content-type": "application/json",
            **as_headers(self._fields(self.payload)),
            "authorization": self._bearer,
            "x-hearthnet-timeout-ms": _text(timeout_ms(terms.deadline)),
            "x-hearthnet-depth": _text(terms.depth or None),
            "x-hearthnet-within": json.dumps(terms.within) if terms.within else None,
            "x-hearthnet-session-id": terms.session_id,
            "x-hearthnet-schema-hash": terms.schema_hash,
            "x-hearthnet-attempt": _text(attempt if attempt > 1 else None),
            "traceparent": terms.trace,
        }
        return {name: value for name, value in found.items() if value is not None}

    def message(self, attempt: int, after: int) -> bytes:
        """The first message on a socket: `call`, or `resume` of what was begun."""
        terms, fields = self.terms, self._fields(b"" if self.signing is None else canonical_json(self.body))
        signature = fields.pop("signature", None)
        envelope: dict[str, Any] = {
            **fields,
            "body": self.body,
            "interactive": terms.interactive,
            **_stated(
                token=None if terms.token is None else str(terms.token),
                timeout_ms=timeout_ms(terms.deadline),
                depth=terms.depth or None,
                within=terms.within or None,
                session_id=terms.session_id,
                schema_hash=terms.schema_hash,
                traceparent=terms.trace,
            ),
        }
        first: dict[str, Any] = {"type": "call", "envelope": envelope, **_stated(signature=signature)}
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
        return {**signed, **_stated(authorization=self._bearer)}

    @property
    def _bearer(self) -> str | None:
        return None if self.terms.token is None else f"Bearer {self.terms.token}"

    def _fields(self, body: bytes) -> dict[str, str]:
        """What every envelope has, signed for each attempt."""
        called = {"capability": self.capability, "version": self.version, "request_id": self.request_id}
        if self.signing is None:
            return called
        identity, community, clock, to = self.signing
        return sign_call(identity, **called, community=community, body=body, to=to, clock=clock)


def http_call_for(
    capability: str,
    version_req: VersionReq,
    body: Mapping[str, Any],
    terms: CallTerms,
    *,
    token: Secret | None,
    signing: CallSigner | None,
    new_id: NewId,
) -> HttpCall:
    """A call as its caller made it.

    Raises:
        BusError: The version is none, the name cannot be one, or the body is no JSON (`bad_request`, `not_found`).
    """
    return HttpCall(
        capability=capability,
        version=version_text(version_of(version_req)),
        body=body,
        payload=encode_body(body),
        terms=outgoing_terms(capability, terms, token=token, new_id=new_id),
        signing=signing if is_own(terms) else None,
    )


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _stated(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
