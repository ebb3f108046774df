"""A call of another program waits in the journal of the desk: a person at the desk sees it, and answers it there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import UsageError
from handrail.desk.desk import Desk
from handrail.desk.values import DeskQuestion
from handrail.journal.auditing import audit
from handrail.journal.reader import JournalReader, erase
from tests.cli.journal_fixtures import command, environment
from tests.desk.proxy_client import proxy
from tests.desk.scripted_desk import ScriptedDesk, asked, over, reply


class News:
    """What the desk tells, in order."""

    def __init__(self, news: Any) -> None:
        self._news = news

    async def next(self, kind: str) -> Any:
        async for told, about in self._news:
            if told == kind:
                return about
        raise AssertionError(f"no {kind!r} was told")


@asynccontextmanager
async def watching(desk: Desk) -> AsyncIterator[News]:
    async with aclosing(desk.watch()) as news:
        yield News(news)


async def test_a_call_of_a_proxy_in_another_process_is_allowed_or_denied_at_the_desk(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path)
    async with parlour.open() as desk, watching(desk) as news, proxy(tmp_path) as client:
        await client.call_tool("note", {"text": "one"})
        question: DeskQuestion = await news.next("question")
        refusals = []
        for decision in ("edit", "always"):
            with pytest.raises(UsageError, match="allowed or denied here") as refused:
                await desk.decide(question.request, decision, arguments={"text": "two"}, rule="allow note")
            refusals.append(refused.value)
        await desk.decide(question.request, "later")
        still = await client.call_tool("note", {"text": "one"})
        assert question.request in [each.request for each in await desk.all_questions()]
        await desk.decide(question.request, "allow")
        gone = await news.next("answered")
        ran = await client.call_tool("note", {"text": "one"})
        with pytest.raises(UsageError, match="somebody may have answered it"):
            await desk.decide(question.request, "deny")

        await client.call_tool("note", {"text": "two"})
        other: DeskQuestion = await news.next("question")
        await desk.decide(other.request, "deny", reason="not today")
        denied = await client.call_tool("note", {"text": "two"})

    assert (question.conversation, question.unseen, question.rules, question.form) == ("", "", (), None)
    assert (question.tool, question.written, question.description) == ("note", '{\n  "text": "one"\n}', "Write a note.")
    assert (still.is_error, ran.is_error, denied.is_error) == (True, False, True)
    assert gone == question.request and len(refusals) == 2
    assert (tmp_path / "proxy" / "notes.txt").read_text() == "one\n"
    assert audit(tmp_path / ".handrail" / "journal.db").ok


async def test_an_answer_that_somebody_gives_elsewhere_is_told_and_what_was_erased_can_only_be_denied(
    tmp_path: Path,
) -> None:
    parlour = ScriptedDesk(tmp_path)
    journal = tmp_path / ".handrail" / "journal.db"
    async with parlour.open() as desk, proxy(tmp_path) as client:
        await client.call_tool("note", {"text": "one"})
        async with watching(desk) as news:
            first: DeskQuestion = await news.next("question")
            told = command("--journal", str(journal), "confirm", "deny", first.request, "--by", "grace")
            denying = await asyncio.create_subprocess_exec(
                *told, env=environment(), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
            )
            answered = await news.next("answered")
            await denying.wait()

        await client.call_tool("note", {"text": "two"})
        await asyncio.to_thread(erase, journal, before=2**50)
        async with watching(desk) as news:  # nobody watched meanwhile
            second: DeskQuestion = await news.next("question")
            with pytest.raises(UsageError, match="were erased"):
                await desk.decide(second.request, "allow")
            await desk.decide(second.request, "deny")
        waits = await desk.all_questions()

    assert answered == first.request
    assert (second.request != first.request, "were erased" in second.unseen, waits) == (True, True, ())


async def test_what_the_desk_asked_itself_and_was_put_off_is_not_told_as_of_another_program(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("write", {"path": "x.md"})), reply("One.")])
    async with parlour.open() as desk, watching(desk) as news:
        id = await desk.begin()
        await desk.say(id, "Write it")
        own = await asked(desk, id)
        assert (await news.next("question")).conversation == id
        await desk.decide(own.request, "later")
        await over(desk, id)
        with JournalReader(desk.app.journal.path) as reader:
            assert list(reader.unanswered()) == [own.request]
        assert await desk.all_questions() == ()
        with pytest.raises(UsageError, match="does not wait for an answer"):
            await desk.decide(own.request, "allow")
