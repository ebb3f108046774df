"""Requests that come again, by a key or by a client's retry: what was allowed once is done once."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from starlette.requests import Request

from handrail import Policy, Tool, tool
from handrail.core.errors import ModelUnavailable
from handrail.core.events import ModelEvent
from handrail.core.messages import UserMessage
from handrail.core.model_request import ModelRequest
from handrail.core.redact import Secret
from handrail.journal.journal import SqliteJournal
from handrail.node.bus.request import Caller
from handrail.node.gateways.gateway import GatewayLimits
from handrail.node.server.lifecycle import EndableWork, NodeLifecycle
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import KEY, HeldModel, caller_by_bearer_token, finished, scene

HELLO: Any = [{"role": "user", "content": "Post hi"}]
CHAT: Any = {"model": "m", "messages": HELLO}
BODIES: Any = {"/v1/chat/completions": CHAT, "/v1/messages": {**CHAT, "max_tokens": 9}}
PATHS = pytest.mark.parametrize("path", BODIES)
STREAMED = pytest.mark.parametrize("stream", [False, True])
ALLOWED = Policy(confirm_side_effects=False)
FIRST = {"x-stainless-retry-count": "0", "x-stainless-read-timeout": "600"}
SECOND = {"x-stainless-retry-count": "1", "x-stainless-read-timeout": "600"}


class Wall:
    """Where a tool posts; what it has begun may be held there."""

    def __init__(self, *, open: bool = True) -> None:
        self.words: list[str] = []
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        if open:
            self.go_on.set()

    @property
    def tool(self) -> Tool:
        @tool(side_effects=True)
        async def post(words: str) -> str:
            """Put something on the wall."""
            self.words.append(words)
            self.begun.set()
            await self.go_on.wait()
            return "done"

        return post


class Posting:
    """A model that posts whenever it is asked to, and then says so: a second run would post a second time."""

    name = "m"

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        asked = isinstance(request.messages[-1], UserMessage)
        yield call("post", words="hi") if asked else text("Posted.")
        yield finished("tool_calls" if asked else "end")


async def by_openai(url: str, given: Any, stream: bool) -> str:
    async with AsyncOpenAI(base_url=f"{url}/v1", **given) as client:
        said: Any = await client.chat.completions.create(**CHAT, stream=stream)
        return str([each async for each in said] if stream else said)


async def by_anthropic(url: str, given: Any, stream: bool) -> str:
    async with AsyncAnthropic(base_url=url, **given) as client:
        said: Any = await client.messages.create(**BODIES["/v1/messages"], stream=stream)
        return str([each async for each in said] if stream else said)


SDKS = {"openai": by_openai, "anthropic": by_anthropic}


@pytest.mark.parametrize(
    ("api", "key", "stream"),
    [("openai", "k-1", False), ("openai", None, True), ("anthropic", None, False), ("anthropic", "k-1", True)],
)
async def test_a_client_that_timed_out_and_tried_again_gets_its_answer_and_the_tool_ran_once(
    api: str, key: str | None, stream: bool
) -> None:
    wall, model, counts = Wall(open=False), Posting(), list[str]()

    async def who(request: Request) -> tuple[Caller, Secret | None]:
        counts.append(request.headers["x-stainless-retry-count"])
        if len(counts) > 1:
            wall.go_on.set()
        return await caller_by_bearer_token(request)

    async with scene(model, tools=[wall.tool], policy=ALLOWED, caller_of=who) as there:
        headers = {} if key is None else {"Idempotency-Key": key}
        given: Any = {"api_key": KEY, "max_retries": 4, "timeout": 0.7, "default_headers": headers}
        words = await SDKS[api](there.url, given, stream)

    assert "Posted." in words
    assert counts[:2] == ["0", "1"] and wall.words == ["hi"] and len(model.requests) == 2


@PATHS
@STREAMED
async def test_the_same_key_and_request_get_the_same_answer_byte_by_byte(path: str, stream: bool) -> None:
    wall, model = Wall(), Posting()
    body = {**BODIES[path], "stream": stream}
    async with scene(model, tools=[wall.tool], policy=ALLOWED) as there, there.http() as client:
        one = await client.post(path, json=body, headers={"idempotency-key": "k-1"})
        other = await client.post(path, json=body, headers={"idempotency-key": '"k-1"'})

    assert one.status_code == other.status_code == 200 and b"Posted." in one.content
    assert one.content == other.content and wall.words == ["hi"] and len(model.requests) == 2
    assert "idempotent-replayed" not in one.headers and other.headers["idempotent-replayed"] == "true"
    for name in ("content-type", "x-handrail-run", "cache-control"):
        assert one.headers[name] == other.headers[name]


@STREAMED
async def test_a_key_that_comes_while_the_first_is_answered_waits_for_the_same_answer(stream: bool) -> None:
    model = HeldModel(text("Hello"))
    async with scene(model) as there, there.http() as client, asyncio.timeout(20):

        async def ask() -> httpx2.Response:
            body = {**CHAT, "stream": stream}
            return await client.post("/v1/chat/completions", json=body, headers={"idempotency-key": "k-1"})

        first = asyncio.create_task(ask())
        await model.reached.wait()
        model.reached.clear()
        second = asyncio.create_task(ask())
        third = asyncio.create_task(ask())
        third.cancel()  # one that leaves takes nobody along
        model.go_on.set()
        answers = [await first, await second]

    assert answers[0].content == answers[1].content and b"Hello" in answers[0].content
    assert not model.reached.is_set()  # it was asked once


async def test_a_key_is_good_for_one_request_of_one_principal() -> None:
    model = ScriptedModel([text("For alice."), finished()], [text("For bob."), finished()])
    key = {"idempotency-key": "k-1"}
    path = "/v1/chat/completions"
    async with scene(model) as there, there.http() as alice, there.http("bob") as bob:
        one = await alice.post(path, json=CHAT, headers=key)
        other = await bob.post(path, json=CHAT, headers=key)
        differs = await alice.post(path, json={**CHAT, "temperature": 0.5}, headers=key)
        narrower = await alice.post(path, json=CHAT, headers={**key, "x-handrail-tools": "none"})
        wrong = await alice.post(path, json=CHAT, headers={"idempotency-key": "x" * 256})

    assert "For alice." in one.text and "For bob." in other.text
    assert differs.status_code == narrower.status_code == 422
    assert differs.json()["error"]["param"] == "Idempotency-Key"
    assert wrong.status_code == 400 and "255" in wrong.json()["error"]["message"]


class Moody:
    """A model that is away for the first request."""

    name = "m"

    def __init__(self, *replies: list[ModelEvent]) -> None:
        self.scripted = ScriptedModel([], *replies)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        async for event in self.scripted.stream(request):
            if len(self.scripted.requests) == 1:
                raise ModelUnavailable("away")
            yield event


@pytest.mark.parametrize("journal", [None, MemoryJournal()], ids=["without a journal", "with one"])
async def test_what_failed_before_it_changed_anything_may_be_asked_again_and_what_failed_after_may_not(
    journal: MemoryJournal | None,
) -> None:
    wall = Wall()
    model = Moody([text("Well."), finished()], [call("post", words="hi"), finished("tool_calls")])
    async with scene(model, tools=[wall.tool], policy=ALLOWED, journal=journal) as there, there.http() as client:

        async def ask(key: str) -> httpx2.Response:
            return await client.post("/v1/chat/completions", json=CHAT, headers={"idempotency-key": key})

        away, well = await ask("k-1"), await ask("k-1")
        broken, again = await ask("k-2"), await ask("k-2")

    assert away.status_code == 503 and "x-should-retry" not in away.headers
    assert well.status_code == 200 and "idempotent-replayed" not in well.headers
    assert broken.status_code == again.status_code == 502 and broken.content == again.content
    assert again.headers["idempotent-replayed"] == "true" and again.headers["x-should-retry"] == "false"
    assert wall.words == ["hi"]


async def test_answers_are_kept_for_a_time_and_in_a_bounded_number() -> None:
    clock = [0.0]
    model = ScriptedModel(*[[text(f"Answer {at}."), finished()] for at in range(4)])
    bounds = GatewayLimits(kept=1, kept_seconds=60)

    async with scene(model, bounds=bounds, now=lambda: clock[0]) as there, there.http() as client:

        async def ask(key: str) -> str:
            answer = await client.post("/v1/chat/completions", json=CHAT, headers={"idempotency-key": key})
            said: str = answer.json()["choices"][0]["message"]["content"]
            return said

        assert [await ask("a"), await ask("a")] == ["Answer 0."] * 2
        clock[0] = 61
        assert [await ask("a"), await ask("b"), await ask("b"), await ask("a")] == [
            *("Answer 1.", "Answer 2.", "Answer 2.", "Answer 3.")
        ]


class Watched(NodeLifecycle):
    """Says when something that was under way has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = asyncio.Event()

    def ended(self, call: EndableWork) -> None:
        super().ended(call)
        self.ends.set()


