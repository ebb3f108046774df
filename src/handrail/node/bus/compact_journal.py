"""A journal that keeps what was done, and of very large bodies only what they were.

A document or a picture that goes over the bus is data of its service, which keeps it. The record
has its size and its hash, so that it can still be shown which one it was.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from handrail.core.calls import ToolResult
from handrail.core.events import CallAmended, CallAsked, CallIntended, CallSettled, ConfirmationAnswered, Recorded
from handrail.core.first_answer import append_answer, find_answer, wait_in_journal
from handrail.core.ports import Journal, Lease, appending_at_once

LARGE = 256 * 1024
"""Bytes of arguments, or of a result, as JSON."""
OMITTED = "omitted"


class CompactJournal:
    """Passes everything on, with large bodies replaced by `{"omitted": {"bytes": …, "sha256": …}}`."""

    def __init__(self, journal: Journal, large: int = LARGE) -> None:
        self._journal = journal
        self._quick = appending_at_once(journal)
        self._large = large

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        await self._journal.append(self._thin(event), durable=durable)

    def append_at_once(self, event: Recorded, *, durable: bool = False) -> bool:
        return self._quick is not None and self._quick.append_at_once(self._thin(event), durable=durable)

    def append_soon(self, event: Recorded) -> bool:
        return self._quick is not None and self._quick.append_soon(self._thin(event))

    async def answer(self, event: ConfirmationAnswered, *, durable: bool = False) -> ConfirmationAnswered:
        return await append_answer(self._journal, event, durable=durable)

    async def find_answer(self, run: str, request: str) -> ConfirmationAnswered | None:
        return await find_answer(self._journal, run, request)

    async def wait_for_answer(self, run: str, request: str) -> ConfirmationAnswered:
        return await wait_in_journal(self._journal, run, request)

    async def history(self, run: str) -> list[Recorded]:
        return await self._journal.history(run)

    async def lease(self, run: str) -> Lease:
        return await self._journal.lease(run)

    async def aclose(self) -> None:
        await self._journal.aclose()

    def _thin(self, event: Recorded) -> Recorded:
        match event:
            case CallIntended() | CallAsked():
                thin = self._value(event.arguments)
                return event if thin is event.arguments else msgspec.structs.replace(event, arguments=thin)
            case CallSettled(result=ToolResult() as result) | CallAmended(result=ToolResult() as result):
                thin = self._value(result.content)
                if thin is result.content:
                    return event
                return msgspec.structs.replace(event, result=msgspec.structs.replace(result, content=thin))
        return event

    def _value(self, value: Any) -> Any:
        if not _may_be_large(value, self._large):
            return value
        encoded = msgspec.json.encode(value)
        if len(encoded) <= self._large:
            return value
        return {OMITTED: {"bytes": len(encoded), "sha256": hashlib.sha256(encoded).hexdigest()}}


def is_omitted(value: Any) -> bool:
    """Whether this stands in the record for something that was too large for it."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get(OMITTED), dict)


def _may_be_large(value: Any, large: int) -> bool:
    """Whether a body may be large, found without writing it out: almost all are small, and every call asks this."""
    left, stack = large // 8, [value]
    while stack:
        match stack.pop():
            case str() as text:
                left -= len(text)
            case dict() as inner:
                left -= 8 * len(inner)
                stack.extend(inner.values())
            case list() | tuple() as inner:
                left -= 8 * len(inner)
                stack.extend(inner)
        if left < 0:
            return True
    return False
