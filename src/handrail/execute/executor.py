"""The executor: the only thing that runs a tool.

The runner, the MCP server, the bus worker, the HTTP server and the REPL all hold
it as an `Invoker`. The order of its steps is the product, so it is written out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Literal, Self

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import Cancelled, Forbidden, JournalError, LimitReached, ToolError, UsageError
from handrail.core.events import (
    CallAmended,
    CallAsked,
    CallSettled,
    Emit,
    Recorded,
    ToolsOffered,
    ignore,
)
from handrail.core.ids import NewId, nested_id, new_id
from handrail.core.ports import Approver, Authoriser, Clock, Embedder, Journal, Spill, SystemClock, Tracer
from handrail.execute.arguments import check_secrets, read_arguments
from handrail.execute.attempt import Attempt, refused
from handrail.execute.authorise import ScopeAuthoriser
from handrail.execute.confirm import Confirmer, DeferAll
from handrail.execute.dedupe.base import Deduplicator
from handrail.execute.dedupe.create import create
from handrail.execute.dedupe.memory import Reuse
from handrail.execute.doubt import check_same, honest, reconciled
from handrail.execute.isolation.check import check_place
from handrail.execute.ledger import Ledger
from handrail.execute.perform import Performer
from handrail.execute.policy import Policy
from handrail.execute.recorder import Recorder
from handrail.execute.runs import Runs
from handrail.execute.untrusted import from_outside, suspicion
from handrail.execute.whole import to_the_end
from handrail.tools.registry import RegisteredTools, registered
from handrail.tools.tool import Tool

_NEVER = "cancelled before it started; it did nothing"
_AGAIN = "cancelled after it had failed, before it was tried again"


class Executor:
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
        self.tools = tools if isinstance(tools, RegisteredTools) else registered(*tools)
        """What runs that begin now may call. A run keeps those that it began with."""
        self.policy = policy
        self.run = new_id("run")
        """The run of calls whose context names none."""
        self.tracer = tracer
        self._authoriser = authoriser or ScopeAuthoriser()
        self._confirmer = Confirmer(approver or DeferAll())
        self._journal = journal
        self._clock = clock or SystemClock()
        self._new_id = new_id
        self._reuse = Reuse()
        self._embedder = embedder
        self._deduplicators: dict[Tool, Deduplicator | None] = {}
        self._performer = Performer(policy, spill, self._clock, self._nested, self._amend)
        self._runs = Runs(journal, self._clock)
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

    @property
    def tools_in_use(self) -> tuple[RegisteredTools, ...]:
        """The set that runs get now, and those that runs under way have."""
        return (self.tools, *(ledger.tools for ledger in self._runs))

    def tools_of(self, run: str) -> RegisteredTools:
        """What the calls of a run may name: what it began with; of one that is not worked on, what it would get now."""
        ledger = self._runs.get(run or self.run)
        return self.tools if ledger is None else ledger.tools

    def _take_in(self, tools: Iterable[Tool]) -> None:
        for tool in tools:
            check_place(tool)
            if tool not in self._deduplicators:
                kind = tool.deduplicator or self.policy.deduplicator
                self._deduplicators[tool] = create(kind, embedder=self._embedder, clock=self._clock)

    async def invoke(self, call: ToolCall, context: Context = Context(), emit: Emit = ignore) -> ToolResult:
        """Settle one call. What the model or the tool does wrong is in the result.

        Raises:
            JournalError: The record cannot be kept, so nothing more may run.
            LeaseHeld: Another process works on this run.
        """
        if not call.id:
            call = msgspec.structs.replace(call, id=self._new_id("call"))
        ledger = await self._open(context.run or self.run, context)
        attempt = Attempt(call, context, self._recorder(ledger, emit))
        try:
            if (begun := ledger.before.get(call.id)) is not None:
                check_same(call, begun, ledger, ledger.tools)
            return await ledger.once(call, lambda: self._traced(attempt))
        except ToolError as error:
            return refused(call, error)

    async def invoke_all(
        self, calls: Iterable[ToolCall], context: Context = Context(), emit: Emit = ignore
    ) -> list[ToolResult]:
        """Settle several calls at once, as many as the policy allows; the results are in the order of the calls."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.invoke(call, context, emit)) for call in calls]
        except* JournalError as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _traced(self, attempt: Attempt) -> ToolResult:
        if self.tracer is None:
            return await self._settle(attempt)
        with self.tracer.call(_discreet(attempt.call, attempt.recorder.ledger.tools), attempt.context) as span:
            attempt.context = msgspec.structs.replace(attempt.context, trace=span.parent)
            result = await self._settle(attempt)
            span.settled(result, attempt.call.name if attempt.tool is None else attempt.tool.scoped_name)
            return result

    async def _settle(self, attempt: Attempt) -> ToolResult:
        """Whatever happens to the call, it ends in one result and one entry."""
        started = self._clock.monotonic()
        try:
            result = await self._answer(attempt)
        except ToolError as error:
            result = attempt.refused(error)
        except asyncio.CancelledError:
            attempt.cancelled = True
            result = attempt.result or attempt.refused(Cancelled(_AGAIN if attempt.ran else _NEVER))
        result = msgspec.structs.replace(
            honest(attempt, result),
            duration_us=int((self._clock.monotonic() - started - attempt.waited) * 1e6),
            untrusted=from_outside(attempt.tool, result),
        )
        if attempt.recorder.instant:
            attempt.recorder.ledger.settle(result)
        elif result.outcome != "needs_confirmation":
            if attempt.ran and attempt.tool is not None and not attempt.tool.reads:
                attempt.recorder.ledger.unknown.add(attempt.call.id)  # until its end is on record
            await self._write_down(attempt, result)
        if attempt.cancelled:
            raise asyncio.CancelledError
        return result

    async def _answer(self, attempt: Attempt) -> ToolResult:
        call, context = attempt.call, attempt.context
        tool = attempt.tool = self._resolve(call, context, attempt.recorder.ledger.tools)
        arguments, warnings = read_arguments(call, tool, lenient=tool.repair or self.policy.repair)
        attempt.take(arguments)
        await self._authoriser.authorise(context, tool.names)
        known = await reconciled(attempt, self.policy)
        if known is not None:
            return await self._performer.result(attempt, tool, known)
        check_secrets(arguments, tool)
        if not tool.reads:
            why = suspicion(tool, attempt.recorder.ledger, self.policy.after_untrusted)
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
            may_reuse=tool.reusable and not tool.replays,
            share=tool.share,
            execute=lambda: self._performer.perform(attempt),
        )
        return msgspec.structs.replace(result, warnings=warnings + result.warnings) if warnings else result

    async def _confirm(self, attempt: Attempt, tool: Tool, why: str) -> tuple[str, ...]:
        """What the tool takes is told without the time in which a person thought about it."""
        asked = self._clock.monotonic()
        try:
            granted = await self._confirmer.confirm(tool, attempt.call, attempt.arguments, attempt.recorder, why)
        finally:
            attempt.waited = self._clock.monotonic() - asked
        attempt.grant = granted.request
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

    async def _write_down(self, attempt: Attempt, result: ToolResult) -> None:
        ledger = attempt.recorder.ledger
        ledger.is_writing(result)
        try:
            await to_the_end(self._record(attempt, result))
        except JournalError:
            ledger.is_lost(result)
            raise

    async def _record(self, attempt: Attempt, result: ToolResult) -> None:
        tool = attempt.tool
        if not attempt.ran and attempt.call.id not in attempt.recorder.ledger.before:
            await attempt.recorder.record(self._asked(attempt))
        await attempt.recorder.record(
            CallSettled(
                run=attempt.recorder.run,
                at=self._clock.now(),
                call_id=attempt.call.id,
                tool=attempt.call.name if tool is None else tool.scoped_name,
                outcome=result.outcome,
                duration_us=result.duration_us,
                ran=attempt.ran,
                result=result,
            ),
            durable=attempt.ran and tool is not None and not tool.reads,
        )

    def _asked(self, attempt: Attempt) -> CallAsked:
        call, tool = attempt.call, attempt.tool
        return CallAsked(
            run=attempt.recorder.run,
            at=self._clock.now(),
            call_id=call.id,
            tool=call.name if tool is None else tool.scoped_name,
            principal=attempt.context.principal.id,
            arguments=call.arguments if tool is None else tool.masked(call.arguments),
        )

    async def _nested(
        self, attempt: Attempt, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None, key: str
    ) -> ToolResult:
        """A call made by a running tool: the same caller, the same run, no more rights."""
        call = ToolCall(nested_id(attempt.call.id, key) if key else self._new_id("call"), name, arguments)
        context = attempt.context.nested(scopes, attempt.tool, attempt.resource)
        refusal = _unrepeatable(attempt.tool, name, attempt.recorder.ledger.tools, key)
        if refusal is not None:
            return await self.refuse(call, refusal, context, attempt.recorder.emit)
        return await self.invoke(call, context, attempt.recorder.emit)

    # ── runs ─────────────────────────────────────────────────────────────────────────

    async def _open(self, run: str, context: Context) -> Ledger:
        return await self._runs.open(run, tools=self.tools, principal=context.principal.id)

    async def calls(self, context: Context = Context()) -> set[str]:
        """The ids that calls of a run have had; to use one again is to ask for that call again."""
        return (await self._open(context.run or self.run, context)).calls

    def holds(self, run: str) -> bool:
        """Whether it works on this run now, so that nobody else does."""
        return run in self._runs

    def now(self) -> int:
        return self._clock.now()

    def is_silent(self, emit: Emit) -> bool:
        """Whether nothing is written down and nobody listens: then what would only be told need not be made."""
        return self._journal is None and emit is ignore

    async def record(self, event: Recorded, context: Context = Context(), emit: Emit = ignore) -> None:
        """Write down what happened around the calls of a run."""
        ledger = await self._open(context.run or self.run, context)
        await self._recorder(ledger, emit).record(event)

    async def history(self, run: str) -> list[Recorded]:
        """What the journal has of a run; nothing without a journal, or when the run has only just begun."""
        return await self._runs.history(run)

    async def offered(self, context: Context, tools: tuple[str, ...], emit: Emit = ignore) -> None:
        """Note which tools a model was shown in a turn."""
        if self.is_silent(emit):
            return
        there = self.tools_of(context.run)
        scoped = tuple(there.find(name).scoped_name if name in there else name for name in tools)
        await self.record(ToolsOffered(run=context.run or self.run, at=self.now(), tools=scoped), context, emit)

    async def refuse(
        self, call: ToolCall, error: ToolError, context: Context = Context(), emit: Emit = ignore
    ) -> ToolResult:
        """Settle a call without running it, for a reason that its caller has."""
        ledger = await self._open(context.run or self.run, context)
        attempt = Attempt(call, context, self._recorder(ledger, emit))

        async def settle() -> ToolResult:
            result = honest(attempt, attempt.refused(error))
            await self._write_down(attempt, result)
            return result

        try:
            return await ledger.once(call, settle)
        except ToolError as duplicate:
            return refused(call, duplicate)

    async def answered(self, call: ToolCall, context: Context = Context()) -> ToolResult:
        """The answer to a call whose caller is gone: what it was settled with, or that it never began."""
        return await self.refuse(call, Cancelled(_NEVER), context)

    async def answer(self, run: str, request: str, *, allow: bool, by: str, reason: str = "") -> None:
        """Give a person's word on a call that waits for it. Ask for the call again to have it run.

        Raises:
            UsageError: No such request waits in this run.
        """
        recorder = self._recorder(await self._open(run, Context(run=run)))
        await recorder.refresh()  # the first answer is the answer, also one from another process
        asked = recorder.ledger.requests.get(request)
        if asked is None or request in recorder.ledger.answers:
            raise UsageError(f"no request {request!r} waits for an answer in run {run!r}")
        decision: Literal["allow", "deny"] = "allow" if allow else "deny"
        await recorder.record(asked.answered(decision, at=self._clock.now(), by=by, reason=reason))

    async def amend(self, run: str, result: ToolResult) -> None:
        """Say what became of a call that was in doubt, on a person's word."""
        ledger = await self._open(run, Context(run=run))
        await self._recorder(ledger).record(self._amendment(run, result.name, result, "person"), durable=True)

    async def _amend(self, attempt: Attempt, result: ToolResult) -> None:
        """Work that outlived its answer has ended: note how."""
        tool = attempt.tool
        name = attempt.call.name if tool is None else tool.scoped_name
        result = msgspec.structs.replace(result, untrusted=from_outside(tool, result))
        self._reuse.wrote(attempt.resource)
        await attempt.recorder.record(self._amendment(attempt.recorder.run, name, result, "late"))

    def _amendment(self, run: str, tool: str, result: ToolResult, why: Literal["late", "person"]) -> CallAmended:
        return CallAmended(
            run=run,
            at=self._clock.now(),
            call_id=result.tool_call_id,
            tool=tool,
            outcome=result.outcome,
            why=why,
            result=result,
        )

    def _recorder(self, ledger: Ledger, emit: Emit = ignore) -> Recorder:
        return Recorder(ledger, self._journal, self._clock, self._new_id, emit)

    async def finish(self, run: str | None = None, reason: str = "done") -> None:
        """Close a run: its last entry is written and others may work on it."""
        await self._runs.finish(run or self.run, reason)

    def let_go(self, run: str) -> None:
        """Let others work on a run that is not over: one that waits for a person's word."""
        self._runs.let_go(run)

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
