"""What other nodes are shown of those whom a node calls for: its own word, and never their token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import pytest

from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import CapabilityDescriptor, Trust
from handrail.node.bus.interfaces import CallOptions, CallStream, CapabilityOffer, StreamOptions
from handrail.node.bus.request import NOBODY, OWN, Caller, CallTerms
from handrail.node.bus.versions import VersionReq
from handrail.node.tokens.relay_bus import TTL, RelayBus
from handrail.node.tokens.token import CapabilityToken, parse_token
from tests.node.tokens.signing_nodes import ADA, BOB, EVE, HOME, INGEST, TokenIssuingNode, signed_by


class Told:
    """A bus to elsewhere that keeps how it was called."""

    node_id = "elsewhere"

    def __init__(self) -> None:
        self.terms: list[CallTerms] = []

    async def call(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> dict[str, Any]:
        self.terms.append(CallTerms.of(options))
        return {"output": {}}

    def stream(
        self, capability: str, version_req: VersionReq, body: Mapping[str, Any], **options: Unpack[StreamOptions]
    ) -> CallStream:
        raise NotImplementedError

    async def discover(self, name: str | None = None) -> Sequence[CapabilityOffer]:
        named = ("rag.query", "auth.token.issue", "authors.list")
        return [
            CapabilityOffer(node_id="x", descriptor=CapabilityDescriptor(name=each), schema_hash="") for each in named
        ]


class Relaying(TokenIssuingNode):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.told = Told()
        self.bus = RelayBus(self.told, HOME, clock=self.clock)

    async def sent(self, caller: Caller, token: str | None = None, **how: Any) -> CallTerms:
        """What goes out for a caller that was let in here."""
        known = caller if caller is OWN else await self.admit(caller, token)
        await self.bus.call("rag.query", (1, 0), {}, caller=known, token=known.token, **how)
        return self.told.terms[-1]

    async def shown(self, caller: Caller, token: str | None = None) -> tuple[CapabilityToken, Secret]:
        text = (await self.sent(caller, token)).token
        assert text is not None and text != token
        return parse_token(text), Secret(text)


async def test_another_node_is_shown_the_same_rights_in_our_own_hand_and_not_the_token_of_the_caller() -> None:
    home = Relaying()
    token, text = home.issue("rag.*@1.*", params_constraints={"rag.ingest:corpus": ["a"]}, rate_limit_per_minute=9)

    shown, _ = await home.shown(NOBODY, text)
    caller = home.told.terms[-1].caller

    assert (shown.scope, shown.id, shown.audience) == (token.scope, token.id, "home")
    assert (shown.issuer, shown.subject) == (HOME.node_id, HOME.node_id)
    assert shown.expires_at == min(token.expires_at, home.clock.now() // 1000 + TTL)
    assert (caller.trust, caller.principal.scopes) == ("self", ("rag.*@1.*",))
    told = home.told.terms[-1]
    assert text not in repr(told) and text not in (str(told.token), str(told.caller.token))


async def test_what_the_node_does_for_itself_goes_out_as_it_is_and_who_has_no_token_gets_none() -> None:
    home = Relaying(directory={ADA.node_id: "member"})

    assert await home.sent(OWN, call_id="1") == CallTerms(caller=OWN, call_id="1")
    sent = await home.sent(signed_by(ADA))
    assert sent.token is None
    assert sent.caller == Caller(principal=Principal(ADA.node_id), trust="member"), "so that nobody signs for it"


async def test_whom_a_node_calls_for_is_not_that_node_over_there_and_has_none_of_its_trust() -> None:
    home = Relaying()
    there = TokenIssuingNode(directory={HOME.node_id: "anchor"})
    token, text = home.issue("rag.*@1.*", subject=ADA.node_id)
    _, shown = await home.shown(signed_by(ADA), text)

    known = await there.admit(signed_by(HOME), shown)

    assert (known.id, known.trust) == (f"{HOME.node_id}#{token.id}", "member")
    assert await there.admit(known, shown) == known, "also in the calls that are made for it"
    with pytest.raises(BusError, match="unauthorized"):
        await there.admit(signed_by(HOME), shown, INGEST)


@pytest.mark.parametrize("lent", ["member", "trusted"])
async def test_what_a_token_lends_goes_along_as_far_as_the_node_is_trusted(lent: Trust) -> None:
    home, there = Relaying(), TokenIssuingNode(directory={HOME.node_id: "trusted"})
    _, shown = await home.shown(NOBODY, home.issue("*", trust=lent)[1])

    assert (await there.admit(signed_by(HOME), shown)).trust == lent


async def test_whoever_was_shown_it_can_do_nothing_with_it() -> None:
    home = Relaying(directory={BOB.node_id: "anchor"})
    third = TokenIssuingNode(directory={HOME.node_id: "member", BOB.node_id: "anchor"})
    _, shown = await home.shown(NOBODY, home.issue("*")[1])

    for place in (home, third):
        for thief in (NOBODY, signed_by(BOB), signed_by(EVE)):
            with pytest.raises(BusError, match="invalid_signature"):
                await place.admit(thief, shown)
    assert (await home.admit(signed_by(HOME), shown)).id.startswith(f"{HOME.node_id}#"), "it may come back to us"


async def test_one_relayed_token_serves_many_calls_and_ends_with_the_one_it_is_for() -> None:
    home = Relaying()
    token, text = home.issue("*", ttl=900)

    first, again = (await home.shown(NOBODY, text))[1], (await home.shown(NOBODY, text))[1]
    home.clock.advance(TTL / 2 + 1)
    later = await home.shown(NOBODY, text)

    assert first == again != later[1]
    assert later[0].expires_at == token.expires_at


async def test_two_callers_with_one_call_id_are_two_calls_over_there() -> None:
    home = Relaying()
    tokens = [home.issue("*")[1] for _ in range(2)]

    ids = [(await home.sent(NOBODY, text, call_id="1")).call_id for text in (*tokens, tokens[0])]

    assert ids[0] == ids[2] != ids[1]


async def test_nobody_else_is_asked_for_tokens() -> None:
    offers = await Relaying().bus.discover()

    assert [each.descriptor.name for each in offers] == ["rag.query", "authors.list"]


async def test_a_token_that_is_too_long_to_be_passed_on_is_refused_with_why() -> None:
    home = Relaying()
    _, text = home.issue("rag.*", params_constraints={"rag.x:y": [f"{number:018}" for number in range(54)]})
    assert len(text) > 1_900

    with pytest.raises(BusError, match="too long to be passed on"):
        await home.shown(NOBODY, text)
