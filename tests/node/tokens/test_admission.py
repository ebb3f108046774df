"""Admission: who is let in as whom, and each refusal with its code."""

from __future__ import annotations

from typing import Any

import pytest

from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.node.bus.descriptor import CapabilityDescriptor, Trust
from handrail.node.bus.request import NOBODY, OWN, Caller
from handrail.node.bus.wire_codes import WIRE
from handrail.node.tokens.scope import Scope
from tests.node.tokens.signing_nodes import ADA, BOB, EVE, HOME, INGEST, TokenIssuingNode, signed_by
from tests.node.tokens.test_token import HEADER, made


async def refused(home: TokenIssuingNode, caller: Caller, token: str | None, *args: Any, **params: Any) -> str:
    with pytest.raises(BusError) as caught:
        await home.admit(caller, token, *args, **params)
    assert caught.value.code in WIRE
    assert caught.value.outcome == "forbidden"
    assert token is None or token not in str(caught.value)
    return caught.value.code


async def test_a_bearer_is_a_member_with_the_rights_of_its_token_and_is_not_its_issuer() -> None:
    home = TokenIssuingNode()
    token, text = home.issue("rag.*@1.*")

    caller = await home.admit(NOBODY, text)

    assert (caller.id, caller.trust) == (f"{HOME.node_id}#{token.id}", "member")
    assert (caller.principal.scopes, caller.token) == (("rag.*@1.*",), text)


async def test_a_named_token_is_for_whoever_signs_as_its_subject() -> None:
    home = TokenIssuingNode(directory={ADA.node_id: "trusted"})
    _, text = home.issue("rag.*@1.*", subject=ADA.node_id)

    caller = await home.admit(signed_by(ADA), text, INGEST)

    assert (caller.id, caller.trust) == (ADA.node_id, "trusted")
    assert await refused(home, signed_by(EVE), text) == "invalid_signature"
    assert await refused(home, NOBODY, text) == "invalid_signature"


async def test_a_bearer_is_a_member_unless_its_issuer_lends_more_and_has_it() -> None:
    home = TokenIssuingNode(directory={BOB.node_id: "member", ADA.node_id: "anchor"})

    assert await refused(home, NOBODY, home.issue("*")[1], INGEST) == "unauthorized"
    assert await refused(home, NOBODY, home.issue("*", identity=BOB, trust="trusted")[1], INGEST) == "unauthorized"
    for issuer in (HOME, ADA):
        assert (
            await home.admit(NOBODY, home.issue("*", identity=issuer, trust="trusted")[1], INGEST)
        ).trust == "trusted"


async def test_nobody_is_more_than_the_issuer_of_its_token() -> None:
    home = TokenIssuingNode(directory={ADA.node_id: "anchor", BOB.node_id: "member"})
    _, text = home.issue("*", identity=BOB, subject=ADA.node_id)

    assert (await home.admit(signed_by(ADA), text)).trust == "member"
    assert (await home.admit(signed_by(ADA), None)).trust == "anchor"


async def test_the_program_itself_may_everything_unless_it_brings_a_token() -> None:
    home = TokenIssuingNode()
    _, text = home.issue("rag.query@1.0", subject=HOME.node_id)

    assert await home.admit(OWN, None, INGEST) is OWN
    assert (await home.admit(OWN, text)).principal.scopes == ("rag.query@1.0",)
    assert await refused(home, OWN, text, INGEST) == "unauthorized"


async def test_a_caller_that_is_known_needs_no_token() -> None:
    home = TokenIssuingNode(directory={ADA.node_id: "member"})

    assert (await home.admit(signed_by(ADA), None)).trust == "member"
    assert await refused(home, signed_by(EVE), None) == "unauthorized"
    assert await refused(home, NOBODY, None) == "unauthorized"


