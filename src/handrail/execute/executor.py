"""The executor: the only thing that runs a tool.

The runner, the MCP server, the bus worker, the HTTP server and the REPL all hold
it as an `Invoker`. The order of its steps is the product, so it is written out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Self

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import (
    Cancelled,
    Forbidden,
    JournalError,
    LimitReached,
    OutcomeUnrecorded,
    ToolError,
    UsageError,
)
from handrail.core.events import Emit, ignore_event
from handrail.core.exception_groups import unwrap_exception_group
from handrail.core.ids import NewId, nested_id, new_id
from handrail.core.ports import Approver, Authoriser, Clock, Embedder, Journal, Spill, SystemClock, Tracer
from handrail.core.usage_checks import check_journal
from handrail.execute.argument_locations import locate_arguments
from handrail.execute.arguments import check_secrets, read_arguments
from handrail.execute.attempt import CallAttempt, refusal_result
from handrail.execute.call_entries import call_amended_entry, call_asked_entry, call_settled_entry
from handrail.execute.confirm import CallConfirmer, DeferAll
from handrail.execute.dedupe.create import create_deduplicator
from handrail.execute.dedupe.deduplicator import Deduplicator
from handrail.execute.dedupe.reuse import CallReuse
from handrail.execute.isolation.isolation_check import check_isolation
from handrail.execute.performer import CallPerformer
from handrail.execute.policy import Policy
from handrail.execute.resumed_calls import check_same_call, honest_result, reconcile_call
from handrail.execute.run_records import RunRecords
from handrail.execute.run_to_completion import run_to_completion
from handrail.execute.scope_authoriser import ScopeAuthoriser
from handrail.execute.untrusted import is_untrusted_result, why_confirm_after_untrusted
from handrail.tools.registry import RegisteredTools, flattened_tools, registered
from handrail.tools.tool import Tool

_NEVER = "cancelled before it started; it did nothing"
_AGAIN = "cancelled after it had failed, before it was tried again"


class Executor(RunRecords):
    """Settles calls: each gets exactly one honest answer."""

    def __init__(
        self,
        tools: RegisteredTools | Iterable[Any],
        *,
        policy: Policy = Policy(),
        approver: Approver | None = None,
        authoriser: Authoriser | None = None,
        journal: Journal | None = None,
        spill: Spill | None = None,
        embedder: Embedder | None = None,
        tracer: Tracer | None = None,
        clock: Clock | None = None,
        new_id: NewId = new_id,
    ) -> None:
        check_journal(journal)
        super().__init__(
            tools if isinstance(tools, RegisteredTools) else registered(*flattened_tools(tools)),
            journal,
            clock or SystemClock(),
            new_id,
        )
        self.policy = policy
        self.tracer = tracer
        self._authoriser = authoriser or ScopeAuthoriser()
        self._confirmer = CallConfirmer(approver or DeferAll())
        self._reuse = CallReuse()
        self._embedder = embedder
        self._deduplicators: dict[Tool, Deduplicator | None] = {}
        self._performer = CallPerformer(policy, spill, self._clock, self._nested, self._amend)
        self._take_in(self.tools)

    def include(self, tool: Tool) -> None:
        """Let one more tool be called, one that the runtime itself brings. Do it before the first call of a run.

        Raises:
            UsageError: Another tool has its name.
        """
        if tool.name in self.tools:
            raise UsageError(
                f"a tool of yours is called {tool.name!r}, the name of one that is needed beside so many others;"
                f" rename it, or let every turn offer all tools: Offering(most={len(self.tools)})"
            )
        before, self.tools = self.tools, RegisteredTools((*self.tools, tool))
        for ledger in self._runs:
            if ledger.tools is before:
                ledger.tools = self.tools
        self._take_in((tool,))

    def renew(self, tools: RegisteredTools) -> None:
        """Give the runs that begin from now on these tools; those under way keep theirs, memory included."""
        self._take_in(tools)
        self.tools = tools
        kept = {tool for used in self.tools_in_use for tool in used}
        self._deduplicators = {tool: memory for tool, memory in self._deduplicators.items() if tool in kept}

    def _take_in(self, tools: Iterable[Tool]) -> None:
        for tool in tools:
            check_isolation(tool)
            if tool not in self._deduplicators:
                kind = tool.deduplicator or self.policy.deduplicator
                self._deduplicators[tool] = create_deduplicator(kind, embedder=self._embedder, clock=self._clock)

    async def invoke(self, call: ToolCall, context: Context = Context(), emit: Emit = ignore_event) -> ToolResult:
        """Settle one call. What the model or the tool does wrong is in the result.

        Raises:
            JournalError: The record cannot be kept, so nothing more may run; this call did not.
            OutcomeUnrecorded: It ran, or may have run before, and how it ended could not be written.
            LeaseHeld: Another process works on this run.
        """
        if not call.id:
            call = msgspec.structs.replace(call, id=self._new_id("call"))
        ledger = await self._open(context.run or self.run, context)
        attempt = CallAttempt(call, context, self._recorder(ledger, emit))
        try:
            if (begun := ledger.before.get(call.id)) is not None:
                check_same_call(call, begun, ledger, ledger.tools)
            settle = self._settle if self.tracer is None else self._traced
            return await ledger.once(call, lambda: settle(attempt))
        except ToolError as error:
            return refusal_result(call, error)
        except JournalError as error:
            if call.id not in ledger.unknown or isinstance(error, OutcomeUnrecorded):
                raise
            known = ledger.unwritten.get(call.id)
            raise OutcomeUnrecorded(call.name, known and known[0].outcome, str(error)) from error

    async def invoke_all(
        self, calls: Iterable[ToolCall], context: Context = Context(), emit: Emit = ignore_event
    ) -> list[ToolResult]:
        """Settle several calls at once, as many as the policy allows; the results are in the order of the calls."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.invoke(call, context, emit)) for call in calls]
        except BaseExceptionGroup as failed:
            raise unwrap_exception_group(failed, JournalError) from None
        return [task.result() for task in tasks]

    async def _traced(self, attempt: CallAttempt) -> ToolResult:
        assert self.tracer is not None
        with self.tracer.call(_discreet(attempt.call, attempt.recorder.ledger.tools), attempt.context) as span:
            attempt.context = msgspec.structs.replace(attempt.context, trace=span.parent)
            result = await self._settle(attempt)
            span.settled(result, attempt.name)
            return result

    async def _settle(self, attempt: CallAttempt) -> ToolResult:
        """Whatever happens to the call, it ends in one result and one entry."""
        if (known := attempt.recorder.ledger.unwritten.get(attempt.call.id)) is not None:
            result, write = known
            await write()  # there may be room for it now; it is the answer, and nothing runs again
            return result
        started = self._clock.monotonic()
        try:
            result = await self._answer(attempt)
        except ToolError as error:
            result = attempt.refused(error)
        except asyncio.CancelledError:
            if attempt.tool is not None and attempt.tool.replays and not attempt.ran:
                raise  # whoever takes the run up makes it then
            attempt.cancelled = True
            result = attempt.result or attempt.refused(Cancelled(_AGAIN if attempt.ran else _NEVER))
        result = msgspec.structs.replace(
            honest_result(attempt, result),
            duration_us=int((self._clock.monotonic() - started - attempt.waited) * 1e6),
            untrusted=is_untrusted_result(attempt.tool, result),
        )
        if attempt.late:
            result = msgspec.structs.replace(result, warnings=(*result.warnings, attempt.late))
        if attempt.recorder.instant:
            attempt.recorder.ledger.settle(result)
        elif result.outcome != "needs_confirmation":
            if attempt.ran and attempt.tool is not None and not attempt.tool.reads:
                attempt.recorder.ledger.unknown.add(attempt.call.id)  # until its end is on record
            await self._write_down(attempt, result)
        if attempt.cancelled:
            raise asyncio.CancelledError
        return result

    async def _answer(self, attempt: CallAttempt) -> ToolResult:
        call, context = attempt.call, attempt.context
        tool = attempt.tool = self._resolve(call, context, attempt.recorder.ledger.tools)
        arguments, warnings = read_arguments(call, tool, lenient=tool.repair or self.policy.repair)
        attempt.take(arguments)
        await self._authoriser.authorise(context, tool.names)
        known = await reconcile_call(attempt, self.policy)
        if known is not None:
            return await self._performer.result(attempt, tool, known)
        check_secrets(arguments, tool)
        if not tool.reads:
            self._performer.check_repeated(attempt, tool)
            why = why_confirm_after_untrusted(tool, attempt.recorder.ledger, self.policy.after_untrusted)
            if attempt.grant is None and (why or self.policy.confirm_side_effects):
                warnings += await self._confirm(attempt, tool, why)
        result, _ = await self._reuse.run(
            call_id=call.id,
            deduplicator=self._deduplicators[tool],
            scope=attempt.scope,
            name=tool.scoped_name,
            arguments=attempt.arguments,
            resource=attempt.resource,
            reads=tool.reads,
            may_reuse=tool.repeatable,
            share=tool.share,
            execute=lambda: self._performer.perform(attempt),
        )
        return msgspec.structs.replace(result, warnings=warnings + result.warnings) if warnings else result

    async def _confirm(self, attempt: CallAttempt, tool: Tool, why: str) -> tuple[str, ...]:
        """What the tool takes is told without the time in which a person thought about it."""
        asked = self._clock.monotonic()
        try:
            found = await locate_arguments(tool, attempt.arguments)
            granted = await self._confirmer.confirm(tool, attempt.call, attempt.arguments, attempt.recorder, why, found)
        finally:
            attempt.waited = self._clock.monotonic() - asked
        attempt.grant = granted.request
        attempt.locations = found if granted.arguments == attempt.arguments else {}
        attempt.take(granted.arguments)
        return granted.warnings

    def _resolve(self, call: ToolCall, context: Context, tools: RegisteredTools) -> Tool:
        tool = tools.find(call.name)
        if context.depth > self.policy.max_depth:
            raise LimitReached(f"tools call tools {context.depth} deep; the limit is {self.policy.max_depth}")
        models = tool.definition.models
        if models is not None and context.model is not None and context.model not in models:
            raise Forbidden(f"{tool.name!r} is not offered to the model {context.model!r}")
        return tool

    async def _write_down(self, attempt: CallAttempt, result: ToolResult) -> None:
        ledger = attempt.recorder.ledger
        ledger.is_writing(result)
        try:
            await run_to_completion(self._record(attempt, result))
        except JournalError:
            ledger.is_lost(result, lambda: self._write_down(attempt, result))
            raise
        ledger.unwritten.pop(attempt.call.id, None)

    async def _record(self, attempt: CallAttempt, result: ToolResult) -> None:
        tool = attempt.tool
        if not attempt.ran and attempt.call.id not in attempt.recorder.ledger.before:
            await attempt.recorder.record(call_asked_entry(attempt))
        effect = attempt.ran and tool is not None and not tool.reads
        await attempt.recorder.record(call_settled_entry(attempt, result), durable=effect)

    async def _nested(
        self, attempt: CallAttempt, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None, key: str
    ) -> ToolResult:
        """A call made by a running tool: the same caller, the same run, no more rights."""
        call = ToolCall(nested_id(attempt.call.id, key) if key else self._new_id("call"), name, arguments)
        context = attempt.context.nested(scopes, attempt.tool, attempt.resource, attempt.entry)
        refusal = _unrepeatable(attempt.tool, name, attempt.recorder.ledger.tools, key)
        if refusal is not None:
            return await self.refuse(call, refusal, context, attempt.recorder.emit)
        return await self.invoke(call, context, attempt.recorder.emit)

    async def refuse(
        self, call: ToolCall, error: ToolError, context: Context = Context(), emit: Emit = ignore_event
    ) -> ToolResult:
        """Settle a call without running it, for a reason that its caller has."""
        ledger = await self._open(context.run or self.run, context)
        attempt = CallAttempt(call, context, self._recorder(ledger, emit))

        async def settle() -> ToolResult:
            result = honest_result(attempt, attempt.refused(error))
            await self._write_down(attempt, result)
            return result

        try:
            return await ledger.once(call, settle)
        except ToolError as duplicate:
            return refusal_result(call, duplicate)

    async def answered(self, call: ToolCall, context: Context = Context()) -> ToolResult:
        """The answer to a call whose caller is gone: what it was settled with, or that it never began."""
        return await self.refuse(call, Cancelled(_NEVER), context)

    def is_left(self, call: ToolCall, context: Context = Context()) -> bool:
        """Whether a call whose caller is gone has no end, and is made again when its run is taken up."""
        ledger = self._runs.get(context.run or self.run)
        if ledger is None or call.name not in ledger.tools or ledger.has_end(call.id):
            return False
        return ledger.tools.find(call.name).replays

    async def _amend(self, attempt: CallAttempt, result: ToolResult) -> None:
        """Work that outlived its answer has ended: note how."""
        result = msgspec.structs.replace(result, untrusted=is_untrusted_result(attempt.tool, result))
        self._reuse.wrote(attempt.resource)
        await attempt.recorder.record(call_amended_entry(attempt.recorder, attempt.name, result, "late"))

    async def aclose(self) -> None:
        """End what still runs where that is possible, and let go of every run. The journal is its owner's to close."""
        try:
            await self._performer.aclose()
            await self.finish()
        finally:
            self._runs.let_go_all()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def _discreet(call: ToolCall, tools: RegisteredTools) -> ToolCall:
    """The call as it may be told: without secrets."""
    if call.name not in tools:
        return call
    return msgspec.structs.replace(call, arguments=tools.find(call.name).masked(call.arguments))


def _unrepeatable(caller: Tool | None, name: str, tools: RegisteredTools, key: str) -> Forbidden | None:
    """Why a tool that may run again, or be answered from memory, must not make a call that may not."""
    if caller is None or not caller.reusable or name not in tools or tools.find(name).reusable:
        return None
    if caller.replays and key:
        return None
    what = "declared without side effects" if caller.reads else "declared idempotent"
    return Forbidden(
        f"{caller.name!r} is {what} and may run again, so it cannot call {name!r}, which must not; "
        "declare it with side_effects=True"
    )
