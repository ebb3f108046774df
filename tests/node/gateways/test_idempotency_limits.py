"""What is kept of requests that may come again: nobody waits for another's, and nothing is held or lost by it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request

from handrail.core.context import Principal
from handrail.core.errors import JournalError
from handrail.core.events import Recorded, RunFinished
from handrail.core.redact import Secret
from handrail.journal.journal import SqliteJournal
from handrail.node.bus.request import Caller
from handrail.node.gateways.gateway import GatewayLimits
from handrail.node.gateways.idempotency import IdempotentAnswers, SharedAnswer
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, text
from tests.node.gateways.gateway_server import HeldModel, finished, scene
from tests.node.gateways.test_idempotency import ALLOWED, CHAT, FIRST, SECOND, Posting, Wall, Watched, abandon


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
    wall, life, key, left = Wall(open=False), Watched(), {"idempotency-key": "k-1"}, list[SharedAnswer]()
    gone, leave = asyncio.Event(), IdempotentAnswers.left

    async def noted(self: IdempotentAnswers, answer: SharedAnswer) -> None:
        await leave(self, answer)
        left.append(answer)
        gone.set()

    monkeypatch.setattr(IdempotentAnswers, "left", noted)
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


# ── rights, and room ─────────────────────────────────────────────────────────────────────


RIGHTS = {"wide": None, "narrow": ("llm.chat@2.0",), "same as narrow": ("llm.chat@2.0", "llm.chat@2.0")}


async def ada(request: Request) -> tuple[Caller, Secret | None]:
    """Ada, with one of three tokens."""
    said = request.headers["authorization"].removeprefix("Bearer ")
    return Caller(principal=Principal("ada", RIGHTS[said]), trust="member"), Secret(said)


async def test_two_tokens_of_one_principal_share_an_answer_only_if_they_are_for_the_same() -> None:
    key, path, model = {"idempotency-key": "k-1"}, "/v1/chat/completions", ScriptedModel([text("Secret."), finished()])
    async with (
        scene(model, caller_of=ada) as there,
        there.http("wide") as wide,
        there.http("narrow") as narrow,
    ):
        first = await wide.post(path, json=CHAT, headers=key)
        other = await narrow.post(path, json=CHAT, headers=key)

    assert first.status_code == 200 and "Secret." in first.text
    assert other.status_code == 422 and "Secret." not in other.text
    assert len(model.requests) == 1  # it was not run a second time either


async def test_a_token_that_was_renewed_finds_the_answer_of_the_one_before() -> None:
    key, path, model = {"idempotency-key": "k-1"}, "/v1/chat/completions", ScriptedModel([text("Hello."), finished()])
    async with (
        scene(model, caller_of=ada) as there,
        there.http("narrow") as before,
        there.http("same as narrow") as after,
    ):
        answers = [await client.post(path, json=CHAT, headers=key) for client in (before, after)]

    assert [answer.status_code for answer in answers] == [200, 200] and answers[0].content == answers[1].content


async def test_after_a_restart_a_token_for_less_is_not_told_what_one_for_more_did(tmp_path: Path) -> None:
    wall, key, path = Wall(), {"idempotency-key": "k-1"}, "/v1/chat/completions"
    answers = []
    for token, model in (("wide", Posting()), ("narrow", ScriptedModel()), ("wide", ScriptedModel())):
        async with (
            await SqliteJournal.open(tmp_path / "journal.db") as journal,
            scene(model, tools=[wall.tool], policy=ALLOWED, journal=journal, caller_of=ada) as there,
            there.http(token) as client,
        ):
            answers.append(await client.post(path, json=CHAT, headers=key))

    assert [answer.status_code for answer in answers] == [200, 422, 200]
    assert wall.words == ["hi"]


async def taken(client: httpx2.AsyncClient, headers: dict[str, str]) -> httpx2.Response:
    """The answer, asked for until there is room: that a client hung up is noticed in a moment."""
    while (answer := await client.post("/v1/chat/completions", json=CHAT, headers=headers)).status_code == 503:
        pass
    return answer


async def left(client: httpx2.AsyncClient, model: HeldModel, key: str) -> None:
    """Ask with a key, and hang up while the model thinks."""
    model.reached.clear()
    asking = asyncio.create_task(taken(client, {"idempotency-key": key}))
    await model.reached.wait()
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking


async def test_answers_whose_clients_left_keep_nobody_out() -> None:
    model = HeldModel(text("Hello."))
    async with (
        scene(model, bounds=GatewayLimits(at_once=2)) as there,
        there.http() as client,
        asyncio.timeout(20),
    ):
        for key in ("k-1", "k-2"):
            await left(client, model, key)
        model.reached.clear()
        asking = asyncio.create_task(taken(client, {}))
        await model.reached.wait()
        model.go_on.set()
        answer = await asking
        again = await client.post("/v1/chat/completions", json=CHAT, headers={"idempotency-key": "k-1"})

    assert (answer.status_code, again.status_code) == (200, 200)
    assert "Hello." in again.text  # it went on


async def test_only_so_many_answers_go_on_alone_and_the_one_that_was_left_first_ends() -> None:
    model = HeldModel(text("Hello."))
    async with (
        scene(model, bounds=GatewayLimits(at_once=1)) as there,
        there.http() as client,
        asyncio.timeout(20),
    ):
        await left(client, model, "k-1")
        await left(client, model, "k-2")
        await model.dropped.wait()
        model.go_on.set()
        kept = await client.post("/v1/chat/completions", json=CHAT, headers={"idempotency-key": "k-2"})

    assert kept.status_code == 200
