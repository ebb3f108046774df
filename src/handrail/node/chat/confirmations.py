"""Who is asked before a tool of a chat changes something.

In a chat the question goes out as a `confirmation_required` frame, and the call waits:
for the approver of the program, or for somebody to say `dispatch_confirmed`. Outside
of a chat nobody is waited for, unless there is an approver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.canonical import canonical_json
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny
from handrail.core.ids import run_and_above
from handrail.core.ports import Approver
from handrail.core.timeouts import time_limit

BY = "dispatch_confirmed"
MOST = 10_000
"""Questions that are remembered, so that a word is not used twice."""
Send = Callable[[str, dict[str, Any]], Awaitable[None]]


@dataclass(slots=True)
class ChatConfirmation:
    """A question that was asked: what exactly it is about, and who waits for the answer."""

    asked: Confirmation
    waits: asyncio.Future[Decision] | None = None
    used: bool = False

    def is_about(self, arguments: dict[str, Any]) -> bool:
        """Whether these are the arguments that were asked about, or those that its frame showed."""
        return canonical_json(arguments) in (canonical_json(self.asked.arguments), canonical_json(self.asked.shown))


@dataclass(slots=True)
class _ChatListener:
    send: Send | None
    sending: set[asyncio.Task[None]] = field(default_factory=set)

    def sent(self, task: asyncio.Task[None]) -> None:
        self.sending.discard(task)
        if not task.cancelled():
            task.exception()  # a call that has its answer already does not fail because its question did not arrive


class Confirmations:
    """An `Approver` that remembers what it was asked, so that each word is good once."""

    def __init__(self, approver: Approver | None, patience: float | None) -> None:
        self._approver = approver
        self._patience = patience
        self._questions = BoundedMemory[tuple[str, str], ChatConfirmation](MOST)
        """By run and call, the oldest first."""
        self._chats: dict[str, _ChatListener] = {}

    @contextmanager
    def chat(self, run: str, send: Send | None) -> Iterator[None]:
        """Put the questions of this run to whoever reads its frames."""
        chat = self._chats[run] = _ChatListener(send)
        try:
            yield
        except asyncio.CancelledError:
            for question in self._of_run(run):  # whose calls have their answer now: no word helps them
                question.used = True
            raise
        finally:
            del self._chats[run]
            for task in chat.sending:
                task.cancel()

    def of(self, call_id: str) -> list[ChatConfirmation]:
        """Everything that was asked about calls of this id, the newest last."""
        return [question for (_, id), question in self._questions.items() if id == call_id]

    def is_chat(self, run: str) -> bool:
        """Whether it is one that goes on."""
        return run in self._chats

    def are_open(self, run: str) -> bool:
        return any(not question.used for question in self._of_run(run))

    def _of_run(self, run: str) -> list[ChatConfirmation]:
        return [question for (of, _), question in self._questions.items() if run in run_and_above(of)]

    def _remember(self, question: ChatConfirmation) -> None:
        self._questions[question.asked.run, question.asked.call_id] = question

    async def decide(self, question: Confirmation) -> Decision:
        asked = ChatConfirmation(question)
        try:
            return await self._decide(asked)
        except asyncio.CancelledError:  # somebody else answered it, or its caller is gone: no word helps it
            asked.used = True
            raise

    async def _decide(self, asked: ChatConfirmation) -> Decision:
        question = asked.asked
        chat = next((self._chats[run] for run in run_and_above(question.run) if run in self._chats), None)
        if chat is None or chat.send is None:
            self._remember(asked)
            return Defer() if self._approver is None else await _decided(asked, self._approver)
        waits = asked.waits = asyncio.get_running_loop().create_future()
        self._remember(asked)
        # Whoever reads the frame may answer before it is done reading.
        sent = asyncio.create_task(_told(chat.send, question))
        chat.sending.add(sent)
        sent.add_done_callback(chat.sent)
        either: tuple[asyncio.Future[Any], ...] = (sent, waits)
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if sent.done():
            sent.result()
        if not waits.done() and self._approver is not None:
            decision = await _decided(asked, self._approver)
            if not isinstance(decision, Defer):
                return decision
        return await self._waited(waits)

    async def _waited(self, waits: asyncio.Future[Decision]) -> Decision:
        try:
            async with time_limit(self._patience):
                return await waits
        except TimeoutError:
            return Defer()


async def _decided(question: ChatConfirmation, approver: Approver) -> Decision:
    decision = await approver.decide(question.asked)
    question.used = question.used or not isinstance(decision, Defer)
    return decision


async def _told(send: Send, question: Confirmation) -> None:
    await send(
        "confirmation_required",
        {
            "id": question.call_id,
            "name": question.tool,
            "arguments": question.shown,
            "description": question.description,
            "side_effects": True,
        },
    )


def allow_confirmation(question: ChatConfirmation) -> bool:
    """Use the word for it, if it is unused; whether somebody waited for it."""
    return _say(question, Allow(BY))


def decline_confirmation(question: ChatConfirmation, reason: str) -> bool:
    return _say(question, Deny(BY, reason))


def _say(question: ChatConfirmation, decision: Decision) -> bool:
    question.used = True
    if question.waits is None or question.waits.done():
        return False
    question.waits.set_result(decision)
    return True
