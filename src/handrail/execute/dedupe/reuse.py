"""When a call is answered without running: the rules, in the one place where the executor asks.

- A side effect that is not declared idempotent is never found, shared or remembered.
- A failure is not remembered.
- A write forgets what it touches, before and after it runs, however it ends.
- A result that a write overlapped is not remembered, and nobody joins it.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from handrail.core.calls import ToolResult
from handrail.core.single_flight import SingleFlight
from handrail.execute.dedupe.matching import Deduplicator, call_identity, detached_result


class OverlappingWrites:
    """The writes of one executor, whoever makes them: what one caller changes, another reads.

    A call is asked for with its own identity, because equal writes do not disturb each other. A write that
    equals no other has a bare `object` as its identity, and only adds to the sums.
    """

    __slots__ = ("_all_begun", "_all_running", "_begun", "_running", "_users")

    def __init__(self) -> None:
        self._all_begun = 0
        self._all_running = 0
        self._begun: dict[Hashable, int] = {}
        self._running: dict[Hashable, int] = {}
        self._users = 0

    def generation(self, call: Hashable) -> int:
        """Changes whenever another write begins."""
        return self._all_begun - self._begun.get(call, 0) if self._begun else self._all_begun

    def is_quiet(self, call: Hashable) -> bool:
        """Whether no other write is running."""
        return self._all_running == self._running.get(call, 0)

    def wrote(self) -> None:
        """A write that nobody saw running has taken effect."""
        self._all_begun += 1

    @contextmanager
    def writing(self, call: Hashable) -> Iterator[None]:
        """While a write runs. Its own count is kept as long as any call is in flight to compare with it."""
        shared = type(call) is not object
        self._all_begun += 1
        self._all_running += 1
        if shared:
            self._begun[call] = self._begun.get(call, 0) + 1
            self._running[call] = self._running.get(call, 0) + 1
        try:
            yield
        finally:
            self._all_running -= 1
            if shared:
                self._running[call] -= 1
                if not self._running[call]:
                    del self._running[call]

    def __enter__(self) -> None:
        """While a call is under way; when none is, there is nothing to compare and all counts start over."""
        self._users += 1

    def __exit__(self, *exc: object) -> None:
        self._users -= 1
        if not self._users and self._all_begun:
            self._begun.clear()
            self._all_begun = 0


logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _ReuseRequest:
    """A call, and all that decides how it may be answered. Not frozen, only because that would cost more."""

    deduplicator: Deduplicator | None
    scope: str
    name: str
    arguments: dict[str, Any]
    resource: Hashable | None
    reads: bool
    execute: Callable[[], Awaitable[ToolResult]]
    identity: Hashable
    alone: bool


class CallReuse:
    """Decides for one executor and event loop whether a call is run, shared or answered from memory."""

    def __init__(self) -> None:
        self._once: SingleFlight[Hashable, ToolResult] = SingleFlight(leaders_wait=False)
        self._traffic = OverlappingWrites()
        # By identity, because a deduplicator need not be hashable. There is one for each tool at most.
        self._known: dict[int, Deduplicator] = {}

    async def run(
        self,
        *,
        call_id: str,
        deduplicator: Deduplicator | None,
        scope: str,
        name: str,
        arguments: dict[str, Any],
        resource: Hashable | None,
        reads: bool,
        may_reuse: bool,
        share: bool,
        execute: Callable[[], Awaitable[ToolResult]],
        alone: bool = False,
    ) -> tuple[ToolResult, bool]:
        """The answer to a call, and whether another call's execution gave it. One that is `alone` is made at a moment
        at which nobody makes an equal one.

        `execute` runs the tool and is where a slot, a lock or a deadline belongs: a call
        that only waits for an equal one must not hold what that one needs.
        """
        if deduplicator is not None:
            self._known[id(deduplicator)] = deduplicator
        repeatable = may_reuse and (share or deduplicator is not None)
        identity: Hashable = call_identity(name, arguments) if repeatable else object()
        asked = _ReuseRequest(
            deduplicator if repeatable else None, scope, name, arguments, resource, reads, execute, identity, alone
        )
        with self._traffic:
            result, reused = await self._answer(asked, share=share and repeatable)
        return (_for_asker(result, call_id), True) if reused else (result, False)

    def wrote(self, resource: Hashable | None = None) -> None:
        """Forget what a write touches that took effect outside `run`: work that went on after its call was answered."""
        self._traffic.wrote()
        self._forget(resource)

    async def _answer(self, asked: _ReuseRequest, *, share: bool) -> tuple[ToolResult, bool]:
        traffic = self._traffic
        if asked.deduplicator is not None:
            found = asked.deduplicator.find(asked.scope, asked.name, asked.arguments, asked.resource)
            if found is not None:
                return found, True
        # While a write runs, an execution that began before it took effect may be joined by a call that must see it.
        if not share or not traffic.is_quiet(asked.identity):
            return await self._perform(asked), False
        flight = (asked.scope, asked.identity, traffic.generation(asked.identity))
        perform = self._perform if asked.alone else self._perform_in_turn
        result, shared = await self._once.share(flight, partial(perform, asked))
        return (detached_result(result), True) if shared else (result, False)

    async def _perform_in_turn(self, asked: _ReuseRequest) -> ToolResult:
        """Calls that are made at the same moment find this one under way, also where its tool never waits."""
        await asyncio.sleep(0)
        return await self._perform(asked)

    async def _perform(self, asked: _ReuseRequest) -> ToolResult:
        traffic = self._traffic
        quiet, generation = traffic.is_quiet(asked.identity), traffic.generation(asked.identity)
        # A handler may change the arguments it is given; the call is remembered as it was asked.
        arguments = copy.deepcopy(asked.arguments) if asked.deduplicator is not None else {}
        result = await (asked.execute() if asked.reads else self._write(asked))
        if quiet and generation == traffic.generation(asked.identity):
            _remember(asked, arguments, result)
        return result

    async def _write(self, asked: _ReuseRequest) -> ToolResult:
        self._forget(asked.resource)
        try:
            with self._traffic.writing(asked.identity):
                return await asked.execute()
        finally:
            self._forget(asked.resource)

    def _forget(self, resource: Hashable | None) -> None:
        """Forgets in every scope, since what one caller writes, another may have read."""
        for deduplicator in self._known.values():
            deduplicator.forget(None, resource)


def _remember(asked: _ReuseRequest, arguments: dict[str, Any], result: ToolResult) -> None:
    if asked.deduplicator is None or result.is_error or result.still_running:
        return
    try:
        asked.deduplicator.remember(asked.scope, asked.name, arguments, asked.resource, result)
    except Exception:
        # The call has run: its answer stands, whether or not it can be kept.
        logger.exception("the result of %r could not be remembered", asked.name)


def _for_asker(result: ToolResult, call_id: str) -> ToolResult:
    return msgspec.structs.replace(
        result,
        tool_call_id=call_id,
        reused_from=result.reused_from or result.tool_call_id,
        duration_us=0,
    )
