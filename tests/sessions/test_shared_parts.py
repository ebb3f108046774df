"""What sessions of one process share: a journal by its path, and one loop behind the blocking methods."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from handrail import LLM, Session
from handrail.core.errors import JournalError
from handrail.journal import JournalReader, audit
from handrail.testing import ScriptedModel, call, text


async def note(x: int) -> str:
    """Note a number."""
    return "noted"


def model(prompts: int = 1) -> ScriptedModel:
    return ScriptedModel(*([call("note", x=1)], [text("Noted.")]) * prompts)


def threads(name: str) -> int:
    return sum(thread.name.startswith(name) for thread in threading.enumerate())


async def test_a_journal_by_its_path_is_open_once_and_closed_by_the_last_session(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    (tmp_path / "link").symlink_to(tmp_path)
    paths: list[str | Path] = [path, str(path), tmp_path / "link" / "shared.db"]
    sessions = [Session(model(2), tools=[note], journal=each) for each in paths]
    await asyncio.gather(*(session.ask_async("?") for session in sessions))
    assert threads("journal shared.db") == 1

    await sessions[0].aclose()
    assert threads("journal shared.db") == 1
    assert (await sessions[1].ask_async("?")).text == "Noted."
    for session in sessions[1:]:
        await session.aclose()

    assert threads("journal shared.db") == 0
    report = audit(path)
    assert (report.ok, report.unsigned_tail) == (True, 0)
    with JournalReader(path) as reader:
        assert [run.finished is not None for run in reader.runs()] == [True] * 3


async def test_a_journal_that_cannot_be_opened_fails_every_session_and_is_tried_again_by_the_next(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.db"
    path.write_text("this is no journal, but it is long enough to be looked at as one" * 20)
    sessions = [Session(model(), tools=[note], journal=path) for _ in range(3)]
    failed = await asyncio.gather(*(session.ask_async("?") for session in sessions), return_exceptions=True)
    assert [type(each) for each in failed] == [JournalError] * 3

    path.unlink()
    async with Session(model(), tools=[note], journal=path) as session:
        assert (await session.ask_async("?")).text == "Noted."


async def test_a_session_that_is_cancelled_while_its_journal_opens_leaves_it_to_the_others(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    first, second = (Session(model(2), tools=[note], journal=path) for _ in range(2))
    opening, waiting = (asyncio.create_task(each.ask_async("?")) for each in (first, second))
    await asyncio.sleep(0)
    opening.cancel()
    assert (await waiting).text == "Noted."
    with pytest.raises(asyncio.CancelledError):
        await opening

    alone = asyncio.create_task(first.ask_async("?"))
    await asyncio.sleep(0)
    alone.cancel()
    await asyncio.wait({alone})
    await second.aclose()
    await first.aclose()
    assert threads("journal shared.db") == 0


async def test_a_journal_whose_file_was_replaced_is_not_shared_with_new_sessions(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    old = Session(model(2), tools=[note], journal=path)
    await old.ask_async("?")
    for name in ("journal.db", "journal.db-wal", "journal.db-shm", "journal.key"):
        (tmp_path / name).unlink()
    with pytest.raises(JournalError):
        await old.ask_async("?")

    async with Session(model(), tools=[note], journal=path) as new:
        assert (await new.ask_async("?")).text == "Noted."
    with pytest.raises(JournalError):
        await old.aclose()


def test_blocking_sessions_share_one_thread_which_ends_with_the_last() -> None:
    before = threads("handrail-loop")
    first, second = (Session(model(2), tools=[note]) for _ in range(2))
    first.ask("?")
    second.ask("?")
    assert threads("handrail-loop") - before <= 1

    first.close()
    assert second.ask("?").text == "Noted."
    second.close()
    assert threads("handrail-loop") <= before

    with Session(model(), tools=[note]) as third:
        assert third.ask("?").text == "Noted."


def test_sessions_in_several_threads_are_answered_at_once() -> None:
    both = threading.Barrier(2, timeout=20)

    def meet(x: int) -> str:
        both.wait()
        return "met"

    answers: list[str] = []

    def ask() -> None:
        with Session(ScriptedModel([call("meet", x=1)], [text("Met.")]), tools=[meet]) as session:
            answers.append(session.ask("?").text)

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()

    assert answers == ["Met.", "Met."]


def test_a_callback_of_one_session_may_block_on_another() -> None:
    said: list[str] = []

    def on_event(event: Any) -> None:
        if not said:
            with Session(ScriptedModel([text("inner")])) as inner:
                said.append(inner.ask("?").text)

    with Session(ScriptedModel([text("outer")])) as outer:
        said.append(outer.ask("?", on_event=on_event).text)

    assert said == ["inner", "outer"]


def _ask_in_child(answers: Any) -> None:
    with Session(ScriptedModel([text("child")])) as session:
        answers.put(session.ask("?").text)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_a_loop_of_its_own() -> None:
    with LLM(ScriptedModel([text("parent")], [text("parent again")])) as llm:
        assert llm.generate("?") == "parent"
        fork = multiprocessing.get_context("fork")
        answers = fork.Queue()
        child = fork.Process(target=_ask_in_child, args=(answers,))
        child.start()
        assert answers.get(timeout=30) == "child"
        child.join(30)
        assert child.exitcode == 0
        assert llm.generate("?") == "parent again"
