"""Two people at one desk, each of whom does something while the other does something else."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest

from handrail.core.errors import UsageError
from handrail.sessions.store.conversations import ConversationStore
from tests.desk.scripted_desk import PATIENCE, ScriptedDesk, asked, over, reply, until

HELD = [reply("", ("hold", {}), when="hold"), reply("Let go.", when="hold")]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """As another program would: whoever wants to write there waits."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


async def test_a_rule_that_was_set_for_a_turn_that_is_stopped_is_said_to_hold(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("", ("write", {"path": "docs/x.md"})), reply("One.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Write it")
        question = await asked(desk, id)
        approvals = desk.app.person.approvals
        approvals.path.parent.mkdir(parents=True, exist_ok=True)
        with locked(approvals.path.with_suffix(".lock")):
            always = asyncio.create_task(desk.decide(question.request, "always", rule=question.rules[0]))
            await asyncio.sleep(0)
            await desk.stop(id)
        with pytest.raises(UsageError, match="the rule applies from now on: allow notes:write"):
            await always
        assert approvals.rules(desk.app.config.file) == (question.rules[0],)
        assert parlour.done.written == []


async def test_while_one_is_deleted_the_others_go_on(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, HELD)
    async with parlour.open() as desk:
        going, other = await desk.begin(), await desk.begin()
        for id in (going, other):
            await desk.say(id, "hold")
            await until(desk, id, lambda shown: shown.live is not None and shown.live.calls[:1] != ())
        with locked(desk.app.state.folder / ".lock"):  # it cannot be deleted yet
            deleting = asyncio.create_task(desk.delete(going))
            async with asyncio.timeout(PATIENCE):
                with pytest.raises(UsageError, match="was deleted"):
                    while True:
                        await desk.items(going, 10)
                        await asyncio.sleep(0)
                with pytest.raises(UsageError, match="was deleted"):
                    await desk.delete(going)
                assert len(await desk.items(other, 10)) >= 1
        await deleting
        parlour.gate.open.set()
        await over(desk, other)
        assert [each.id for each in await desk.talks()] == [other]


async def test_who_deletes_what_another_program_deleted_is_told_so_and_so_is_everybody_here(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, [reply("Hello.")])
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "Hello")
        await over(desk, id)
        async with asyncio.timeout(PATIENCE), aclosing(desk.watch()) as news:
            watching = asyncio.create_task(anext(each async for each in news if each[0] == "gone"))
            await asyncio.sleep(0)
            ConversationStore(desk.app.state.folder).delete(id)
            with pytest.raises(UsageError, match="no conversation"):
                await desk.delete(id)
            assert await watching == ("gone", id)


async def test_who_deletes_and_leaves_has_deleted(tmp_path: Path) -> None:
    parlour = ScriptedDesk(tmp_path, HELD)
    async with parlour.open() as desk:
        id = await desk.begin()
        await desk.say(id, "hold")
        await parlour.gate.reached.wait()
        with locked(desk.app.state.folder / ".lock"):
            deleting = asyncio.create_task(desk.delete(id))
            with pytest.raises(UsageError, match="was deleted"):
                while True:
                    await desk.items(id, 10)
                    await asyncio.sleep(0)
            deleting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await deleting
        assert await desk.talks() == ()
        with pytest.raises(UsageError, match="no conversation"):
            await desk.items(id, 10)