async def abandon(client: httpx2.AsyncClient, wall: Wall, life: Watched, headers: dict[str, str]) -> None:
    """Ask, hang up when the tool is at work, and wait until all of it has stopped."""
    asking = asyncio.create_task(client.post("/v1/chat/completions", json=CHAT, headers=headers))
    await wall.begun.wait()
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    await life.ends.wait()


async def test_a_keyed_answer_that_nobody_waits_for_ends_and_is_not_begun_again() -> None:
    wall, key = Wall(open=False), {"idempotency-key": "k-1"}
    bounds, life = GatewayLimits(alone=0.01), Watched()
    async with (
        scene(Posting(), tools=[wall.tool], policy=ALLOWED, bounds=bounds, life=life) as there,
        there.http() as client,
        asyncio.timeout(20),
    ):
        await abandon(client, wall, life, key)
        again = await client.post("/v1/chat/completions", json=CHAT, headers=key)

    assert again.status_code == 409 and "look what was done" in again.json()["error"]["message"]
    assert again.headers["x-should-retry"] == "false" and wall.words == ["hi"]


async def test_a_retry_after_a_lost_connection_is_refused_if_something_was_begun_and_runs_if_not() -> None:
    wall, life, held = Wall(open=False), Watched(), HeldModel(text("Hello"))
    async with (
        scene(Posting(), tools=[wall.tool], policy=ALLOWED, life=life) as there,
        there.http() as client,
        asyncio.timeout(20),
    ):
        await abandon(client, wall, life, FIRST)
        again = await client.post("/v1/chat/completions", json=CHAT, headers=SECOND)
    async with scene(held) as there, there.http() as client, asyncio.timeout(20):
        asking = asyncio.create_task(client.post("/v1/chat/completions", json=CHAT, headers=FIRST))
        await held.reached.wait()
        asking.cancel()
        await held.dropped.wait()
        held.go_on.set()
        whole = await client.post("/v1/chat/completions", json=CHAT, headers=SECOND)

    assert again.headers["x-should-retry"] == "false" and "Idempotency-Key" in again.json()["error"]["message"]
    assert again.status_code == 409 and wall.words == ["hi"]
    assert whole.status_code == 200


