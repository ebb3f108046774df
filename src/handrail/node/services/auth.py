"""Tokens as capabilities: `auth.token.issue`, `auth.token.revoke` and `auth.token.introspect`.

Nobody gains a right here. Who brings a token is given a part of it; only the node itself
and its anchors are given new ones, and those too are held to the scopes of every call
above, so that a tool which asks for tokens gets no more than it was allowed. Tokens of
others are as if they did not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from handrail.core.errors import BusError
from handrail.core.ports import Clock, SystemClock
from handrail.node.bus.descriptor import CapabilityDescriptor, is_trusted_enough
from handrail.node.bus.interfaces import Handler
from handrail.node.bus.request import RouteRequest
from handrail.node.services.schema_parts import TEXT, array, closed_object, full_object, request_schema_of
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.patterns import EVERYTHING, is_inside
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import ANYBODY, LONGEST_TTL, issue, parse_token
from handrail.node.tokens.token_store import IssuedToken, TokenStore

_SCOPE = closed_object(
    {
        "capabilities": array(TEXT, minItems=1),
        "params_constraints": {"type": "object", "additionalProperties": {"type": "array"}},
        "rate_limit_per_minute": {"type": ["integer", "null"], "minimum": 1},
        "max_calls_total": {"type": ["integer", "null"], "minimum": 1},
    },
    description="What the token allows. Omitted fields are taken from the token that it is derived from.",
)
_ISSUE: dict[str, Any] = {
    "scope": _SCOPE,
    "subject": {"type": "string", "description": "The id of the node that may use it, or * for any holder."},
    "ttl_seconds": {"type": "integer", "minimum": 1, "maximum": LONGEST_TTL},
}
_ID: dict[str, Any] = {"jti": {"type": "string", "maxLength": 64, "description": "The id of the token."}}
_CLAIMS: dict[str, Any] = {"type": "object", "description": "The claims that the issuer signed."}
_TOLD: dict[str, Any] = {
    "active": {"type": "boolean", "description": "Whether it is valid now."},
    "revoked": {"type": "boolean", "description": "Whether it, or a token that it was derived from, was revoked."},
    "calls": {"type": "integer", "description": "The calls counted so far, if their number is limited."},
    "claims": _CLAIMS,
}


class AuthService:
    """The tokens of this node."""

    def __init__(
        self,
        identity: Identity,
        store: TokenStore,
        *,
        community: str | None = None,
        grants: Scope | None = None,
        clock: Clock = SystemClock(),
    ) -> None:
        """`grants` is the most that a new token can be good for; None is everything."""
        self._identity = identity
        self._store = store
        self._community = community
        self._grants = grants or Scope.of([EVERYTHING])
        self._clock = clock

    def capabilities(self) -> Iterable[tuple[CapabilityDescriptor, Handler]]:
        yield _ISSUES, self.issue
        yield _REVOKES, self.revoke
        yield _INTROSPECTS, self.introspect

    async def issue(self, request: RouteRequest) -> dict[str, Any]:
        wanted = request.input.get("scope") or {}
        parent = None if request.caller.token is None else parse_token(request.caller.token)
        if parent is None and not _governs(request):
            raise BusError(
                "unauthorized",
                "only anchors of the community get new tokens; send a token to get one with part of its rights",
                outcome="forbidden",
            )
        if parent is None and not wanted.get("capabilities"):
            raise BusError("bad_request", "say what the token allows: scope.capabilities")
        scope = (self._grants if parent is None else parent.scope).narrowed(**wanted)
        _check_above(request, scope)
        token, text = await asyncio.to_thread(  # it waits for the disk
            issue,
            self._identity,
            self._store,
            scope,
            subject=request.input.get("subject", ANYBODY),
            audience=self._community,
            ttl=request.input.get("ttl_seconds"),
            parent=parent,
            clock=self._clock,
        )
        # As plain text: a `Secret` would reach its caller masked. The record masks it by how it looks.
        return {"output": {"token": str(text), "claims": token.to_dict()}}

    async def revoke(self, request: RouteRequest) -> dict[str, Any]:
        entry = await asyncio.to_thread(self._visible, request, request.input["jti"])
        await asyncio.to_thread(self._store.revoke, entry.token.id)
        return {"output": {"jti": entry.token.id, "revoked": True}}

    async def introspect(self, request: RouteRequest) -> dict[str, Any]:
        id = request.input.get("jti")
        if id:
            entries = [await asyncio.to_thread(self._visible, request, id)]
        else:
            entries = await asyncio.to_thread(self._own, request)
        return {"output": {"tokens": [self._told(entry) for entry in entries]}}

    def _own(self, request: RouteRequest) -> list[IssuedToken]:
        return [entry for entry in self._store.issued() if self._is_own(request, entry)]

    def _visible(self, request: RouteRequest, id: str) -> IssuedToken:
        entry = self._store.get(id)
        if entry is None or not self._is_own(request, entry):
            raise BusError("not_found", "there is no such token; check its id")
        return entry

    def _is_own(self, request: RouteRequest, entry: IssuedToken) -> bool:
        """Whether the caller may know of it: it has it, or made it from its own; or is one of those who may issue."""
        carried = request.caller.token
        if carried is None:
            return _governs(request) or entry.token.subject == request.caller.id
        held = parse_token(carried)
        # Other issuers can give their tokens the ids of ours.
        return held.issuer == entry.token.issuer and held.id in [each.id for each in self._store.chain(entry.token)]

    def _told(self, entry: IssuedToken) -> dict[str, Any]:
        token = entry.token
        active = not entry.revoked and token.not_before <= self._clock.now() // 1000 < token.expires_at
        return {"active": active, "revoked": entry.revoked, "calls": entry.calls, "claims": token.to_dict()}


def _governs(request: RouteRequest) -> bool:
    return request.caller.token is None and is_trusted_enough(request.caller.trust, "anchor")


def _check_above(request: RouteRequest, scope: Scope) -> None:
    """Hold a new token to what the caller, and every call above this one, may."""
    context = request.context
    for allowed in (request.caller.principal.scopes, context.scopes, *context.within):
        if allowed is not None and not all(is_inside(each, allowed) for each in scope.capabilities):
            raise BusError(
                "token_scope_insufficient",
                "a token cannot allow more than the call that requests it; request fewer capabilities",
                outcome="forbidden",
            )


_ISSUES = CapabilityDescriptor(
    name="auth.token.issue",
    description="Issue a token: with part of the rights of the token in the call or, for anchors, a new one.",
    request_schema=request_schema_of(closed_object(_ISSUE, ["scope"])),
    response_schema=full_object({"token": {"type": "string", "writeOnly": True}, "claims": _CLAIMS}),
    side_effects=True,
)
_REVOKES = CapabilityDescriptor(
    name="auth.token.revoke",
    description="Revoke a token, and every token that was issued from it.",
    request_schema=request_schema_of(full_object(_ID)),
    response_schema=full_object({"jti": TEXT, "revoked": {"type": "boolean"}}),
    side_effects=True,
    idempotent=True,
)
_INTROSPECTS = CapabilityDescriptor(
    name="auth.token.introspect",
    description="Show a token by its id, or all tokens that the caller may see: the rights, and whether it is valid.",
    request_schema=request_schema_of(closed_object(_ID)),
    response_schema=full_object({"tokens": array(full_object(_TOLD))}),
)
