"""Faults of security by number, 33 to 35: confused deputies, bad tokens, rights that grow when they are passed on."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from handrail.core.context import Principal
from handrail.core.errors import BusError
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import NOBODY, OWN, Caller, RouteRequest
from handrail.node.bus.versions import split_name
from handrail.node.capability_bus import CapabilityBus
from handrail.node.services.auth import AuthService
from handrail.node.tokens.patterns import is_inside
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.signatures import Authenticator, sign_call
from handrail.node.tokens.token import CapabilityToken, issue
from handrail.testing.clock import FixedClock
from tests.examples import examples
from tests.node.tokens.signing_nodes import ADA, BOB, EVE, HOME, TokenIssuingNode, signed_by
from tests.node.tokens.test_token import HEADER, made

# 33: a caller with few rights, and a tool with many.


class Office(TokenIssuingNode):
    """A clerk that does what it is asked, by way of a vault that it can open and its callers perhaps cannot."""

    def __init__(self) -> None:
        super().__init__(directory={ADA.node_id: "member", BOB.node_id: "trusted"})
        self.opened: list[tuple[str, Any]] = []
        self.bus = CapabilityBus(node_id=HOME.node_id, admission=self.admission)
        self.bus.register(CapabilityDescriptor(name="clerk.ask"), self.ask)
        self.bus.register(CapabilityDescriptor(name="clerk.limited", needs=("mail.read@1.0",)), self.ask)
        self.bus.register(CapabilityDescriptor(name="vault.open", trust_required="trusted"), self.open)
        self.bus.register(CapabilityDescriptor(name="mail.read"), self.open)
        self.bus.register_service(AuthService(HOME, self.store, community="home", clock=self.clock))

    async def ask(self, request: RouteRequest) -> dict[str, Any]:
        """Calls whatever its caller names, through as many clerks as are named."""
        target, _, rest = request.input["ask"].partition(" ")
        body = {"input": {"ask": rest}, **({"params": request.params} if request.params else {})}
        return await request.call(target, (1, 0), body)

    async def open(self, request: RouteRequest) -> dict[str, Any]:
        self.opened.append((request.caller.id, request.params.get("box")))
        return {"output": {"gold": True}}

    async def tells(
        self, caller: Caller, ask: str, token: str | None = None, clerk: str = "clerk.ask", **params: Any
    ) -> str:
        """What a caller is answered: `ok`, or why not."""
        before = len(self.opened)
        try:
            await self.bus.call(clerk, (1, 0), {"params": params, "input": {"ask": ask}}, caller=caller, token=token)
        except BusError as error:
            assert len(self.opened) == before, "it was refused, and ran"
            return error.code
        return "ok"


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    office = Office()
    async with office.bus:
        yield office


THROUGH = ["vault.open", "clerk.ask vault.open", "clerk.ask clerk.ask clerk.ask vault.open"]


@pytest.mark.requirement("hearthnet.authority")
@pytest.mark.parametrize("ask", THROUGH)
async def test_case_33_a_tool_opens_for_its_caller_only_what_the_caller_may_open(office: Office, ask: str) -> None:
    assert await office.tells(signed_by(ADA), ask) == "unauthorized"
    assert await office.tells(signed_by(EVE), ask) == "unauthorized"
    assert await office.tells(NOBODY, ask) == "unauthorized"
    assert await office.tells(signed_by(BOB), ask) == "ok"
    assert await office.tells(OWN, ask) == "ok"
    assert [who for who, _ in office.opened] == [BOB.node_id, "self"], "each in its own name, never the node's"


@pytest.mark.requirement("hearthnet.authority")
@pytest.mark.parametrize("ask", THROUGH)
async def test_case_33_a_token_holds_for_what_is_called_on_its_behalf(office: Office, ask: str) -> None:
    _, clerk_only = office.issue("clerk.*@1.0", subject=BOB.node_id)
    _, both = office.issue("clerk.*@1.0", "vault.open@1.0", subject=BOB.node_id)

    assert await office.tells(signed_by(BOB), ask, clerk_only) == "token_scope_insufficient"
    assert await office.tells(signed_by(BOB), ask, both) == "ok"
    assert await office.tells(OWN, ask, office.issue("*", subject=HOME.node_id)[1]) == "unauthorized"


async def test_case_33_the_values_of_a_token_are_checked_again_where_they_arrive(office: Office) -> None:
    _, text = office.issue("clerk.*", "mail.read", params_constraints={"mail.*:box": ["in"]})

    assert await office.tells(NOBODY, "mail.read", text, box="in") == "ok"
    assert await office.tells(NOBODY, "mail.read", text, box="secret") == "token_scope_insufficient"
    assert await office.tells(NOBODY, "clerk.ask mail.read", text, box=["in"]) == "token_scope_insufficient"
    assert await office.tells(NOBODY, "mail.read", text) == "token_scope_insufficient"


async def test_case_33_the_right_is_what_caller_tool_and_session_all_allow(office: Office) -> None:
    narrow = Caller(principal=Principal("carol", ("clerk.*@*", "vault.*@*", "mail.*@*")), trust="trusted")
    session = (("clerk.*@*", "mail.*@*"),)

    assert await office.tells(narrow, "vault.open") == "ok"
    assert await office.tells(narrow, "vault.open", clerk="clerk.limited") != "ok"
    assert await office.tells(narrow, "mail.read", clerk="clerk.limited") == "ok"
    for target, good in (("vault.open", False), ("mail.read", True)):
        body = {"input": {"ask": target}}
        if good:
            assert await office.bus.call("clerk.ask", (1, 0), body, caller=narrow, within=session)
        else:
            with pytest.raises(BusError):
                await office.bus.call("clerk.ask", (1, 0), body, caller=narrow, within=session)


async def test_case_33_a_revoked_token_ends_the_calls_that_it_has_not_made_yet(office: Office) -> None:
    token, text = office.issue("*")

    async def revoke(request: RouteRequest) -> dict[str, Any]:
        office.store.revoke(token.id)
        return await request.call("mail.read", (1, 0), {})

    office.bus.register(CapabilityDescriptor(name="clerk.late"), revoke)

    assert await office.tells(NOBODY, "", text, clerk="clerk.late") == "token_revoked"


# 34: tokens that are not good.


Bad = Callable[[Office], tuple[Caller, str, str]]
"""Who sends what, and the code that it gets."""


def _own(office: Office) -> dict[str, Any]:
    """The claims of a token that the office has on record, good until long after the test."""
    return office.issue("mail.read@1.0")[0].to_dict()


def _revoked(office: Office) -> str:
    token, text = office.issue("mail.read@1.0")
    office.store.revoke(token.id)
    return text


def _expired(office: Office) -> str:
    _, text = office.issue("mail.read@1.0", ttl=60)
    office.clock.advance(100)
    return text


_STARS = {"capabilities": ["*a" * 49 + "@*"]}
BAD: dict[str, Bad] = {
    "stolen, not signed": lambda o: (NOBODY, o.issue("*", subject=ADA.node_id)[1], "invalid_signature"),
    "stolen, signed by the thief": lambda o: (
        signed_by(EVE),
        o.issue("*", subject=ADA.node_id)[1],
        "invalid_signature",
    ),
    "for another community": lambda o: (NOBODY, o.issue("*", audience="elsewhere")[1], "unauthorized"),
    "expired": lambda o: (NOBODY, _expired(o), "token_expired"),
    "revoked": lambda o: (NOBODY, _revoked(o), "token_revoked"),
    "of an unknown issuer": lambda o: (NOBODY, made(HEADER, {**_own(o), "iss": EVE.node_id}, EVE), "token_invalid"),
    "signed by another": lambda o: (NOBODY, made(HEADER, _own(o), EVE), "token_invalid"),
    "alg none": lambda o: (NOBODY, made({**HEADER, "alg": "none"}, _own(o), signature=""), "bad_request"),
    "alg none, signed": lambda o: (NOBODY, made({**HEADER, "alg": "none"}, _own(o)), "token_invalid"),
    "alg HS256": lambda o: (NOBODY, made({**HEADER, "alg": "HS256"}, _own(o)), "token_invalid"),
    "a key in its header": lambda o: (NOBODY, made({**HEADER, "jwk": {"kty": "OKP"}}, _own(o)), "token_invalid"),
    "for other calls": lambda o: (NOBODY, o.issue("rag.*")[1], "token_scope_insufficient"),
    "cut": lambda o: (NOBODY, o.issue("*")[1][:200], "bad_request"),
    "oversized": lambda o: (NOBODY, o.issue("*")[1] + "A" * 10**7, "bad_request"),
    "deep": lambda o: (NOBODY, made(HEADER, b"[" * 1100), "bad_request"),
    "wide": lambda o: (NOBODY, made(HEADER, b"[" + b"0," * 500 + b"0]"), "bad_request"),
    "full of stars": lambda o: (NOBODY, made(HEADER, {**_own(o), "scope": _STARS}), "token_scope_insufficient"),
}


@pytest.mark.parametrize("case", BAD)
async def test_case_34_a_bad_token_is_refused_with_its_code_and_in_no_time(office: Office, case: str) -> None:
    caller, token, code = BAD[case](office)

    started = time.process_time()
    for _ in range(20):
        with pytest.raises(BusError) as caught:
            await office.bus.call("mail.read", (1, 0), {}, caller=caller, token=token)
    spent = time.process_time() - started

    assert caught.value.code == code
    assert token[-40:] not in str(caught.value)
    assert office.opened == []
    assert spent < 20 * 0.1, "the aim is 10 ms of a processor each; this one may be slow"


def test_case_34_a_signed_call_cannot_be_sent_again() -> None:
    clock = FixedClock()
    door = Authenticator(community="home", clock=clock)
    facts = {"capability": "mail.read", "version": "1.0", "request_id": "1", "community": "home"}
    fields = sign_call(ADA, **facts, body=b"{}", clock=clock)

    assert door.authenticate(fields, b"{}").id == ADA.node_id
    for _ in range(3):
        with pytest.raises(BusError, match="invalid_signature"):
            door.authenticate(fields, b"{}")
    clock.advance(601)
    with pytest.raises(BusError, match="invalid_signature"):
        door.authenticate(fields, b"{}")


# 35: rights that grow when they are passed on.

NAMES = [f"{name}@{version}" for name in ("a.x", "a.y", "b.x", "ab.x") for version in ("1.0", "1.1", "2.0")]
PATTERNS = ["*", "a.*", "*.x", "a*", "a.x", "a.x@1.*", "*@1.0", "a.*@1.1", "*.*@2.*", "b.x@1.0", "*x@1.*"]
VALUES = [1, 2, "1", True]
BODIES: list[dict[str, Any]] = [
    {part: {"p": value} for part, value in zip(("params", "input"), pair, strict=True) if value is not None}
    for pair in product([*VALUES, None], repeat=2)
]
KEYS = ["p", "a.*:p", "*.x:p"]

scopes = st.builds(
    Scope.of,
    st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(KEYS), st.lists(st.sampled_from(VALUES), min_size=1, max_size=3), max_size=2),
    st.none() | st.integers(1, 5),
    st.none() | st.integers(1, 5),
)


def allowed(scope: Scope) -> set[tuple[str, int]]:
    """Every call of a small world that a scope lets through, found by trying each; and `covers` says the same."""
    found = {(name, at) for name, (at, body) in product(NAMES, enumerate(BODIES)) if _lets(scope, name, body)}
    assert found == {(name, at) for name, (at, body) in product(NAMES, enumerate(BODIES)) if _covers(scope, name, body)}
    return found


def _lets(scope: Scope, name: str, body: dict[str, Any]) -> bool:
    """The rules once more, as plainly as they can be said."""
    given = [json.dumps(part["p"]) for part in body.values()]
    for key, values in scope.params_constraints.items():
        concerned = fnmatchcase(name.partition("@")[0], key.rpartition(":")[0] or "*")
        if concerned and (not given or not set(given) <= set(map(json.dumps, values))):
            return False
    return any(fnmatchcase(name, each) for each in scope.capabilities)


def _covers(scope: Scope, name: str, body: dict[str, Any]) -> bool:
    return scope.covers(*split_name(name), body)


def limits(scope: Scope) -> tuple[float, float]:
    without = float("inf")
    return (scope.rate_limit_per_minute or without, scope.max_calls_total or without)


@given(scopes, scopes)
@settings(max_examples=examples(300))
def test_case_35_a_scope_within_another_allows_nothing_more(inner: Scope, outer: Scope) -> None:
    if inner.is_within(outer):
        assert allowed(inner) <= allowed(outer)
        assert all(own <= other for own, other in zip(limits(inner), limits(outer), strict=True))


@given(scopes, st.lists(scopes, min_size=1, max_size=6), st.lists(st.integers(1, 86_400), min_size=7, max_size=7))
@settings(max_examples=examples(80))
def test_case_35_no_way_of_passing_a_token_on_enlarges_what_it_allows(
    first: Scope, wanted: list[Scope], lives: list[int]
) -> None:
    """Whatever is asked for, refused or not; each child is made of the last token that was given."""
    home = TokenIssuingNode()
    token = _issued(home, first, lives[0], None)
    assert token is not None
    root, rights = token, allowed(token.scope)
    for scope, life in zip(wanted, lives[1:], strict=False):
        child = _issued(home, scope, life, token) or _narrowed(home, scope, life, token)
        if child is not None:
            token = child
            assert allowed(token.scope) <= rights
            assert all(own <= other for own, other in zip(limits(token.scope), limits(root.scope), strict=True))
            assert (token.expires_at <= root.expires_at, token.audience) == (True, root.audience)
            rights = allowed(token.scope)


def _issued(home: TokenIssuingNode, scope: Scope, ttl: int, parent: CapabilityToken | None) -> CapabilityToken | None:
    try:
        return issue(HOME, home.store, scope, ttl=ttl, parent=parent, audience="home", clock=home.clock)[0]
    except BusError as error:
        assert error.code == "token_scope_insufficient"
        return None


def _narrowed(home: TokenIssuingNode, scope: Scope, ttl: int, parent: CapabilityToken) -> CapabilityToken | None:
    """The same wish put to the other door: what is not within is left out."""
    capabilities = [each for each in scope.capabilities if is_inside(each, parent.scope.capabilities)]
    try:
        part = parent.scope.narrowed(capabilities or None, scope.params_constraints)
    except BusError:
        return None
    return _issued(home, part, ttl, parent)
