"""What is kept of requests that may come again: nobody waits for another's, and nothing is held or lost by it."""

from __future__ import annotations

import asyncio

import pytest

from handrail.core.errors import JournalError
from handrail.core.events import Recorded, RunFinished
from handrail.server.gateways.gateway import GatewayLimits
from handrail.server.gateways.repeats import Answer, Repeats
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, text
from tests.server.gateways.scene import finished, scene
from tests.server.gateways.test_repeats import ALLOWED, CHAT, FIRST, SECOND, Posting, Wall, Watched, abandon


class Slow(MemoryJournal):
    """Takes long to say what it has of the run that it is first asked about."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.go_on = asyncio.Event()

    async def history(self, run: str) -> list[Recorded]:
        if not self.asked.is_set():
            self.asked.set()
            await self.go_on.wait()
        return await super().history(run)


async def test_a_key_whose_record_takes_long_to_read_keeps_no_other_waiting() -> None:
    journal, model = Slow(), ScriptedModel([text("Soon."), finished()], [text("Late."), finished()])
    async with scene(model, journal=journal) as there, there.http() as client, asyncio.timeout(20):

        async def ask(key: str) -> str:
            return (await client.post("/v1/chat/completions", json=CHAT, headers={"idempotency-key": key})).text

        late = asyncio.create_task(ask("a"))
        await journal.asked.wait()
        again = asyncio.create_task(ask("a"))
        assert "Soon." in await ask("b")
        journal.go_on.set()
        assert "Late." in await late and await late == await again


class Unfinished(MemoryJournal):
    """Cannot write that a run has ended."""

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        if isinstance(event, RunFinished):
            raise JournalError("the disk is full")
        await super().append(event, durable=durable)


async def test_a_retry_does_not_run_what_was_begun_and_broke_while_its_client_left() -> None:
    wall, life = Wall(open=False), Watched()
    async with (
        scene(Posting(), tools=[wall.tool], policy=ALLOWED, life=life, journal=Unfinished()) as there,
        there.http() as client,
        asyncio.timeout(20),
    ):
        await abandon(client, wall, life, FIRST)
        again = await client.post("/v1/chat/completions", json=CHAT, headers=SECOND)

    assert again.status_code == 500 and again.headers["x-should-retry"] == "false" and wall.words == ["hi"]


async def test_an_answer_too_long_to_be_kept_pushes_no_other_out() -> None:
    model = ScriptedModel([text("Short."), finished()], [text("long " * 1_000), finished()])
    bounds = GatewayLimits(kept_characters=3_000)
    async with scene(model, bounds=bounds) as there, there.http() as client:
        for key in ("short", "long", "short"):
            answer = await client.post("/v1/chat/completions", json=CHAT, headers={"idempotency-key": key})

    assert answer.headers["idempotent-replayed"] == "true" and "Short." in answer.text


async def test_an_answer_that_ended_while_nobody_waited_is_not_held_until_it_would_have_been_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wall, life, key, left = Wall(open=False), Watched(), {"idempotency-key": "k-1"}, list[Answer]()
    gone, leave = asyncio.Event(), Repeats.left

    async def noted(self: Repeats, answer: Answer) -> None:
        await leave(self, answer)
        left.append(answer)
        gone.set()

    monkeypatch.setattr(Repeats, "left", noted)
    async with (
        scene(Posting(), tools=[wall.tool], policy=ALLOWED, life=life) as there,
        there.http() as client,
        asyncio.timeout(20),
    ):
        asking = asyncio.create_task(client.post("/v1/chat/completions", json=CHAT, headers=key))
        await wall.begun.wait()
        asking.cancel()
        await gone.wait()
        assert left[0].dropping is not None
        wall.go_on.set()
        await life.ends.wait()
        assert left[0].dropping is None
        again = await client.post("/v1/chat/completions", json=CHAT, headers=key)

    assert "Posted." in again.text and wall.words == ["hi"]
