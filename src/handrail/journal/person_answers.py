"""A person's answer to a call that waits or is in doubt, given from any process that has the journal."""

from __future__ import annotations

from typing import Literal

from handrail.core.calls import ToolResult
from handrail.core.errors import LeaseHeld, UsageError
from handrail.core.events import CallAmended, ConfirmationAnswered, ConfirmationRequested
from handrail.core.ports import Clock, SystemClock
from handrail.journal.places import JournalPlace, open_journal
from handrail.journal.reader import JournalReader


async def answer(
    path: JournalPlace,
    question: ConfirmationRequested,
    decision: Literal["allow", "deny"],
    *,
    by: str,
    reason: str = "",
    clock: Clock = SystemClock(),
) -> ConfirmationAnswered:
    """Record a decision; it is on disk when this returns. A program that waits for it continues.

    Raises:
        UsageError: Somebody has answered meanwhile.
        JournalError: It could not be written.
    """
    said = question.answered(decision, at=clock.now(), by=by, reason=reason)
    async with await open_journal(path) as journal:
        first = await journal.answer(said, durable=True)
    if first != said:
        word = "allowed" if first.decision == "allow" else "denied"
        raise UsageError(
            f"somebody else has answered {question.request!r} first, and that answer counts: {first.by!r} {word} it"
        )
    return said


async def settle(
    path: JournalPlace, run: str, tool: str, result: ToolResult, *, clock: Clock = SystemClock()
) -> CallAmended:
    """Record what a person found out about a call in doubt. It is the call's result from then on.

    Raises:
        UsageError: The call is not in doubt, or not any more.
        LeaseHeld: A program works on the run and has not answered the call, so it may yet end by itself.
        JournalError: It could not be written.
    """
    said = CallAmended(
        run=run,
        at=clock.now(),
        call_id=result.tool_call_id,
        tool=tool,
        outcome=result.outcome,
        why="person",
        result=result,
    )
    async with await open_journal(path) as journal:
        lease = held = None
        try:
            lease = await journal.lease(run)
        except LeaseHeld as error:
            held = error
        try:
            with JournalReader(path) as reader:
                found = reader.find_call(result.tool_call_id, run)
            if found is None or not found.in_doubt:
                raise UsageError(f"call {result.tool_call_id!r} is not in doubt; see: handrail proof show {run}")
            if held is not None and found.answer is None:
                raise held
            await journal.append(said, durable=True)
        finally:
            if lease is not None:
                lease.release()
    return said
