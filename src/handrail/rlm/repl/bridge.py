"""What answers `_host(name, value)` of the cells of one `repl` call: everything goes on to the executor, under keys.

Host calls are numbered in the order in which code makes them: `1`, `2`, … Those that a handler makes are numbered
below the call that it answers: `3/<ticket>/1`. So code that runs again makes the same calls under the same keys,
also when a query is answered from the record and its handlers are not needed any more.

A query with handlers in the REPL is a task. The cell is told `{"done": …}`, or `{"calls": […]}`: what its code has to
answer, with `_host("handled", {"results": […]})`, before there is more. One call at a time, so that what a handler
asks for meanwhile is known to be its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from handrail.core.calls import ToolResult
from handrail.core.ids import nested_id
from handrail.core.tasks import run_to_completion
from handrail.core.timeouts import time_limit_at
from handrail.rlm.query import sentinel
from handrail.rlm.query.spending import Spending
from handrail.rlm.repl.handler_channel import (
    CellCutOff,
    Channels,
    HandlerChannel,
    WaitingHandlerCall,
    settle_handler_call,
)
from handrail.rlm.repl.query_tools import QUERIES, VALUE_ERROR, completions_of
from handrail.rlm.values import RLMChatCompletion
from handrail.run.code.bridge import result_value
from handrail.run.code.callers import OTHER, CallWaitsForPerson, CodeCaller
from handrail.sandbox.port import JSON, HostError

HANDLED = "handled"


@dataclass(frozen=True, slots=True)
class _HandledQuery:
    """A query whose handlers are in the REPL."""

    name: str
    arguments: dict[str, Any]
    key: str
    channel: HandlerChannel
    task: asyncio.Task[ToolResult]


@dataclass(slots=True)
class _HostCallScope:
    """Counts host calls of the cells, or of a handler that one of them runs."""

    prefix: str = ""
    calls: int = 0
    asked: _HandledQuery | None = None
    waiting: WaitingHandlerCall | None = None

    def key(self) -> str:
        self.calls += 1
        return f"{self.prefix}{self.calls}"


@dataclass(slots=True)
class ReplBridge:
    """A `Host`. Close it when the cells have ended: what they still waited for is cancelled."""

    caller: CodeCaller
    """Calls a tool under a key."""
    call_id: str
    """The id of the `repl` call."""
    names: Container[str]
    """The tools that code may call."""
    channels: Channels
    """The channels in which the tools find the handlers; the same that `query_tools` was given."""
    spend: Spending | None = None
    """Counts the answers that come from the record."""
    completions: list[RLMChatCompletion] = field(default_factory=list)
    """The completions of all queries up to now, in the order in which they ended."""
    _levels: list[_HostCallScope] = field(default_factory=lambda: [_HostCallScope()])
    _under_way: dict[str, _HandledQuery] = field(default_factory=dict)
    """Queries whose handlers are in the REPL, by the ids of their calls."""

    async def __call__(self, name: str, value: JSON) -> JSON:
        """Answer what a cell asks of the host. A `HostError` has words for the one who wrote the code."""
        if name == HANDLED:
            return await self._handled(value)
        if name not in self.names:
            raise HostError(f"nothing answers to {name!r} here", "NameError")
        if not isinstance(value, dict):
            raise HostError(f"{name} takes its arguments by name, as an object", "TypeError")
        key = self._levels[-1].key()
        if name in QUERIES and value.get("tools") is not None:
            return await self._go_on(self._begin(name, value, key))
        if name not in QUERIES:
            return result_value(await self.caller.invoke(name, value, key=key))
        with _cut_off():
            async with time_limit_at(self.caller.until):
                result = await self.caller.invoke(name, value, key=key)
        return {"done": self._answer(name, value, result)}

    def again(self) -> None:
        """The interpreter ended, and the cells are run again from the first: under the same keys. Queries that are
        under way go on, and what they had put to the code is put to it once more."""
        for level in self._levels:
            if level.asked is not None and level.waiting is not None:
                level.asked.channel.put_back(level.waiting)
        self._levels = [_HostCallScope()]
        self.completions.clear()

    # ── queries whose handlers are in the REPL ───────────────────────────────────────

    def _begin(self, name: str, arguments: dict[str, Any], key: str) -> _HandledQuery:
        id = nested_id(self.call_id, key)
        if (asked := self._under_way.get(id)) is not None:
            if (asked.name, asked.arguments) != (name, arguments):
                raise HostError(OTHER)
            return asked
        channel = self.channels[id] = HandlerChannel()
        task = asyncio.create_task(self._invoked(name, arguments, key))
        self._under_way[id] = _HandledQuery(name, arguments, key, channel, task)
        return self._under_way[id]

    async def _invoked(self, name: str, arguments: dict[str, Any], key: str) -> ToolResult:
        return await self.caller.invoke(name, arguments, key=key)

    async def _go_on(self, asked: _HandledQuery) -> JSON:
        """Runs until the query has its answer, or one of its calls needs the code."""
        following = asyncio.create_task(asked.channel.next())
        try:
            with _cut_off():
                async with time_limit_at(self.caller.until):
                    await asyncio.wait({asked.task, following}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.task.done():
                return {"calls": [self._put_to_code(asked, following.result())]}
        finally:
            following.cancel()
        self._forget(nested_id(self.call_id, asked.key))
        return {"done": self._answer(asked.name, asked.arguments, asked.task.result())}

    def _put_to_code(self, asked: _HandledQuery, waiting: WaitingHandlerCall) -> JSON:
        plain = waiting.ticket.replace("%", "%25").replace("/", "%2F")  # models may write anything as the id of a call
        level = _HostCallScope(f"{asked.key}/{plain}/", asked=asked, waiting=waiting)
        self._levels.append(level)
        return {
            "ticket": level.prefix,  # a query that another's handler asks may have calls of the same ids
            "index": waiting.index,
            "name": waiting.name,
            "arguments": waiting.arguments,
        }

    async def _handled(self, value: JSON) -> JSON:
        match value:
            case {"results": [{"ticket": str(ticket)} as result]}:
                pass
            case _:
                raise HostError("handled takes {'results': [{'ticket': …, 'value' or 'error': …}]}", "TypeError")
        for at, level in enumerate(self._levels):
            if level.asked is not None and level.waiting is not None and level.prefix == ticket:
                # A handler that was left by an exception has not posted: whatever lies above has ended with it.
                del self._levels[at:]
                settle_handler_call(level.waiting, result)
                return await self._go_on(level.asked)
        words = "ask with tools from one thread only, and many at once by llm_query_batched"
        raise HostError(f"no call waits under the ticket {ticket!r}; {words}", "ValueError")

    def _forget(self, id: str) -> None:
        del self._under_way[id], self.channels[id]

    # ── answers ──────────────────────────────────────────────────────────────────────

    def _answer(self, name: str, arguments: dict[str, Any], result: ToolResult) -> JSON:
        """What the function of that name returns: text, or a list of texts."""
        many = name.endswith("_batched")
        if result.outcome == CellCutOff.outcome:
            raise CellCutOff
        if result.error is not None:
            if result.error.code == VALUE_ERROR or result.outcome == "invalid_arguments":
                raise HostError(result.error.message, "ValueError")
            # What the code did after it may lie under keys that it would not use now.
            if result.outcome in ("cancelled", "timeout"):
                raise HostError(_CUT_OFF)
            words = sentinel.make(result.outcome, result.error.message)
            prompts = arguments.get("prompts")
            return [words] * (len(prompts) if isinstance(prompts, list) else 1) if many else words
        completions = completions_of(arguments, result.content)
        self.completions += completions
        if self.spend is not None:
            for each in completions:
                self.spend.heard(each)
        answers = list(map(sentinel.answer_of, completions))
        return answers if many else answers[0]

    async def aclose(self) -> None:
        """End the queries that nobody waits for any more, also if the caller is cancelled once more meanwhile."""
        if self._under_way:
            await run_to_completion(self._end())

    async def _end(self) -> None:
        tasks = [asked.task for asked in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for id in list(self._under_way):
            self._forget(id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if isinstance(error, CallWaitsForPerson) and self._under_way:
                await self._pause(error)
        finally:
            await self.aclose()

    async def _pause(self, why: CallWaitsForPerson) -> None:
        """The cell is to be run again from its beginning: its queries stop where they would need it, and do not end."""
        for asked in self._under_way.values():
            asked.channel.pause(why.message)
        if isinstance(why, CellCutOff):
            return  # nobody waits for what the models are about to say
        await asyncio.wait([asked.task for asked in self._under_way.values()])


_CUT_OFF = (
    "this code was run before and ended while this query was under way; it is not asked again, and what the code did "
    "after it is not done again. Look at what is there, and write the rest as new code"
)


@contextmanager
def _cut_off() -> Iterator[None]:
    """Cuts the cell off when its caller goes away, or its time is up, while models are asked.

    Raises:
        CellCutOff: In the place of both.
    """
    try:
        yield
    except (asyncio.CancelledError, TimeoutError):
        raise CellCutOff from None
