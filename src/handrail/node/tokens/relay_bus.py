"""Lets a node's callers use other nodes: the node calls there in its own name, and keeps its callers' tokens to itself.

A token that names nobody is money. So the token of a caller never leaves the node that it was shown to. In its place
goes one for this node alone, with the same rights, whose calls this node signs: whoever receives it can do nothing
with it. What this node does for itself goes out as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from msgspec.structs import replace

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.context import Principal
from handrail.core.ports import Clock, SystemClock
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import is_trusted_enough
from handrail.node.bus.interfaces import Bus, CallOptions, CallStream, CapabilityOffer, StreamOptions
from handrail.node.bus.request import OWN, Caller, CallTerms
from handrail.node.bus.versions import VersionReq
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.token import Lent, parse_token, relayed_token

TTL = 600
"""Seconds that a relayed token is good for, at most."""
_OURS = ("auth.", "desk.", "settings.")
"""Tokens, settings, and what a person does at a node, are its own affair: nobody else is asked for ours."""
_KEPT = 1024


class RelayBus:
    """A `Bus` to other nodes. The one inside signs what is this node's own, with this identity."""

    def __init__(self, inside: Bus, identity: Identity, *, clock: Clock = SystemClock()) -> None:
        self._inside = inside
        self._identity = identity
        self._clock = clock
        self._made = BoundedMemory[tuple[bytes, Lent], tuple[int, Secret]](_KEPT)

    @property
    def node_id(self) -> str:
        return self._inside.node_id

    async def discover(self, name: str | None = None) -> Sequence[CapabilityOffer]:
        return [each for each in await self._inside.discover(name) if not each.descriptor.name.startswith(_OURS)]

    async def call(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> dict[str, Any]:
        return await self._inside.call(capability, version_req, body, terms=self._relayed(CallTerms.of(options)))

    def stream(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[StreamOptions]
    ) -> CallStream:
        return self._inside.stream(capability, version_req, body, terms=self._relayed(CallTerms.of(options)))

    def _relayed(self, terms: CallTerms) -> CallTerms:
        caller, call_id = terms.caller, terms.call_id
        given = terms.token or caller.token
        if caller.trust == "self" and given is None:
            return terms
        if call_id is not None:
            # Over there all our callers are one node: an id that two of them give must not be one call.
            call_id = hashlib.sha256(f"{caller.id} {call_id}".encode()).hexdigest()[:32]
        if given is None:
            return replace(terms, call_id=call_id)
        token = self._token(given, "trusted" if is_trusted_enough(caller.trust, "trusted") else "member")
        ours = Caller(principal=Principal(OWN.id, caller.principal.scopes), trust=OWN.trust, token=token)
        return replace(terms, call_id=call_id, token=token, caller=ours)

    def _token(self, given: str, trust: Lent) -> Secret:
        """Made once for many calls."""
        key = (hashlib.sha256(given.encode(errors="replace")).digest(), trust)
        until, text = self._made.get(key, (0, None))
        if text is None or until - self._clock.now() // 1000 < TTL // 2:
            token, text = relayed_token(self._identity, parse_token(given), trust=trust, ttl=TTL, clock=self._clock)
            self._made[key] = (token.expires_at, text)
        return text
