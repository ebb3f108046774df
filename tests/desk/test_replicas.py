"""Two desks over one shared state: what is said at one is followed, listed and ended at the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from handrail.desk.desk import Desk
from handrail.desk.replicas import following_replicas
from tests.desk.scripted_desk import Follower, ScriptedDesk, over, reply, snapshot, texts, until
from tests.polling import until as until_it_holds

Replicas = tuple[ScriptedDesk, Desk, Desk]
REPLIES = [reply("Wait.", ("hold", {})), reply("Done.")]


@pytest.fixture
async def replicas(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Replicas]:
    monkeypatch.setenv("HANDRAIL_STATE", postgres_url)
    parlour = ScriptedDesk(tmp_path, REPLIES)
    async with AsyncExitStack() as stack:
        here, there = [await stack.enter_async_context(parlour.open()) for _ in range(2)]
        for desk in (here, there):
            await stack.enter_async_context(following_replicas(desk))
        yield parlour, here, there


async def begun(parlour: ScriptedDesk, desk: Desk) -> str:
    """A conversation in the middle of a turn, which waits in a tool."""
    id = await desk.begin()
    await desk.say(id, "Go")
    await parlour.gate.reached.wait()
    return id


async def test_a_turn_of_one_replica_is_followed_at_the_other_up_to_its_end(replicas: Replicas) -> None:
    parlour, here, there = replicas
    id = await begun(parlour, here)
    async with Follower(there, id) as follower:
        shown = await snapshot(there, id)
        assert (shown.state, shown.alert) == ("working", None)
        parlour.gate.open.set()
        ended = await over(there, id)
        assert texts(ended) == texts(await over(here, id)) and texts(ended)[-1] == "Done."
        assert follower.told("state")[-1]["state"] == "idle"


async def test_a_list_of_conversations_is_told_what_another_replica_works_on(replicas: Replicas) -> None:
    parlour, here, there = replicas
    async with aclosing(there.watch()) as news:
        first = asyncio.ensure_future(anext(news))
        await until_it_holds(lambda: there.news.is_watched)
        id = await begun(parlour, here)
        event, summary = await first
        assert (event, summary.id, summary.title) == ("talk", id, "Go")
        assert [(each.id, each.state) for each in await there.talks()] == [(id, "working")]
        parlour.gate.open.set()
        await over(here, id)
        async for event, told in news:
            if event == "talk" and told.state == "idle":
                break
        await here.delete(id)
        assert id in [told async for event, told in _upto(news, "gone") if event == "gone"]


async def _upto(news: AsyncIterator[tuple[str, Any]], last: str) -> AsyncIterator[tuple[str, Any]]:
    async for event, told in news:
        yield event, told
        if event == last:
            return


async def test_a_turn_is_ended_from_the_other_replica(replicas: Replicas) -> None:
    parlour, here, there = replicas
    id = await begun(parlour, here)
    assert (await snapshot(there, id)).state == "working"

    await there.stop(id)

    assert not parlour.gate.open.is_set()
    assert [(await snapshot(desk, id)).state for desk in (here, there)] == ["idle", "idle"]
    assert texts(await until(there, id, lambda shown: shown.total == 4)) == texts(await snapshot(here, id))
    await there.stop(id)  # nothing is under way: nothing happens
