"""What every store of tokens does, whether in a file or in the shared state of several replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from handrail.core.errors import BusError
from handrail.node.bus.request import NOBODY
from handrail.node.tokens.token_store import TokenStore
from handrail.state.database import StateDatabase
from handrail.testing.clock import FixedClock
from tests.contracts.state_places import file_in, place as place
from tests.node.tokens.signing_nodes import BOB, TokenIssuingNode

Node = Callable[[], TokenIssuingNode]


@pytest.fixture
def node(place: Path | StateDatabase) -> Iterator[Node]:
    """Makes a process, or a replica, of one node."""
    with ExitStack() as stack:
        yield lambda: TokenIssuingNode(
            stack.enter_context(closing(TokenStore(file_in(place, "tokens.db"), clock=FixedClock())))
        )


async def test_a_token_of_one_is_good_at_another(node: Node) -> None:
    token, text = node().issue("rag.*@1.*", params_constraints={"corpus": ["a", 1]})

    caller = await node().admit(NOBODY, text, corpus="a")

    assert caller.principal.scopes == ("rag.*@1.*",)
    (entry,) = node().store.issued()
    assert (entry.token, entry.calls, entry.revoked) == (token, 0, False)


async def test_a_revocation_by_one_holds_at_once_at_another_also_for_what_was_made_from_it(node: Node) -> None:
    home, other = node(), node()
    parent, _ = home.issue("*")
    child, text = home.issue("*", parent=parent)
    await other.admit(NOBODY, text)
    home.store.revoke(parent.id)
    home.store.revoke(parent.id)

    with pytest.raises(BusError, match="token_revoked"):
        await other.admit(NOBODY, text)
    found = other.store.get(child.id)
    assert found is not None and found.revoked


async def test_calls_are_counted_together(node: Node) -> None:
    home, other = node(), node()
    token, text = home.issue("*", max_calls_total=2)
    await home.admit(NOBODY, text)
    await other.admit(NOBODY, text)

    with pytest.raises(BusError, match="used up"):
        await home.admit(NOBODY, text)
    assert other.store.calls(token.id) == 2


def test_who_count_at_once_lose_no_call_and_give_none_away(node: Node) -> None:
    nodes = [node(), node()]
    stores = [each.store for each in nodes]

    def count(number: int) -> bool:
        return stores[number % 2].count({"parent": 30, f"child-{number % 2}": 20}, 0)

    with ThreadPoolExecutor(8) as threads:
        counted = list(threads.map(count, range(60)))

    assert sum(counted) == 30 == stores[0].calls("parent")
    assert stores[1].calls("child-0") + stores[1].calls("child-1") == 30
    assert not stores[0].count({"never": 0}, 0)


def test_what_ended_long_ago_is_forgotten(place: Path | StateDatabase) -> None:
    clock = FixedClock()
    with closing(TokenStore(file_in(place, "tokens.db"), clock=clock)) as store:
        home = TokenIssuingNode(store)
        old, _ = home.issue("*", clock=clock)
        store.revoke(old.id)
        store.count({old.id: 5}, old.expires_at)
        clock.advance(8 * 86_400)
        new, _ = home.issue("*", clock=clock)

        assert [entry.token.id for entry in store.issued()] == [new.id]
        assert not store.any_revoked([old.id])
        assert store.calls(old.id) == 0


def test_an_id_is_issued_once(node: Node) -> None:
    home = node()
    home.issue("*", random=bytes)

    with pytest.raises(BusError, match="internal_error"):
        node().issue("*", random=bytes)

    assert len(home.store.issued()) == 1


def test_a_holder_is_known_while_its_token_lasts(node: Node) -> None:
    node().issue("*", subject=BOB.node_id)

    assert node().store.knows_holder(BOB.node_id)
    assert not node().store.knows_holder("ed25519:other")
