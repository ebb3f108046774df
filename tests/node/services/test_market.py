"""The board: posts in order, once, by whoever calls, until they end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from handrail.node.capability_bus import CapabilityBus
from handrail.node.services.event_log import EventLog
from handrail.node.services.market import MarketService
from handrail.testing.clock import FixedClock
from tests.node.services.service_calls import ANNA, BEN, NODE, ask, refusal

KANISTER = {"category": "request", "title": "Suche Wasserkanister, 20 l", "body": "Brauche ihn bis morgen."}


class Board:
    def __init__(self, path: Path | None, clock: FixedClock, **options: Any) -> None:
        self.clock = clock
        self.log = EventLog(path, clock=clock, **options)
        self.bus = CapabilityBus(node_id=NODE)
        self.bus.register_service(MarketService(self.log, node_id=NODE))

    async def post(self, title: str = "Kanister", **more: Any) -> dict[str, Any]:
        who = more.pop("who", ANNA)
        return await ask(self.bus, "market.post", {**KANISTER, "title": title, **more}, who=who)

    async def titles(self, **asked: Any) -> list[str]:
        return [post["title"] for post in (await ask(self.bus, "market.list", asked))["posts"]]


@pytest.fixture
async def board() -> AsyncIterator[Board]:
    made = Board(None, FixedClock(1_790_000_000_000), most_per_author=20)
    async with made.bus:
        yield made
    made.log.close()


async def test_a_post_is_listed_as_it_was_made(board: Board) -> None:
    place = {"lat": 51.5, "lng": 6.2, "label": "Issum"}
    made = await board.post(location=place, tags=["wasser", "notfall"], ttl_seconds=86_400)

    assert await ask(board.bus, "market.list", who=BEN) == {
        "posts": [
            {
                "event_id": made["event_id"],
                "lamport": 1,
                "author": ANNA.id,
                **KANISTER,
                "title": "Kanister",
                "location": place,
                "tags": ["wasser", "notfall"],
                "created_at": "2026-09-21T14:13:20Z",
                "expires_at": "2026-09-22T14:13:20Z",
            }
        ],
        "max_lamport": 1,
    }


async def test_the_author_is_the_caller_and_cannot_be_named(board: Board) -> None:
    assert (await refusal(board.bus, "market.post", {**KANISTER, "author": "ed25519:ben"})).code == "bad_request"
    await board.post(who=BEN)
    await board.post(who=None)

    posts = (await ask(board.bus, "market.list"))["posts"]
    assert [post["author"] for post in posts] == [BEN.id, NODE]


async def test_the_same_client_id_is_the_same_post_and_never_another(board: Board) -> None:
    first = await board.post(client_id="c-1")

    assert await board.post(client_id="c-1") == first
    refused = await refusal(board.bus, "market.post", {**KANISTER, "title": "Other", "client_id": "c-1"})
    assert refused.code == "bad_request"
    assert (await board.post(client_id="c-1", who=BEN))["lamport"] == 2  # of another author it is another
    assert len(await board.titles()) == 2


async def test_without_a_client_id_the_calls_own_id_is_it(board: Board) -> None:
    first = await ask(board.bus, "market.post", KANISTER, call_id="call-7")
    again = await ask(board.bus, "market.post", KANISTER, call_id="call-7")
    other = await ask(board.bus, "market.post", KANISTER, call_id="call-8")

    assert first == again != other


async def test_a_post_ends_by_itself_after_a_week_unless_it_says_when(board: Board) -> None:
    await board.post("short", ttl_seconds=60)
    await board.post("week")
    board.clock.advance(60)
    assert await board.titles() == ["week"]
    board.clock.advance(7 * 86_400)
    assert await board.titles() == []
    assert (await refusal(board.bus, "market.post", {**KANISTER, "ttl_seconds": 30 * 86_400 + 1})).code == "bad_request"


async def test_a_number_is_never_used_twice_even_when_the_post_is_gone(board: Board) -> None:
    await board.post("gone", ttl_seconds=1)
    board.clock.advance(30 * 86_400)
    assert (await board.post())["lamport"] == 2
    assert (await board.post())["lamport"] == 3


async def test_category_and_tags_narrow_the_list(board: Board) -> None:
    await board.post("a", tags=["wasser", "notfall"])
    await board.post("b", tags=["wasser"], category="offer")
    await board.post("c")

    assert await board.titles(category="offer") == ["b"]
    assert await board.titles(tags=["wasser"]) == ["a", "b"]
    assert await board.titles(tags=["wasser", "notfall"]) == ["a"]
    assert await board.titles(tags=["'; DROP TABLE event; --"]) == []
    assert await board.titles(category="request", tags=["wasser"]) == ["a"]


async def test_without_a_number_the_newest_are_listed_and_with_one_the_next(board: Board) -> None:
    for n in range(1, 8):
        await board.post(str(n))

    assert await board.titles(limit=3) == ["5", "6", "7"]
    seen, since = [], 0
    while True:
        page = await ask(board.bus, "market.list", {"since_lamport": since, "limit": 3})
        if not page["posts"]:
            break
        seen += [post["title"] for post in page["posts"]]
        since = page["max_lamport"]
    assert seen == [str(n) for n in range(1, 8)]
    assert since == 7


@pytest.mark.parametrize("limit", [0, 501])
async def test_a_list_has_at_most_500_posts(board: Board, limit: int) -> None:
    assert (await refusal(board.bus, "market.list", {"limit": limit})).code == "bad_request"


async def test_a_number_that_no_clock_has_is_refused(board: Board) -> None:
    assert (await refusal(board.bus, "market.list", {"since_lamport": 2**64})).code == "bad_request"


async def test_one_author_cannot_fill_the_board(board: Board) -> None:
    for n in range(20):
        await board.post(str(n))

    assert (await refusal(board.bus, "market.post", KANISTER)).code == "capacity_exceeded"
    await board.post(who=BEN)


async def test_posts_are_there_after_a_restart(tmp_path: Path) -> None:
    clock = FixedClock(1_790_000_000_000)
    first = Board(tmp_path / "deep" / "events.sqlite", clock)
    made = await first.post(client_id="c")
    first.log.close()
    second = Board(tmp_path / "deep" / "events.sqlite", clock)

    assert await second.titles() == ["Kanister"]
    assert await second.post(client_id="c") == made
    assert (await second.post())["lamport"] == 2
    second.log.close()


POSTER = """
import asyncio, sys
from pathlib import Path
from handrail.node.services.event_log import EventDraft, EventLog

async def main() -> None:
    log = EventLog(Path(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(25):
        event, _ = await log.add(EventDraft("k", sys.argv[2], str(n), {"n": n}))
        print(event.lamport, flush=True)
    log.close()

asyncio.run(main())
"""


def test_two_processes_that_post_at_once_never_get_the_same_number(tmp_path: Path) -> None:
    path = str(tmp_path / "events.sqlite")
    command = [sys.executable, "-c", POSTER, path]
    posters = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in "ab"
    ]
    for poster in posters:
        assert poster.stdout is not None and poster.stdout.readline() == "ready\n"
    for poster in posters:
        assert poster.stdin is not None
        poster.stdin.write("\n")
        poster.stdin.flush()
    numbers = [[int(line) for line in poster.communicate(timeout=60)[0].split()] for poster in posters]

    assert sorted(numbers[0] + numbers[1]) == list(range(1, 51))
    assert all(each == sorted(each) for each in numbers)


async def test_many_at_once_in_one_process_are_numbered_without_a_gap(board: Board) -> None:
    made = await asyncio.gather(*(board.post(str(n), who=(ANNA, BEN)[n % 2]) for n in range(20)))

    assert sorted(each["lamport"] for each in made) == list(range(1, 21))