async def test_a_stranger_may_call_what_is_for_everybody_and_nothing_by_way_of_it() -> None:
    public = CapabilityDescriptor(name="node.hello", trust_required="unknown")

    for caller in (NOBODY, signed_by(EVE)):
        assert (await TokenIssuingNode().admit(caller, None, public)).principal == Principal(
            caller.id, ("node.hello@1.0",)
        )


async def test_a_node_may_be_told_to_trust_whoever_comes() -> None:
    caller = await TokenIssuingNode(anonymous="member").admit(NOBODY, None)

    assert (caller.id, caller.trust, caller.principal.scopes) == ("anonymous", "member", None)


async def test_a_caller_keeps_no_right_that_its_token_lacks_and_gains_none_from_it() -> None:
    home = TokenIssuingNode()
    _, text = home.issue("rag.*@1.*", "llm.chat@2.0")
    narrow = Caller(principal=Principal("ada", ("rag.query@*", "market.*@*")), trust="member")

    caller = await home.admission.identify(narrow, text)

    assert caller.principal.scopes == ()
    narrow = Caller(principal=Principal("ada", ("rag.query@1.0", "market.*@*")), trust="member")
    assert (await home.admission.identify(narrow, text)).principal.scopes == ("rag.query@1.0",)


async def test_what_a_caller_carries_holds_where_nobody_says_another_token() -> None:
    home = TokenIssuingNode()
    _, text = home.issue("rag.query@1.0")
    caller = await home.admit(NOBODY, text)

    assert (await home.admit(caller, None)).principal == caller.principal
    assert await refused(home, caller, None, CapabilityDescriptor(name="market.list")) == "token_scope_insufficient"


# The table of errors.


async def test_a_token_that_is_none_is_a_bad_request() -> None:
    assert await refused(TokenIssuingNode(), NOBODY, "hntoken://v1/x") == "bad_request"


async def test_a_token_that_was_changed_is_invalid() -> None:
    _, text = TokenIssuingNode().issue("*")

    assert (
        await refused(TokenIssuingNode(), NOBODY, text[:-4] + ("AAAA" if text[-4:] != "AAAA" else "BBBA"))
        == "token_invalid"
    )


@pytest.mark.parametrize(("seconds", "good"), [(-31, False), (-30, True), (3629, True), (3630, False)])
async def test_a_token_is_good_in_its_time_give_or_take_a_little(seconds: int, good: bool) -> None:
    home = TokenIssuingNode()
    _, text = home.issue("*")
    home.clock.advance(seconds)

    if good:
        assert (await home.admit(NOBODY, text)).trust == "member"
    else:
        assert await refused(home, NOBODY, text) == "token_expired"


async def test_a_token_of_another_community_is_not_for_us() -> None:
    home = TokenIssuingNode()

    assert await refused(home, NOBODY, home.issue("*", audience="elsewhere")[1]) == "unauthorized"
    assert (await home.admit(NOBODY, home.issue("*", audience=None)[1])).trust == "member"


async def test_a_revoked_token_is_good_no_more_from_then_on_nor_what_was_made_from_it() -> None:
    home = TokenIssuingNode()
    parent, text = home.issue("*")
    between, second = home.issue("*", parent=parent)
    _, third = home.issue("*", parent=between)
    for each in (text, second, third):
        await home.admit(NOBODY, each)

    home.store.revoke(between.id)

    assert (await home.admit(NOBODY, text)).trust == "member"
    assert await refused(home, NOBODY, second) == "token_revoked"
    assert await refused(home, NOBODY, third) == "token_revoked"


async def test_a_revoked_token_ends_what_was_made_of_it_at_any_depth() -> None:
    home = TokenIssuingNode()
    token, text = root, _ = home.issue("*")
    for _ in range(4):
        token, text = home.issue("*", parent=token)
    await home.admit(NOBODY, text)

    home.store.revoke(root.id)

    assert await refused(home, NOBODY, text) == "token_revoked"


