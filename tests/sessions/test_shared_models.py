"""Sessions that name the same model share it and its connections, and the last of them closes it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from handrail import Session
from tests.docs.model_service import point_service_at
from tests.models.raw_reply_server import RawReplyServer, Reply, serving, sse, streamed
from tests.polling import until

NAME = "openai:gpt-4.1"


def said(text: str, *before: asyncio.Event) -> Reply:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": "stop"}
    return [*before, *streamed(sse({"id": "r", "model": "m", "choices": [choice]}, b"[DONE]"))]


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RawReplyServer]:
    async with serving(*(said("Here.") for _ in range(8))) as server:
        point_service_at("openai", server.url, monkeypatch)
        yield server


async def test_a_second_session_opens_no_connection_and_the_last_closes_it(service: RawReplyServer) -> None:
    first, second = Session(NAME), Session(NAME)
    await first.ask_async("?")
    assert (await second.ask_async("?")).text == "Here."
    async with Session(NAME) as third:
        await third.ask_async("?")
    assert (service.connections, first.llm.model) == (1, second.llm.model)

    await first.aclose()
    await first.aclose()  # a second time lets go of nothing that is another's
    await second.ask_async("?")
    assert (service.connections, len(service.asked)) == (1, 4)
    await second.aclose()
    await until(lambda: all(task.done() for task in service.tasks))

    async with Session(NAME) as fourth:
        await fourth.ask_async("?")
    assert service.connections == 2


async def test_a_session_that_closes_cuts_off_no_reply_of_another(service: RawReplyServer) -> None:
    held = asyncio.Event()
    service.replies[:] = [said("Late.", held), said("Soon.")]
    slow, quick = Session(NAME), Session(NAME)
    waiting = asyncio.create_task(slow.ask_async("?"))
    await until(lambda: len(service.asked) == 1)
    await quick.ask_async("?")
    await quick.aclose()
    held.set()
    assert (await waiting).text == "Late."
    await slow.aclose()


async def test_a_session_that_is_asked_after_its_end_has_its_model_again(service: RawReplyServer) -> None:
    session = Session(NAME)
    await session.ask_async("?")
    await session.aclose()
    async with Session(NAME) as other:
        await session.ask_async("?")
        await other.ask_async("?")
        await session.aclose()
        assert (await other.ask_async("?")).text == "Here."
    await until(lambda: all(task.done() for task in service.tasks))


async def test_a_session_that_was_never_closed_keeps_nobody_from_closing(service: RawReplyServer) -> None:
    async with Session(NAME) as session:
        Session(NAME)
        gc.collect()
        await session.ask_async("?")
    await until(lambda: all(task.done() for task in service.tasks))


async def test_sessions_with_other_keys_share_nothing(service: RawReplyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Session(NAME) as first:
        await first.ask_async("?")
        monkeypatch.setenv("OPENAI_API_KEY", "another-key-1234")
        async with Session(NAME) as second:
            await second.ask_async("?")
    keys = [asked.headers["authorization"] for asked in service.asked]
    assert keys[0] != keys[1] == "Bearer another-key-1234"
    assert service.connections == 2
