"""A turn as the editor is told it: what happens, and the permissions that it is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from typing import Self

from acp import RequestError
from acp.helpers import update_agent_message_text
from acp.interfaces import Client
from acp.schema import AllowedOutcome

from handrail.core.errors import UsageError
from handrail.desk.acp.updates import ALLOW, ALWAYS, TurnUpdates, asked_call, permission_options
from handrail.desk.desk import Desk
from handrail.desk.values import AttachedFile, ConversationEvent, ConversationSnapshot, DeskQuestion
from handrail.run.history import unanswered_calls

logger = logging.getLogger(__name__)


class EditorTurn:
    """Tells the editor what happens in a conversation for as long as the block lasts."""

    def __init__(self, desk: Desk, id: str, editor: Client) -> None:
        self._desk = desk
        self._id = id
        self._editor = editor
        self._updates = TurnUpdates()
        self._asking: dict[str, asyncio.Task[None]] = {}
        """The permission requests that were sent, by question."""
        self._at = 0
        """The number of the last event that the editor was told."""
        self._last: int | None = None
        """That of the last event of the turn, once it is known."""
        self.cancelled = False
        """Whether the person has ended it."""
        self._told = desk.follow(id)
        self._telling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._at = _number(await anext(self._told))
        self._telling = asyncio.create_task(self._tell())
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._telling is not None
        tasks = {self._telling, *self._asking.values()}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self._told.aclose()

    async def say(self, words: str, files: Sequence[AttachedFile]) -> None:
        """Begin the turn, unless it was cancelled before; cancelled meanwhile, it is over when this returns."""
        if not self.cancelled:
            await self._desk.say(self._id, words, files)
        if self.cancelled:
            await self._desk.stop(self._id)

    async def cancel(self) -> None:
        self.cancelled = True
        await self._desk.stop(self._id)

    async def told_all(self) -> None:
        """Wait until the editor has heard everything up to now."""
        assert self._telling is not None
        async with aclosing(self._desk.follow(self._id)) as now:
            self._last = _number(await anext(now))
        if self._at < self._last:
            await self._telling

    async def _tell(self) -> None:
        async for event in self._told:
            for update in self._updates.of(event):
                await self._editor.session_update(self._id, update)
            self._ask_or_withdraw(event)
            self._at = _number(event)
            if self._last is not None and self._at >= self._last:
                return

    def _ask_or_withdraw(self, event: ConversationSnapshot | ConversationEvent) -> None:
        """Ask for the permissions that calls wait for; stop asking where somebody else has answered."""
        questions: Sequence[DeskQuestion] = ()
        if isinstance(event, ConversationSnapshot):
            questions = event.questions
        elif event.type == "question":
            questions = (event.data,)
        elif event.type == "answered" and (task := self._asking.get(event.data["request"])) is not None:
            task.cancel()
        for question in questions:
            if question.request not in self._asking:
                self._asking[question.request] = asyncio.create_task(self._ask(question))

    async def _ask(self, question: DeskQuestion) -> None:
        try:
            await self._decide(question, await self._choice(question))
        except UsageError as error:
            logger.info("the question %s was not answered from the editor: %s", question.request, error)

    async def _choice(self, question: DeskQuestion) -> str | None:
        """The id of the option that the person chose; None if they chose none."""
        if question.form is not None:
            return None  # values are asked for, and a permission request has only choices
        try:
            answer = await self._editor.request_permission(
                question.conversation, asked_call(question), permission_options(question)
            )
        except (RequestError, ValueError) as error:  # it refused, or its answer is of no form that is known
            logger.warning("the editor did not answer a permission request: %s", error)
            return None
        return answer.outcome.option_id if isinstance(answer.outcome, AllowedOutcome) else None

    async def _decide(self, question: DeskQuestion, chosen: str | None) -> None:
        always = {f"{ALWAYS}{at}": offer.rule for at, offer in enumerate(question.offers)}
        if chosen is None:
            await self._desk.decide(question.request, "later")
        elif chosen in always:
            await self._desk.decide(question.request, "always", rule=always[chosen])
        else:
            await self._desk.decide(question.request, "allow" if chosen == ALLOW else "deny")

    async def tell_waiting(self) -> None:
        """A call that still waits is told with how to allow it: the editor has no other way to show it."""
        waiting = unanswered_calls(await self._desk.conversation(self._id))
        if waiting:
            names = ", ".join(message.call.name for message in waiting)
            how = f"handrail confirm list, and then: handrail resume {self._id}"
            said = f"\n\nNot called, because a person has not answered yet: {names}. Answer with: {how}"
            await self._editor.session_update(self._id, update_agent_message_text(said))


def _number(told: ConversationSnapshot | ConversationEvent) -> int:
    return told.cursor if isinstance(told, ConversationSnapshot) else told.n
