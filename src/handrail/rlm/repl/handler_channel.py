"""Handlers that live in a REPL: calls wait here until the code there has answered them."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from handrail.core.errors import ToolError
from handrail.core.invocation import Invocation
from handrail.run.code.callers import CallWaitsForPerson
from handrail.sandbox.port import JSON

Channels = dict[str, "HandlerChannel"]
"""The channels by the id of the call whose query uses the handlers. A cell's bridge adds them, and the tools find
them."""


class CellCutOff(CallWaitsForPerson):
    """Whoever ran it went away, or its time was up, while models were asked. It has no end, so that what they have
    answered by then is not asked again when the run is taken up."""

    def __init__(self) -> None:
        super().__init__("it was interrupted while models were asked; resume the run")


@dataclass(frozen=True, slots=True)
class WaitingHandlerCall:
    """A call that waits for code in a REPL."""

    ticket: str
    """The same whenever the same call of the same query is to be answered again."""
    index: int
    """The number of the prompt in a batch."""
    name: str
    arguments: dict[str, Any]
    answer: asyncio.Future[JSON]


class HandlerChannel:
    """Carries the calls of one query or batch to the code that answers them, one at a time."""

    def __init__(self) -> None:
        self._waiting: deque[WaitingHandlerCall] = deque()
        self._answers: set[asyncio.Future[JSON]] = set()
        self._pause = ""
        """Why no call is answered any more, if it is so."""
        self._more = asyncio.Event()
        self._run: str | None = None

    def of_batch(self, run: str) -> None:
        """The queries are runs below this one, each named by the number of its prompt."""
        self._run = run

    async def elsewhere(self, invocation: Invocation) -> JSON:
        """Have the code in the REPL answer a call.

        Raises:
            ToolError: It failed, with its words.
            CallWaitsForPerson: The code itself waits for a person.
        """
        if self._pause:
            raise CallWaitsForPerson(self._pause)
        index, ticket = 0, invocation.id
        if self._run is not None:
            index = int(invocation.context.run.removeprefix(f"{self._run}."))
            ticket = f"{index}.{invocation.id}"
        answer: asyncio.Future[JSON] = asyncio.get_running_loop().create_future()
        self._waiting.append(WaitingHandlerCall(ticket, index, invocation.tool_name, invocation.arguments, answer))
        self._more.set()
        self._answers.add(answer)
        try:
            return await answer
        except asyncio.CancelledError:
            if not self._pause:
                raise
            raise CallWaitsForPerson(self._pause) from None
        finally:
            self._answers.discard(answer)

    @property
    def is_paused(self) -> bool:
        return bool(self._pause)

    def pause(self, why: str) -> None:
        """Have no call answered any more, nor given up: each is put to the code again when its query is taken up."""
        self._pause = why
        for answer in self._answers:
            if not answer.done():
                answer.set_exception(CallWaitsForPerson(why))

    def put_back(self, waiting: WaitingHandlerCall) -> None:
        """The code that was to answer it is gone; what runs in its place answers it first."""
        self._waiting.appendleft(waiting)
        self._more.set()

    async def next(self) -> WaitingHandlerCall:
        """The next call that still has somebody who wants its answer."""
        while True:
            while self._waiting:
                waiting = self._waiting.popleft()
                if not waiting.answer.done():
                    return waiting
            self._more.clear()
            await self._more.wait()


def settle_handler_call(waiting: WaitingHandlerCall, result: Any) -> None:
    """Give a call what the code has posted. One that was given up meanwhile needs nothing any more."""
    if waiting.answer.done():
        return
    match result:
        case {"error": str(words)}:
            waiting.answer.set_exception(ToolError("failed", words or "it raised an exception without words"))
        case {"value": value}:
            waiting.answer.set_result(value)
        case _:
            waiting.answer.set_exception(ToolError("failed", "its handler posted neither a value nor an error"))