async def test_the_revoked_parent_of_a_token_from_elsewhere_ends_it_too() -> None:
    home, elsewhere = TokenIssuingNode(directory={ADA.node_id: "member"}), TokenIssuingNode()
    parent, _ = elsewhere.issue("*", identity=ADA)
    _, text = elsewhere.issue("*", identity=ADA, parent=parent)
    await home.admit(NOBODY, text)

    home.store.revoke(parent.id)

    assert await refused(home, NOBODY, text) == "token_revoked"


@pytest.mark.requirement("hearthnet.authority")
async def test_a_token_that_does_not_cover_the_capability_is_insufficient() -> None:
    home = TokenIssuingNode()
    _, text = home.issue("rag.query@1.0", params_constraints={"corpus": ["a"]})

    assert (await home.admit(NOBODY, text, corpus="a")).trust == "member"
    assert await refused(home, NOBODY, text, corpus="b") == "token_scope_insufficient"
    assert await refused(home, NOBODY, text) == "token_scope_insufficient"
    other = CapabilityDescriptor(name="rag.query", version=(1, 1))
    assert await refused(home, NOBODY, text, other, corpus="a") == "token_scope_insufficient"


async def test_when_an_issuer_is_shut_out_its_tokens_are_too_and_its_own_calls() -> None:
    home = TokenIssuingNode(directory={ADA.node_id: "member"})
    _, text = home.issue("*", identity=ADA)
    await home.admit(NOBODY, text)

    home.store.revoke(ADA.node_id)

    assert await refused(home, NOBODY, text) == "revoked"
    assert await refused(home, signed_by(ADA), None) == "revoked"
    assert await refused(home, signed_by(ADA), home.issue("*")[1]) == "revoked", "whatever token it brings"
    assert await refused(home, signed_by(ADA), home.issue("*", subject=ADA.node_id)[1]) == "revoked"


@pytest.mark.parametrize("level", [None, "unknown", "federated"])
async def test_a_token_of_an_issuer_that_is_no_member_is_not_trusted(level: Trust | None) -> None:
    home = TokenIssuingNode(directory={} if level is None else {EVE.node_id: level})
    _, text = home.issue("*", identity=EVE)

    assert await refused(home, NOBODY, text) == ("not_federated" if level == "federated" else "token_invalid")


async def test_a_federated_issuer_gives_what_it_was_allowed_to_give() -> None:
    home = TokenIssuingNode(federation={EVE.node_id: Scope.of(["rag.*@1.*"])})

    caller = await home.admit(NOBODY, home.issue("rag.query@1.0", identity=EVE, issued_via="federation")[1])

    assert caller.trust == "member"
    assert await refused(home, NOBODY, home.issue("*", identity=EVE)[1]) == "federation_forbidden"
    stranger = home.issue("rag.query@1.0", identity=ADA, issued_via="federation")[1]
    assert await refused(home, NOBODY, stranger) == "not_federated"


async def test_a_refusal_for_the_sake_of_the_issuer_says_whose_word_is_taken_for_what() -> None:
    wide = TokenIssuingNode(federation={EVE.node_id: Scope.of(["rag.*@1.*"])})
    for home, said in ((TokenIssuingNode(), (HOME.node_id, EVE.node_id)), (wide, ("rag.*@1.*",))):
        with pytest.raises(BusError) as caught:
            await home.admit(NOBODY, home.issue("*", identity=EVE)[1])
        assert all(each in str(caught.value) for each in said)


async def test_a_token_of_this_node_that_it_does_not_know_is_invalid() -> None:
    """Its revocations would be unknown too."""
    home = TokenIssuingNode()
    _, text = TokenIssuingNode().issue("*")

    assert await refused(home, NOBODY, text) == "token_invalid"


async def test_a_token_from_elsewhere_lasts_a_day_at_most_too() -> None:
    """It ends by its time alone: nobody here hears of its revocation."""
    home = TokenIssuingNode(directory={ADA.node_id: "member"})
    token, _ = home.issue("*", identity=ADA)
    claims = {**token.to_dict(), "exp": token.not_before + 86_401}

    assert await refused(home, NOBODY, made(HEADER, claims, ADA)) == "token_invalid"


