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
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, Self

from handrail.core.calls import ToolResult
from handrail.core.ids import nested_id
from handrail.rlm.query import sentinel
from handrail.rlm.query.spending import Spending
from handrail.rlm.repl.calling import Caller
from handrail.rlm.repl.channel import Channel, Channels, Waiting, settle
from handrail.rlm.repl.tools import QUERIES, VALUE_ERROR, completions_of
from handrail.rlm.values import RLMChatCompletion
from handrail.sandbox.port import JSON, HostError

HANDLED = "handled"

Serve = Callable[[JSON], Awaitable[JSON]]
"""Answers by itself, without a call: only what changes nothing and gives the same again."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query whose handlers are in the REPL."""

    name: str
    arguments: dict[str, Any]
    key: str
    channel: Channel
    task: asyncio.Task[ToolResult]


@dataclass(slots=True)
class _Level:
    """Where host calls are counted: the cells, or a handler that one of them runs."""

    prefix: str = ""
    calls: int = 0
    asked: _Asked | None = None
    waiting: Waiting | None = None

    def key(self) -> str:
        self.calls += 1
        return f"{self.prefix}{self.calls}"


class Bridge:
    """A `Host`. Close it when the cells have ended: what they still waited for is cancelled."""

    def __init__(
        self,
        caller: Caller,
        call_id: str,
        names: Container[str],
        channels: Channels,
        *,
        serves: Mapping[str, Serve] = {},
        spend: Spending | None = None,
    ) -> None:
        """
        Args:
            caller: Calls a tool under a key.
            call_id: Of the `repl` call.
            names: The tools that code may call.
            channels: Where the tools find the handlers; the same that `query_tools` was given.
            serves: What is answered here, without a call.
            spend: Counts the answers that come from the record.
        """
        self._caller = caller
        self._call_id = call_id
        self._names = names
        self._channels = channels
        self._serves = serves
        self._spend = spend
        self._levels = [_Level()]
        self._tasks: dict[asyncio.Task[ToolResult], str] = {}
        self.completions: list[RLMChatCompletion] = []
        """Of every query so far, in the order of their ends."""

    async def __call__(self, name: str, value: JSON) -> JSON:
        """
        Raises:
            HostError: In words for the one who wrote the code.
        """
        if (serve := self._serves.get(name)) is not None:
            return await serve(value)
        if name == HANDLED:
            return await self._handled(value)
        if name not in self._names:
            raise HostError(f"nothing answers to {name!r} here", "NameError")
        if not isinstance(value, dict):
            raise HostError(f"{name} takes its arguments by name, as an object", "TypeError")
        key = self._levels[-1].key()
        if name in QUERIES and value.get("tools") is not None:
            return await self._go_on(self._begin(name, value, key))
        result = await self._caller.invoke(name, value, key=key)
        return {"done": self._answer(name, value, result)} if name in QUERIES else _value(result)

    # ── queries whose handlers are in the REPL ───────────────────────────────────────

    def _begin(self, name: str, arguments: dict[str, Any], key: str) -> _Asked:
        channel = Channel()
        id = nested_id(self._call_id, key)
        self._channels[id] = channel
        task = asyncio.create_task(self._invoked(name, arguments, key))
        self._tasks[task] = id
        return _Asked(name, arguments, key, channel, task)

    async def _invoked(self, name: str, arguments: dict[str, Any], key: str) -> ToolResult:
        return await self._caller.invoke(name, arguments, key=key)

    async def _go_on(self, asked: _Asked) -> JSON:
        """Until the query has its answer, or one of its calls needs the code."""
        following = asyncio.create_task(asked.channel.next())
        try:
            await asyncio.wait({asked.task, following}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.task.done():
                return {"calls": [self._put_to_code(asked, following.result())]}
        finally:
            following.cancel()
        self._forget(asked.task)
        return {"done": self._answer(asked.name, asked.arguments, asked.task.result())}

    def _put_to_code(self, asked: _Asked, waiting: Waiting) -> JSON:
        self._levels.append(_Level(f"{asked.key}/{waiting.ticket}/", asked=asked, waiting=waiting))
        return {
            "ticket": waiting.ticket,
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
        if not any(level.waiting is not None and level.waiting.ticket == ticket for level in self._levels):
            raise HostError(f"no call waits under the ticket {ticket!r}", "ValueError")
        while True:
            # A handler that was left by an exception has not posted: whatever lies above has ended with it.
            level = self._levels.pop()
            if level.asked is not None and level.waiting is not None and level.waiting.ticket == ticket:
                settle(level.waiting, result)
                return await self._go_on(level.asked)

    def _forget(self, task: asyncio.Task[ToolResult]) -> None:
        self._channels.pop(self._tasks.pop(task, ""), None)

    # ── answers ──────────────────────────────────────────────────────────────────────

    def _answer(self, name: str, arguments: dict[str, Any], result: ToolResult) -> JSON:
        """What the function of that name returns: text, or a list of texts."""
        many = name.endswith("_batched")
        if result.error is not None:
            if result.error.code == VALUE_ERROR or result.outcome == "invalid_arguments":
                raise HostError(result.error.message, "ValueError")
            words = sentinel.make(result.outcome, result.error.message)
            return [words] * len(arguments.get("prompts") or ()) if many else words
        completions = completions_of(arguments, result.content)
        self.completions += completions
        if self._spend is not None:
            for each in completions:
                self._spend.heard(each)
        answers = list(map(sentinel.answer_of, completions))
        return answers if many else answers[0]

    async def aclose(self) -> None:
        """End the queries that nobody waits for any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            self._forget(task)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def _value(result: ToolResult) -> JSON:
    if result.is_error:
        raise HostError(result.text)
    return result.content
