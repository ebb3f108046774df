"""What is known of the calls of one run: settled, under way, left open by a dead process, confirmed.

It is the journal's memory while a run is worked on. Each call id is settled once;
asking again gives the same answer, whatever happened in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.confirmation import binding
from handrail.core.errors import ToolError
from handrail.core.events import (
    CallAmended,
    CallIntended,
    CallSettled,
    ConfirmationAnswered,
    ConfirmationRequested,
    Recorded,
)
from handrail.core.ports import Lease


class Ledger:
    """One run's calls, from its history and from now on."""

    def __init__(self, run: str, lease: Lease | None = None, history: Iterable[Recorded] = ()) -> None:
        self.run = run
        self._lease = lease
        self._settled: dict[str, ToolResult] = {}
        self._asked: dict[str, ToolCall] = {}
        self._under_way: dict[str, asyncio.Future[ToolResult]] = {}
        self.open: dict[str, CallIntended] = {}
        """Begun by a process that died before it could say how they ended."""
        self.requests: dict[str, ConfirmationRequested] = {}
        self._requests_of: dict[str, list[ConfirmationRequested]] = {}
        self.answers: dict[str, ConfirmationAnswered] = {}
        """By request. The first answer to a question is the answer."""
        self._used: set[str] = set()
        self.before: dict[str, CallIntended] = {}
        """What earlier processes intended, so that an id cannot come to mean another call."""
        for event in history:
            self.note(event)
            if isinstance(event, CallIntended):
                self.before[event.call_id] = event

    def note(self, event: Recorded) -> None:
        """Take an event into account, from the history or just recorded."""
        match event:
            case CallIntended():
                self.open[event.call_id] = event
                if event.grant is not None:
                    self._used.add(event.grant)
            case CallSettled():
                self.open.pop(event.call_id, None)
                self._settled[event.call_id] = event.result or _erased(event)
            case CallAmended(result=result) if result is not None:
                self._settled[event.call_id] = result
            case ConfirmationRequested():
                self.requests[event.request] = event
                self._requests_of.setdefault(event.call_id, []).append(event)
            case ConfirmationAnswered():
                self.answers.setdefault(event.request, event)

    def request_for(self, call_id: str, tool: str, arguments: dict[str, Any]) -> ConfirmationRequested | None:
        """The question that was asked about exactly this call."""
        for request in self._requests_of.get(call_id, ()):
            if request.asked is not None:
                binds = binding(request.asked.nonce, self.run, call_id, tool, arguments)
                if binds == request.binds:
                    return request
        return None

    def unused_answer(self, request: ConfirmationRequested) -> ConfirmationAnswered | None:
        """The person's word on it, if it was given and not yet used."""
        answer = self.answers.get(request.request)
        return None if answer is None or answer.request in self._used or answer.binds != request.binds else answer

    def was_edited(self, intent: CallIntended) -> bool:
        """Whether a person changed its arguments before it ran."""
        answer = self.answers.get(intent.grant or "")
        return answer is not None and answer.edited

    async def once(self, call: ToolCall, settle: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """Settle a call unless it is settled; two that ask at once share the answer.

        Raises:
            ToolError: The id already names another call.
        """
        known = self._asked.setdefault(call.id, call)
        if known is not call and (known.name, known.arguments) != (call.name, call.arguments):
            raise ToolError("duplicate_id", f"call id {call.id!r} already names another call; give each its own id")
        while (under_way := self._under_way.get(call.id)) is not None:
            await asyncio.wait({under_way})
            if not under_way.cancelled():
                return under_way.result()
        if (settled := self._settled.get(call.id)) is not None:
            return settled
        return await self._settle(call, settle)

    async def _settle(self, call: ToolCall, settle: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        future: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._under_way[call.id] = future
        try:
            result = await settle()
        except BaseException as error:
            self._under_way.pop(call.id)
            if isinstance(error, asyncio.CancelledError):
                future.cancel()
            else:
                future.set_exception(error)
                future.exception()  # if nobody else asked, it is not lost: it is raised here
            raise
        self._under_way.pop(call.id)
        self.settle(result)
        future.set_result(result)
        return result

    def settle(self, result: ToolResult) -> None:
        """Keep an answer as the answer. One that waits for a person's word is not yet one."""
        if result.outcome != "needs_confirmation":
            self._settled[result.tool_call_id] = result

    def release(self) -> None:
        """Let others work on the run."""
        if self._lease is not None:
            self._lease.release()


def _erased(event: CallSettled) -> ToolResult:
    return ToolResult(event.call_id, event.tool, "[this result was erased]", event.outcome)
