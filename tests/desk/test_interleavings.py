"""Whatever people do at whatever moment, a conversation and its record stay whole: nothing runs twice, every call has
one answer, what is told adds up to what is shown, and nothing is left over."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import HandrailError
from handrail.core.events import CallIntended, CallSettled, ConfirmationRequested, Recorded, ReplyGiven
from handrail.core.messages import InvocationMessage, Message, ResultMessage
from handrail.desk.desk import Desk
from handrail.desk.questions import Decision
from handrail.desk.values import ConversationEvent, ConversationItem, ConversationSnapshot, DeskQuestion
from handrail.run.history import unanswered_calls
from handrail.sessions.store.conversations import ConversationStore
from tests.desk.scripted_desk import Follower, ScriptedDesk, at_rest, over, reply, snapshot, until

WRITE, HOLD = ("write", {"path": "docs/x"}), ("hold_write", {"path": "docs/y"})
REPLIES = [
    reply("A moment, please.", WRITE, when="write"),
    reply("That is written now.", when="write"),
    reply("", HOLD, ("hold", {}), ("add", {"a": 1, "b": 2}), when="hold"),
    reply("It was held.", WRITE, when="hold"),
    reply("And let go.", when="hold"),
    reply("", ("fail", {}), WRITE, when="fail"),
    reply("It failed.", when="fail"),
    reply("I was about to say", breaks="the line is dead", when="break"),
    reply("word " * 40, when="talk"),
    reply("", when="talk"),
]
SAYINGS = ("write", "hold", "fail", "break", "talk")
DECISIONS: tuple[Decision, ...] = ("allow", "allow", "deny", "edit", "later")
STEPS = 40


class People:
    """Several at one desk, who do not wait for each other."""

    def __init__(self, desk: Desk, id: str, parlour: ScriptedDesk, seed: int) -> None:
        self._desk, self._id, self._parlour = desk, id, parlour
        self._chance = random.Random(seed)
        self._doing: set[asyncio.Task[Any]] = set()

    async def live(self) -> None:
        for _ in range(STEPS):
            doing = asyncio.create_task(self._try(self._chance.choice(self._ways())))
            self._doing.add(doing)
            await self._let_things_happen()
            if self._chance.random() < 0.1:
                doing.cancel()  # their page was closed
            gate = self._parlour.gate.open
            gate.set() if self._chance.random() < 0.5 else gate.clear()
        self._parlour.gate.open.set()
        await asyncio.wait(self._doing)
        assert [task for task in self._doing if not task.cancelled() and task.exception()] == []

    async def _let_things_happen(self) -> None:
        """A few steps of the loop, or as many events as there come until it stands still."""
        desk, id, gate = self._desk, self._id, self._parlour.gate
        for _ in range(self._chance.choice((0, 1, 10))):
            await asyncio.sleep(0)
        cursor = (await snapshot(desk, id)).cursor + self._chance.choice((0, 1, 4, 30))

        def goes_on(shown: ConversationSnapshot) -> bool:
            held = not gate.open.is_set() and gate.reached.is_set()
            return not (held or at_rest(shown) or bool(shown.questions) or shown.cursor >= cursor)

        await until(desk, id, lambda shown: not goes_on(shown))

    def _ways(self) -> tuple[Callable[[], Awaitable[Any]], ...]:
        desk, id, chance = self._desk, self._id, self._chance
        if desk.questions and chance.random() < 0.6:
            return (self._decide,)
        words, upto, once = chance.choice(SAYINGS), chance.randrange(20), f"k{chance.randrange(9)}"
        return (
            lambda: desk.say(id, words),
            lambda: desk.say(id, words),
            lambda: desk.say(id, words, once=once),
            lambda: desk.say(id, words, upto=upto),
            lambda: desk.again(id),
            lambda: desk.again(id),
            lambda: desk.stop(id),
            lambda: desk.undo(id, upto),
            lambda: desk.dismiss(id),
            lambda: desk.rename(id, words),
            lambda: desk.choose(id, model="first"),
            lambda: desk.fork(id),
        )

    async def _decide(self) -> None:
        if self._desk.questions:
            question = self._chance.choice(self._desk.questions)
            decision = self._chance.choice(DECISIONS)
            arguments = question.arguments if decision == "edit" else None
            await self._desk.decide(question.request, decision, arguments=arguments)

    async def _try(self, do: Callable[[], Awaitable[Any]]) -> None:
        with suppress(HandrailError):  # refused: somebody else was quicker, or it cannot be done now
            await do()


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_at_whatever_moment_everything_adds_up(tmp_path: Path, seed: int) -> None:
    parlour = ScriptedDesk(tmp_path, REPLIES)
    async with parlour.open() as desk:
        id = await desk.begin()
        async with Follower(desk, id) as follower:
            await People(desk, id, parlour, seed).live()
            await desk.stop(id)
            shown = await snapshot(desk, id)
            await asyncio.sleep(0)
            assert shown.live is None and shown.questions == () == desk.questions
            assert shown.state in ("idle", "failed", "waiting") and not desk.app.executor.runs.holds(id)
            assert heard(follower.heard) == (shown.items, shown.total, shown.state, shown.alert)
        await desk.say(id, "talk")  # it can be gone on with, whatever became of it
        shown = await over(desk, id)
        check_record(await desk.app.journal.history(id), parlour.done.written)
    saved = ConversationStore(tmp_path / ".handrail").load(id)
    check_whole(saved.messages)
    assert not unanswered_calls(saved) and len(saved) == shown.total
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


def heard(
    events: Iterable[ConversationSnapshot | ConversationEvent],
) -> tuple[tuple[ConversationItem, ...], int, str, Any]:
    """What a page shows that did as it was told; of the messages, those that a snapshot has."""
    items: list[ConversationItem] = []
    questions: dict[str, DeskQuestion] = {}
    state, alert = "", None
    for event in events:
        match event:
            case ConversationSnapshot():
                items, state, alert = list(event.items), event.state, event.alert
            case ConversationEvent(type="items", data=data):
                items[data["from"] :] = data["items"]
            case ConversationEvent(type="state", data=data):
                state = data["state"]
            case ConversationEvent(type="alert", data=data):
                alert = data or None
            case ConversationEvent(type="question", data=data):
                questions[data.request] = data
            case ConversationEvent(type="answered", data=data):
                del questions[data["request"]]
    assert questions == {}
    assert [item.index for item in items] == list(range(len(items)))
    return tuple(items[-40:]), len(items), state, alert


def check_whole(messages: Iterable[Message]) -> None:
    """Every result answers a call before it, and no call has two."""
    calls: set[str] = set()
    for message in messages:
        match message:
            case InvocationMessage():
                assert message.id not in calls
                calls.add(message.id)
            case ResultMessage():
                calls.remove(message.invocation_id)
    assert not calls


def check_record(history: list[Recorded], written: list[str]) -> None:
    begun = [each for each in history if isinstance(each, CallIntended)]
    settled = Counter(each.call_id for each in history if isinstance(each, CallSettled))
    asked = {
        message.id
        for each in history
        if isinstance(each, ReplyGiven)
        for message in each.messages or ()
        if isinstance(message, InvocationMessage)
    }
    assert set(settled.values()) <= {1} and {each.call_id for each in begun} <= settled.keys()
    effects = [each.call_id for each in begun if each.side_effects]
    assert len(effects) == len(set(effects))
    done = [
        each for each in history if isinstance(each, CallSettled) and each.call_id in effects and each.outcome == "ok"
    ]
    assert len(done) <= len(written) <= len(effects)  # one that was stopped may have got no further than to be begun
    waiting = asked - settled.keys()
    assert waiting <= {each.call_id for each in history if isinstance(each, ConfirmationRequested)}