async def test_an_issuer_that_takes_the_ids_of_another_uses_up_none_of_its_calls() -> None:
    home = TokenIssuingNode(directory={EVE.node_id: "member"})
    token, text = home.issue("*", max_calls_total=2, rate_limit_per_minute=2)
    forged = {**token.to_dict(), "iss": EVE.node_id}
    for claims in (forged, {**forged, "jti": "mine", "parent": token.id}):
        await home.admit(NOBODY, made(HEADER, claims, EVE))

    for _ in range(2):
        await home.admit(NOBODY, text)
    assert await refused(home, NOBODY, text) == "rate_limited"


# Limits.


async def test_a_rate_holds_in_every_minute() -> None:
    home = TokenIssuingNode()
    _, text = home.issue("*", rate_limit_per_minute=2)
    await home.admit(NOBODY, text)
    home.clock.advance(30)
    await home.admit(NOBODY, text)

    with pytest.raises(BusError) as caught:
        await home.admit(NOBODY, text)

    assert (caught.value.code, caught.value.retry_after_ms) == ("rate_limited", 30_000)
    home.clock.advance(30)
    await home.admit(NOBODY, text)
    assert await refused(home, NOBODY, text) == "rate_limited"


async def test_the_clock_on_the_wall_does_not_move_the_minute() -> None:
    home = TokenIssuingNode()
    _, text = home.issue("*", rate_limit_per_minute=1)
    await home.admit(NOBODY, text)
    home.clock._now += 120_000

    assert await refused(home, NOBODY, text) == "rate_limited"


async def test_calls_are_counted_and_refused_ones_are_not() -> None:
    home = TokenIssuingNode()
    token, text = home.issue("rag.query@1.0", max_calls_total=2)
    await refused(home, NOBODY, text, CapabilityDescriptor(name="market.list"))

    await home.admit(NOBODY, text)
    await home.admit(NOBODY, text)

    assert await refused(home, NOBODY, text) == "token_scope_insufficient"
    assert home.store.calls(token.id) == 2


async def test_children_share_the_limits_of_their_parent() -> None:
    home = TokenIssuingNode()
    parent, _ = home.issue("*", max_calls_total=3, rate_limit_per_minute=100)
    children = [home.issue("*", parent=parent, max_calls_total=2, rate_limit_per_minute=1) for _ in range(3)]

    for index in (0, 1, 2):
        await home.admit(NOBODY, children[index][1])
    home.clock.advance(60)

    assert await refused(home, NOBODY, children[0][1]) == "token_scope_insufficient"
    assert home.store.calls(parent.id) == 3
    assert home.store.calls(children[0][0].id) == 1, "a call that is refused is counted nowhere"


async def test_children_share_the_rate_of_their_parent() -> None:
    home = TokenIssuingNode()
    parent, _ = home.issue("*", rate_limit_per_minute=2)
    children = [home.issue("*", parent=parent, rate_limit_per_minute=2)[1] for _ in range(3)]
    await home.admit(NOBODY, children[0])
    await home.admit(NOBODY, children[1])

    assert await refused(home, NOBODY, children[2]) == "rate_limited"


async def test_to_say_who_somebody_is_counts_as_no_call() -> None:
    home = TokenIssuingNode()
    token, text = home.issue("*", max_calls_total=1)

    assert (await home.admission.identify(NOBODY, text)).trust == "member"
    assert home.store.calls(token.id) == 0


async def test_a_store_that_cannot_be_read_lets_nobody_in() -> None:
    home = TokenIssuingNode()
    _, text = home.issue("*")
    home.store.close()

    with pytest.raises(BusError, match="internal_error"):
        await home.admit(NOBODY, text)


async def test_the_token_of_an_admitted_caller_does_not_show() -> None:
    home = TokenIssuingNode()
    _, text = home.issue("*")

    assert text not in repr(await home.admit(NOBODY, text))
