"""Admission by trust and tokens: who a caller is taken for, and what it may call.

A signature says who calls; it was checked at the door. The directory says how far a
node is trusted. A token says what its issuer allows: it is checked at every call, nested
ones among them, with the body of that call. Nothing here adds rights: what a caller
had is cut down to what the token allows too.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.core.ports import Clock, SystemClock
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import TRUST, CapabilityDescriptor, Trust, is_trusted_enough
from handrail.node.bus.request import NOBODY, Caller
from handrail.node.tokens.minute_rates import MinuteRates
from handrail.node.tokens.patterns import shared_patterns
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import LONGEST_TTL, CapabilityToken, parse_token
from handrail.node.tokens.token_store import TokenStore

LEEWAY = 30
"""Seconds that the clock of an issuer may be off."""
_PARSED = 1024


class TokenAdmission:
    """The `Admission` of a node with an identity."""

    def __init__(
        self,
        *,
        node_id: str,
        store: TokenStore,
        community: str | None = None,
        directory: Mapping[str, Trust] | None = None,
        federation: Mapping[str, Scope] | None = None,
        anonymous: Trust = "unknown",
        clock: Clock = SystemClock(),
    ) -> None:
        """`federation` says what the tokens of issuers outside the directory can be good for here.

        `anonymous` is how far a caller is trusted that neither signs nor has a token.
        """
        self._node_id = node_id
        self._store = store
        self._community = community
        self._directory = dict(directory or {})
        self._federation = dict(federation or {})
        self._anonymous = anonymous
        self._clock = clock
        self._rates = MinuteRates(clock)
        self._parsed = BoundedMemory[bytes, CapabilityToken](_PARSED, lru=True)

    async def admit(
        self, caller: Caller, token: Secret | None, descriptor: CapabilityDescriptor, body: Mapping[str, Any]
    ) -> Caller:
        """Admits a call, as `Admission.admit` describes. An admitted call counts against the limits of its token.

        Raises:
            BusError: It may not: `token_…`, `unauthorized`, `rate_limited`, `invalid_signature`, …
        """
        carried = token if token is not None else caller.token
        known = await self.identify(caller, carried)
        if not is_trusted_enough(known.trust, descriptor.trust_required):
            raise _refused(
                "unauthorized",
                f"{descriptor.full_name!r} is for callers who are {descriptor.trust_required!r} or more,"
                f" and this one is {known.trust!r}; sign the call, or bring a token",
            )
        if carried is None:
            if known.trust != "unknown":
                return known
            # Somebody unknown may call what is for everybody, and nothing by way of it.
            return Caller(principal=Principal(known.id, (descriptor.full_name,)), trust=known.trust)
        held = self._read(carried)
        if (why := held.scope.lacks(descriptor.full_name, body, descriptor.request_schema)) is not None:
            raise _refused("token_scope_insufficient", f"the token is not for this call: {why}")
        await self._count(held)
        return known

    async def identify(self, caller: Caller, token: Secret | None) -> Caller:
        """The caller as it is known, with the rights of its token, without taking that for a call.

        Raises:
            BusError: The token is not good, or not the caller's.
        """
        if self._store.is_remote:
            return await asyncio.to_thread(self._identified, caller, token)
        return self._identified(caller, token)

    def _identified(self, caller: Caller, token: Secret | None) -> Caller:
        if token is None:
            return self._by_itself(caller)
        held = self._read(token)
        self._check_now_and_here(held)
        issuer = self._issuer_trust(held)
        self._check_revoked(held)
        signer = self._node_id if caller.trust == "self" else caller.id
        self._check_shut_out(signer, held.subject)
        if not held.is_bearer and signer not in (held.subject, held.holder) and caller.id != held.subject:
            raise _refused(
                "invalid_signature", "the token is for another node than the one that signed; sign as that one"
            )
        scopes = held.scope.capabilities
        if caller.principal.scopes is not None and caller.trust != "unknown":
            scopes = shared_patterns(caller.principal.scopes, scopes)
        # By the holder, who is not the node that lends or relays: that node's own trust is not for others.
        trust = max(self._directory.get(held.holder, "unknown"), held.trust, key=TRUST.index)
        trust = min(trust, issuer, key=TRUST.index)
        return Caller(principal=Principal(held.holder, scopes), trust=trust, token=Secret(token))

    def _by_itself(self, caller: Caller) -> Caller:
        if caller.trust == "self":
            return caller
        if caller == NOBODY:
            scopes = NOBODY.principal.scopes if self._anonymous == "unknown" else None
            return Caller(principal=Principal(NOBODY.id, scopes), trust=self._anonymous)
        self._check_shut_out(caller.id)
        return Caller(principal=caller.principal, trust=self._directory.get(caller.id, caller.trust))

    def _check_shut_out(self, *nodes: str) -> None:
        if self._store.any_revoked(nodes):
            raise _refused("revoked", "this node was shut out of the community; ask one of its anchors")

    def _read(self, text: str) -> CapabilityToken:
        """The token; a signature that was checked before is not checked again."""
        key = hashlib.sha256(text[:4096].encode(errors="replace")).digest()
        found = self._parsed.get(key)
        if found is None:
            found = self._parsed[key] = parse_token(text)
        return found

    def _check_now_and_here(self, token: CapabilityToken) -> None:
        now = self._clock.now() / 1000
        if token.expires_at + LEEWAY <= now:
            raise _refused("token_expired", "the token has expired; ask for a new one")
        if token.not_before - LEEWAY > now:
            raise _refused("token_expired", "the token is not good yet; wait, or set the clock")
        if token.expires_at - token.not_before > LONGEST_TTL:
            raise _refused("token_invalid", "the token lasts longer than a day; ask for one that ends sooner")
        if token.audience is not None and token.audience != self._community:
            raise _refused("unauthorized", "the token is for another community; ask for one that is for this one")

    def _issuer_trust(self, token: CapabilityToken) -> Trust:
        """How far the issuer is trusted here."""
        issuer = token.issuer
        if self._store.any_revoked([issuer]):
            raise _refused("revoked", "the issuer of the token was shut out of the community; ask another for a token")
        if issuer == self._node_id:
            if not token.is_relayed and not self._store.is_known(token.id):
                raise _refused("token_invalid", "this node has no record of the token; ask for a new one")
            return "self"
        level = self._directory.get(issuer, "unknown")
        if is_trusted_enough(level, "member"):
            return level
        allowed = self._federation.get(issuer)
        if allowed is not None:
            if not token.scope.is_within(allowed):
                raise _refused("federation_forbidden", _more_than(allowed))
            return "member"
        if level == "federated" or token.issued_via == "federation":
            raise _refused("not_federated", "the community of the token's issuer is not federated with this one")
        raise _refused("token_invalid", self._not_known(issuer))

    def _not_known(self, issuer: str) -> str:
        return (
            f"the node {self._node_id} does not trust the token's issuer, {issuer}; ask a member for a"
            " token, or have the issuer's id written under [node.issuers] there"
        )

    def _check_revoked(self, token: CapabilityToken) -> None:
        ids = [each.id for each in self._store.chain(token)]
        if self._store.any_revoked([*ids, token.parent or token.id]):
            raise _refused("token_revoked", "the token was revoked; ask for a new one")

    async def _count(self, token: CapabilityToken) -> None:
        """Take a call off the limits of the token and of all that it was made from."""
        chain = await asyncio.to_thread(self._store.chain, token) if self._store.is_remote else self._store.chain(token)
        rates = {self._key(each): most for each in chain if (most := each.scope.rate_limit_per_minute) is not None}
        if (wait := self._rates.wait(rates)) > 0:
            raise _refused("rate_limited", "the token allows no more calls in this minute", retry_after_ms=wait)
        self._rates.note(rates)
        totals = {self._key(each): most for each in chain if (most := each.scope.max_calls_total) is not None}
        until = max(each.expires_at for each in chain)
        if totals and not await asyncio.to_thread(self._store.count, totals, until):
            raise _refused("token_scope_insufficient", "the calls of the token are used up; ask for a new one")

    def _key(self, token: CapabilityToken) -> str:
        """What its calls are counted by: an issuer, who chooses the ids of its tokens, uses up nobody else's."""
        return token.id if token.issuer == self._node_id else f"{token.issuer}#{token.id}"


def _more_than(allowed: Scope) -> str:
    can = ", ".join(allowed.capabilities)
    return f"the token is for more than its issuer may give away here, which is {can}; call with one for that or less"


def _refused(code: str, why: str, retry_after_ms: int | None = None) -> BusError:
    return BusError(code, why, outcome="forbidden", retry_after_ms=retry_after_ms)
