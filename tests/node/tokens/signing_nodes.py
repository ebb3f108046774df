"""Nodes with keys that every run has again, and a clock that stands."""

from __future__ import annotations

import weakref
from typing import Any

from handrail.core.context import Principal
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import Caller
from handrail.node.tokens.admission import TokenAdmission
from handrail.node.tokens.identity import Identity
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import CapabilityToken, issue
from handrail.node.tokens.token_store import TokenStore
from handrail.testing.clock import FixedClock

HOME, ADA, BOB, EVE = (Identity.from_seed(bytes([number]) * 32) for number in (1, 2, 3, 4))
QUERY = CapabilityDescriptor(name="rag.query")
INGEST = CapabilityDescriptor(name="rag.ingest", trust_required="trusted")


class TokenIssuingNode:
    """A node that issues tokens and admits callers."""

    def __init__(self, store: TokenStore | None = None, **options: Any) -> None:
        self.clock = FixedClock()
        self.store = store or TokenStore(clock=self.clock)
        weakref.finalize(self, self.store.close)
        self.admission = TokenAdmission(
            node_id=HOME.node_id, store=self.store, community="home", clock=self.clock, **options
        )

    def issue(self, *capabilities: str, **options: Any) -> tuple[CapabilityToken, Secret]:
        """A token of this node, for any holder, unless the options say otherwise."""
        limits = {key: options.pop(key) for key in _LIMITS if key in options}
        options = {"audience": "home", "clock": self.clock, **options}
        identity = options.pop("identity", HOME)
        return issue(identity, self.store, Scope.of(capabilities, **limits), **options)

    async def admit(
        self, caller: Caller, token: str | None, capability: CapabilityDescriptor = QUERY, **params: Any
    ) -> Caller:
        return await self.admission.admit(
            caller, None if token is None else Secret(token), capability, {"params": params}
        )


_LIMITS = ("params_constraints", "rate_limit_per_minute", "max_calls_total")


def signed_by(identity: Identity) -> Caller:
    """What a door makes of a good signature."""
    return Caller(principal=Principal(identity.node_id))
