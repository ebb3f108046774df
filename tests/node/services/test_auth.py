"""Tokens over the bus: parts of one's own, new ones for those who may, and nothing of others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import BusError
from handrail.core.ports import Journal
from handrail.journal.journal import SqliteJournal
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import NOBODY, OWN, Caller, RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.node.services.auth import AuthService
from handrail.node.tokens.scope import Scope
from handrail.node.tokens.token import parse_token
from tests.node.tokens.signing_nodes import ADA, BOB, EVE, HOME, TokenIssuingNode, signed_by
from tests.node.tokens.test_token import HEADER, made

LIST = CapabilityDescriptor(name="market.list")


class Node(TokenIssuingNode):
    """A node with a bus, on which tokens are to be had."""

    def __init__(self, journal: Journal | None = None, **options: Any) -> None:
        super().__init__(directory={ADA.node_id: "anchor", BOB.node_id: "member"})
        self.bus = CapabilityBus(node_id=HOME.node_id, admission=self.admission, journal=journal)
        self.bus.register_service(AuthService(HOME, self.store, community="home", clock=self.clock, **options))
        self.bus.register(LIST, _listed)

    async def ask(self, verb: str, caller: Caller = OWN, token: str | None = None, **input: Any) -> dict[str, Any]:
        body = {"input": input}
        response = await self.bus.call(f"auth.token.{verb}", (1, 0), body, caller=caller, token=token)
        output: dict[str, Any] = response["output"]
        return output

    async def refused(self, verb: str, caller: Caller = OWN, token: str | None = None, **input: Any) -> BusError:
        with pytest.raises(BusError) as caught:
            await self.ask(verb, caller, token, **input)
        assert "hntoken" not in str(caught.value)
        return caught.value


async def _listed(request: RouteRequest) -> dict[str, Any]:
    return {"output": {"posts": []}}


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    node = Node()
    async with node.bus:
        yield node


async def test_the_node_and_its_anchors_are_given_new_tokens(node: Node) -> None:
    for caller in (OWN, signed_by(ADA)):
        given = await node.ask(
            "issue", caller, scope={"capabilities": ["market.*"]}, subject=BOB.node_id, ttl_seconds=60
        )

        token = parse_token(given["token"])
        assert token.to_dict() == given["claims"]
        assert (token.issuer, token.subject, token.audience) == (HOME.node_id, BOB.node_id, "home")
        assert (await node.bus.call("market.list", (1, 0), {}, caller=signed_by(BOB), token=given["token"]))["output"]


async def test_nobody_else_is_given_a_new_one(node: Node) -> None:
    for caller in (signed_by(BOB), signed_by(EVE), NOBODY):
        assert (await node.refused("issue", caller, scope={"capabilities": ["*"]})).code == "unauthorized"


async def test_who_brings_a_token_is_given_a_part_of_it_even_an_anchor(node: Node) -> None:
    _, text = node.issue("auth.token.*", "market.list@1.0", subject=ADA.node_id, ttl=60)

    part = await node.ask("issue", signed_by(ADA), text, scope={"capabilities": ["market.list@1.0"]}, ttl_seconds=3600)
    more = await node.refused("issue", signed_by(ADA), text, scope={"capabilities": ["market.*"]})

    assert part["claims"]["parent"] == parse_token(text).id
    assert part["claims"]["exp"] == parse_token(text).expires_at
    assert more.code == "token_scope_insufficient"


async def test_what_is_not_said_is_as_in_the_token_that_it_is_made_from(node: Node) -> None:
    _, text = node.issue("auth.token.*", "rag.*@1.*", params_constraints={"rag.*:corpus": ["a"]}, max_calls_total=9)

    part = await node.ask("issue", NOBODY, text, scope={"capabilities": ["rag.query@1.0"]})

    assert part["claims"]["scope"] == {
        "capabilities": ["rag.query@1.0"],
        "params_constraints": {"rag.*:corpus": ["a"]},
        "max_calls_total": 9,
    }


async def test_a_node_gives_no_more_than_it_was_set_up_to_give() -> None:
    node = Node(grants=Scope.of(["market.*"], rate_limit_per_minute=60))
    async with node.bus:
        given = await node.ask("issue", scope={"capabilities": ["market.list@1.0"]})

        assert given["claims"]["scope"]["rate_limit_per_minute"] == 60
        assert (await node.refused("issue", scope={"capabilities": ["*"]})).code == "token_scope_insufficient"


async def test_a_new_token_says_what_it_is_for(node: Node) -> None:
    assert (await node.refused("issue", scope={})).code == "bad_request"
    assert (await node.refused("issue")).code == "bad_request"


@pytest.mark.parametrize("needs", [("auth.token.issue@1.0",), ("auth.token.issue@1.0", "market.list@1.0")])
async def test_a_tool_that_asks_for_tokens_gets_none_for_more_than_it_may(node: Node, needs: tuple[str, ...]) -> None:
    async def grab(request: RouteRequest) -> dict[str, Any]:
        return await request.call("auth.token.issue", (1, 0), {"input": request.input})

    node.bus.register(CapabilityDescriptor(name="tool.grab", needs=needs, request_schema={}), grab)
    wanted = {"input": {"scope": {"capabilities": ["market.list@1.0"]}}}

    if "market.list@1.0" in needs:
        assert (await node.bus.call("tool.grab", (1, 0), wanted))["output"]["claims"]["scope"] == wanted["input"][
            "scope"
        ]
    else:
        with pytest.raises(BusError, match="token_scope_insufficient"):
            await node.bus.call("tool.grab", (1, 0), wanted)
    with pytest.raises(BusError, match="token_scope_insufficient"):
        await node.bus.call("tool.grab", (1, 0), {"input": {"scope": {"capabilities": ["*"]}}})


async def test_a_revoked_token_ends_at_once_with_all_that_was_made_from_it(node: Node) -> None:
    parent, text = node.issue("*")
    child, passed = node.issue("*", parent=parent)

    assert await node.ask("revoke", NOBODY, passed, jti=child.id) == {"jti": child.id, "revoked": True}
    assert (await node.refused("introspect", NOBODY, passed)).code == "token_revoked"
    assert await node.ask("revoke", jti=parent.id) == {"jti": parent.id, "revoked": True}
    assert (await node.refused("introspect", NOBODY, text)).code == "token_revoked"


async def test_a_holder_is_told_of_its_token_and_what_was_made_from_it(node: Node) -> None:
    own, text = node.issue("*", max_calls_total=5)
    node.clock.advance(1)
    child, _ = node.issue("market.list@1.0", parent=own, max_calls_total=1)
    node.store.revoke(child.id)

    told = (await node.ask("introspect", NOBODY, text))["tokens"]

    assert told == [
        {"active": True, "revoked": False, "calls": 1, "claims": own.to_dict()},
        {"active": False, "revoked": True, "calls": 0, "claims": child.to_dict()},
    ]


async def test_who_signs_is_told_of_tokens_in_its_name(node: Node) -> None:
    mine, _ = node.issue("*", subject=BOB.node_id)
    node.issue("*", subject=EVE.node_id)

    assert [each["claims"]["jti"] for each in (await node.ask("introspect", signed_by(BOB)))["tokens"]] == [mine.id]
    assert len((await node.ask("introspect", signed_by(ADA)))["tokens"]) == 2
    assert len((await node.ask("introspect"))["tokens"]) == 2


@pytest.mark.parametrize("verb", ["introspect", "revoke"])
async def test_case_40_the_tokens_of_others_are_as_if_they_did_not_exist(node: Node, verb: str) -> None:
    parent, _ = node.issue("*")
    _, text = node.issue("*", parent=parent)
    other, _ = node.issue("*", subject=EVE.node_id)
    nothing = (await node.refused(verb, NOBODY, text, jti="01HF7YAT000000000000000000")).to_dict()

    for id in (other.id, parent.id):
        assert (await node.refused(verb, NOBODY, text, jti=id)).to_dict() == nothing
        assert (await node.refused(verb, signed_by(BOB), None, jti=id)).to_dict() == nothing
        forged = made(HEADER, {**parent.to_dict(), "iss": BOB.node_id, "jti": id}, BOB)
        assert (await node.refused(verb, NOBODY, forged, jti=id)).to_dict() == nothing
    assert nothing["error"] == "not_found"
    assert not node.store.any_revoked([other.id, parent.id])


async def test_a_token_that_ended_is_not_active(node: Node) -> None:
    token, _ = node.issue("*", ttl=60)
    node.clock.advance(61)

    assert [each["active"] for each in (await node.ask("introspect", jti=token.id))["tokens"]] == [False]


async def test_case_42_no_token_is_in_the_record(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        node = Node(journal)
        async with node.bus:
            given = await node.ask("issue", scope={"capabilities": ["*"]})
            await node.ask("introspect", NOBODY, given["token"])
    kept = _bytes_in(tmp_path)

    assert given["claims"]["jti"].encode() in kept
    assert given["token"].rpartition(".")[2].encode() not in kept


def _bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