async def test_a_retry_does_not_join_a_request_whose_client_still_waits() -> None:
    held = HeldModel(text("Hello"))
    async with scene(held) as there, there.http() as client, asyncio.timeout(20):
        first = asyncio.create_task(client.post("/v1/chat/completions", json=CHAT, headers=FIRST))
        await held.reached.wait()
        held.reached.clear()
        second = asyncio.create_task(client.post("/v1/chat/completions", json=CHAT, headers=SECOND))
        await held.reached.wait()  # it was asked a second time
        held.go_on.set()
        runs = {(await each).headers["x-handrail-run"] for each in (first, second)}

    assert len(runs) == 2


async def test_a_retry_joins_a_request_that_something_in_between_holds_open() -> None:
    wall, model = Wall(open=False), Posting()
    impatient = {**FIRST, "x-stainless-read-timeout": "0.0001"}
    counts = 0

    async def who(request: Request) -> tuple[Caller, Secret | None]:
        nonlocal counts
        counts += 1
        if counts > 1:
            wall.go_on.set()
        return await caller_by_bearer_token(request)

    async with (
        scene(model, tools=[wall.tool], policy=ALLOWED, caller_of=who) as there,
        there.http() as client,
        asyncio.timeout(20),
    ):
        first = asyncio.create_task(client.post("/v1/chat/completions", json=CHAT, headers=impatient))
        await wall.begun.wait()
        second = await client.post("/v1/chat/completions", json=CHAT, headers=SECOND)
        assert (await first).content == second.content

    assert second.status_code == 200 and wall.words == ["hi"] and len(model.requests) == 2


async def test_after_a_restart_a_key_gets_the_answer_on_record_and_nothing_runs(tmp_path: Path) -> None:
    wall, key, path = Wall(), {"idempotency-key": "k-1"}, "/v1/chat/completions"
    answers = []
    for model in (Posting(), ScriptedModel()):
        async with (
            await SqliteJournal.open(tmp_path / "journal.db") as journal,
            scene(model, tools=[wall.tool], policy=ALLOWED, journal=journal) as there,
            there.http() as client,
        ):
            answers.append(await client.post(path, json=CHAT, headers=key))
            other = await client.post(path, json={**CHAT, "messages": [{"role": "user", "content": "Ho"}]}, headers=key)
            assert other.status_code == 422

    one, again = (each.json()["choices"][0]["message"]["content"] for each in answers)
    assert one == again == "Posted." and wall.words == ["hi"]
    assert answers[0].headers["x-handrail-run"] == answers[1].headers["x-handrail-run"]


async def test_a_call_that_was_at_work_when_the_node_was_killed_is_in_doubt_and_not_run_again(tmp_path: Path) -> None:
    wall, key, path = Wall(open=False), {"idempotency-key": "k-1"}, "/v1/chat/completions"
    (tmp_path / "killed").mkdir()
    (tmp_path / "after").mkdir()
    async with (
        await SqliteJournal.open(tmp_path / "killed" / "journal.db") as journal,
        scene(Posting(), tools=[wall.tool], policy=ALLOWED, journal=journal) as there,
        there.http() as client,
        asyncio.timeout(20),
    ):
        asking = asyncio.create_task(client.post(path, json=CHAT, headers=key))
        await wall.begun.wait()
        shutil.copytree(tmp_path / "killed", tmp_path / "after", dirs_exist_ok=True)  # the disk as it was then
        wall.go_on.set()
        await asking
    model = ScriptedModel([text("Nobody knows."), finished()])
    async with (
        await SqliteJournal.open(tmp_path / "after" / "journal.db") as journal,
        scene(model, tools=[wall.tool], policy=ALLOWED, journal=journal) as there,
        there.http() as client,
    ):
        answer = await client.post(path, json=CHAT, headers=key)

    assert answer.json()["choices"][0]["message"]["content"] == "Nobody knows." and wall.words == ["hi"]
    assert "do not repeat it" in str(model.requests[0].messages[-1])
