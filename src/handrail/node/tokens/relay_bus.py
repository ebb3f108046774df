"""Other nodes as a node lets its callers use them: it calls there in its own hand, and keeps their tokens to itself.

A token that names nobody is money. So the token of a caller never leaves the node that it was shown to. In its place
goes one for this node alone, with the same rights, whose calls this node signs: whoever receives it can do nothing
with it. What this node does for itself goes out as it is.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from handrail.core.context import Principal
from handrail.core.ports import Clock, SystemClock
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import is_trusted_enough
from handrail.node.bus.interfaces import Bus, CallOptions, CallStream, CapabilityOffer
from handrail.node.bus.request import OWN, Caller
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
        self._made: OrderedDict[tuple[bytes, Lent], tuple[int, Secret]] = OrderedDict()

    @property
    def node_id(self) -> str:
        return self._inside.node_id

    async def discover(self, name: str | None = None) -> Sequence[CapabilityOffer]:
        return [each for each in await self._inside.discover(name) if not each.descriptor.name.startswith(_OURS)]

    async def call(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **how: Unpack[CallOptions]
    ) -> dict[str, Any]:
        return await self._inside.call(capability, version_req, body, **self._relayed(how))

    def stream(
        self,
        capability: str,
        version_req: VersionReq,
        body: Mapping[str, Any],
        *,
        interactive: bool = False,
        **how: Unpack[CallOptions],
    ) -> CallStream:
        return self._inside.stream(capability, version_req, body, interactive=interactive, **self._relayed(how))

    def _relayed(self, how: CallOptions) -> CallOptions:
        caller = how.get("caller") or OWN
        given = how.get("token") or caller.token
        said: CallOptions = {**how}
        if caller.trust == "self" and given is None:
            return said
        if (id := how.get("call_id")) is not None:
            # Over there all our callers are one node: an id that two of them give must not be one call.
            said["call_id"] = hashlib.sha256(f"{caller.id} {id}".encode()).hexdigest()[:32]
        if given is None:
            return said
        said["token"] = token = self._token(
            given, "trusted" if is_trusted_enough(caller.trust, "trusted") else "member"
        )
        said["caller"] = Caller(principal=Principal(OWN.id, caller.principal.scopes), trust=OWN.trust, token=token)
        return said

    def _token(self, given: str, trust: Lent) -> Secret:
        """Made once for many calls."""
        key = (hashlib.sha256(given.encode(errors="replace")).digest(), trust)
        until, text = self._made.get(key, (0, None))
        if text is None or until - self._clock.now() // 1000 < TTL // 2:
            token, text = relayed_token(self._identity, parse_token(given), trust=trust, ttl=TTL, clock=self._clock)
            self._made[key] = (token.expires_at, text)
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return text
