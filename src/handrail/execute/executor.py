"""The executor: the only thing that runs a tool.

The runner, the MCP server, the bus worker, the HTTP server and the REPL all hold
it as an `Invoker`. The order of its steps is the product, so it is written out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from copy import copy
from functools import partial
from typing import Any

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.closing import ClosedOnExit
from handrail.core.confirmation import Allow, Decision
from handrail.core.context import Context
from handrail.core.errors import (
    Cancelled,
    Denied,
    Forbidden,
    JournalError,
    LimitReached,
    OutcomeUnrecorded,
    ToolError,
    UsageError,
)
from handrail.core.events import CallAsked, CallSettled, Emit, Recorded, ignore_event
from handrail.core.ids import NewId, nested_id, new_id
from handrail.core.ports import Authoriser, Clock, Embedder, Journal, Spill, SystemClock, Tracer
from handrail.core.tasks import run_to_completion, unwrap_exception_group
from handrail.core.usage_checks import check_journal
from handrail.execute.approvers import AnyApprover, as_approver
from handrail.execute.arguments import check_secrets, locate_arguments, read_arguments
from handrail.execute.attempt import CallAttempt, refusal_result
from handrail.execute.confirm import CallConfirmer, DeferAll
from handrail.execute.dedupe.create import create_deduplicator
from handrail.execute.dedupe.matching import Deduplicator
from handrail.execute.dedupe.reuse import CallReuse
from handrail.execute.effects import EarlierEffects, EffectOverlap, question_identity
from handrail.execute.handles.quoted_words import put_in_words
from handrail.execute.handles.result_words import is_withheld, labels_of, told_failure
from handrail.execute.isolation.handler_target import check_isolation
from handrail.execute.origins.flow_check import FlowFinding, RunSoFar, check_flows
from handrail.execute.origins.plan_check import fit_plan, why_by_plan
from handrail.execute.origins.plan_question import PLAN_QUESTION
from handrail.execute.origins.plans import RunPlan
from handrail.execute.performer import CallPerformer
from handrail.execute.policy import Policy, ScopeAuthoriser, is_untrusted_result, why_confirm_after_untrusted
from handrail.execute.recorder import RunRecorder
from handrail.execute.resumed_calls import check_same_call, honest_result, reconcile_call
from handrail.execute.run_records import RunRecords
from handrail.tools.registry import RegisteredTools, flattened_tools, registered
from handrail.tools.tool import Tool

_NEVER = "cancelled before it started; it did nothing"
_AGAIN = "cancelled after it had failed, before it was tried again"


class Executor(ClosedOnExit):
    """Settles calls: each gets exactly one honest answer."""

    def __init__(
        self,
        tools: RegisteredTools | Iterable[Any],
        *,
        policy: Policy = Policy(),
        approver: AnyApprover | None = None,
        authoriser: Authoriser | None = None,
        journal: Journal | None = None,
        deps: Any = None,
        deps_type: Any = None,
        spill: Spill | None = None,
        embedder: Embedder | None = None,
        tracer: Tracer | None = None,
        clock: Clock | None = None,
        new_id: NewId = new_id,
    ) -> None:
        """
        Args:
            deps: What the tools get as `Invocation.deps`, unless the context of a call has others.
            deps_type: The type of what the context of each call has, where there are no `deps`.

        Raises:
            UsageError: A tool cannot work as it is, or needs other dependencies.
        """
        check_journal(journal)
        self._clock = clock or SystemClock()
        self.new_id = new_id
        tools = tools if isinstance(tools, RegisteredTools) else registered(*flattened_tools(tools))
        tools.check_deps(deps, deps_type)
        self.deps = deps
        self.deps_type = deps_type
        self.runs: RunRecords = RunRecords(
            tools, journal, self._clock, new_id, follows_origins=policy.after_untrusted == "origins"
        )
        self.policy = policy
        self.tracer = tracer
        self._authoriser = authoriser or ScopeAuthoriser()
        self._confirmer = CallConfirmer(as_approver(approver, tools) or DeferAll())
        self._reuse = CallReuse()
        self._embedder = embedder
        self._deduplicators: dict[Tool, Deduplicator | None] = {}
        self._performer = CallPerformer(policy, spill, self._clock)
        self._take_in(tools)

    @property
    def tools(self) -> RegisteredTools:
        """What runs that begin now may call. A run keeps those that it began with."""
        return self.runs.tools

    @property
    def run(self) -> str:
        """The run of calls whose context names none."""
        return self.runs.default_run

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
        self.runs.include(self.tools.with_tool(tool))
        self._take_in((tool,))

    def replace(self, tool: Tool) -> None:
        """Let a tool be called in place of the one that has its name, also in runs under way."""
        self.runs.include(RegisteredTools((*(each for each in self.tools if each.name != tool.name), tool)))
        self._take_in((tool,))

    def renew(self, tools: RegisteredTools) -> None:
        """Give the runs that begin from now on these tools; those under way keep theirs, memory included."""
        tools.check_deps(self.deps, self.deps_type)
        self._take_in(tools)
        self.runs.tools = tools
        kept = {tool for used in self.runs.tools_in_use for tool in used}
        self._deduplicators = {tool: memory for tool, memory in self._deduplicators.items() if tool in kept}

    def _take_in(self, tools: Iterable[Tool]) -> None:
        for tool in tools:
            check_isolation(tool)
            kind = tool.deduplicator or self.policy.deduplicator
            if kind is not None and tool not in self._deduplicators:
                self._deduplicators[tool] = create_deduplicator(kind, embedder=self._embedder, clock=self._clock)

    async def invoke(
        self,
        call: ToolCall,
        context: Context = Context(),
        emit: Emit = ignore_event,
        *,
        alone: bool = False,
        only_find_out: bool = False,
    ) -> ToolResult:
        """Settle one call. What the model or the tool does wrong is in the result.

        `alone` is for a caller who makes no other call of the run at the same moment: nothing waits for an equal one.
        With `only_find_out`, a call that was begun before and did not take effect is not run again: it has failed.

        Raises:
            UsageError: The dependencies in the context are not what the tool needs.
            JournalError: The record cannot be kept, so nothing more may run; this call did not.
            OutcomeUnrecorded: It ran, or may have run before, and how it ended could not be written.
            LeaseHeld: Another process works on this run.
        """
        if not call.id:
            call = msgspec.structs.replace(call, id=self.new_id("call"))
        if context.deps is None and self.deps is not None:
            context = msgspec.structs.replace(context, deps=self.deps)
        recorder = await self.runs.recorder(context, emit)
        attempt = CallAttempt(call, context, recorder, self, alone=alone, only_find_out=only_find_out)
        ledger = attempt.recorder.ledger
        if (context.deps is not self.deps or self.deps_type is not None) and call.name in ledger.tools:
            ledger.tools.find(call.name).check_deps(context.deps)
        try:
            if (begun := ledger.before.get(call.id)) is not None:
                check_same_call(call, begun, ledger, ledger.tools)
            settle = self._settle_and_record if self.tracer is None else self._settle_traced
            return await ledger.settle_once(call, lambda: settle(attempt))
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

    async def _settle_traced(self, attempt: CallAttempt) -> ToolResult:
        assert self.tracer is not None
        with self.tracer.call(_discreet(attempt.call, attempt.recorder.ledger.tools), attempt.context) as span:
            attempt.context = msgspec.structs.replace(attempt.context, trace=span.parent)
            result = await self._settle_and_record(attempt)
            span.settled(result, attempt.name)
            return result

    async def _settle_and_record(self, attempt: CallAttempt) -> ToolResult:
        """Whatever happens to the call, it ends in one result and one entry."""
        if (known := attempt.recorder.ledger.unwritten.get(attempt.call.id)) is not None:
            result, write = known
            await write()  # there may be room for it now; it is the answer, and nothing runs again
            return result
        started = self._clock.monotonic()
        try:
            result = await self._check_and_run(attempt)
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
            untrusted=is_untrusted_result(attempt.tool, result)
            or attempt.is_outside
            or ((attempt.has_read_outside or attempt.quotes) and result.outcome in ("ok", "failed")),
            labels=labels_of(attempt, result),
        )
        if is_withheld(attempt, self.policy):
            result = told_failure(attempt, result)
        if attempt.planned is not None:
            attempt.end_step(result)
        if attempt.late:
            result = msgspec.structs.replace(result, warnings=(*result.warnings, attempt.late))
        if attempt.recorder.instant:
            attempt.recorder.ledger.keep_result(result)
        elif result.outcome != "needs_confirmation":
            if attempt.ran and attempt.tool is not None and not attempt.tool.reads:
                attempt.recorder.ledger.unknown.add(attempt.call.id)  # until its end is on record
            await self._write_down(attempt, result)
        if attempt.cancelled:
            raise asyncio.CancelledError
        return result

    async def _check_and_run(self, attempt: CallAttempt) -> ToolResult:
        """The steps of a call in their order: resolve, parse, authorise, reconcile, confirm, reuse or perform."""
        call, context = attempt.call, attempt.context
        tool = attempt.tool = self._resolve(call, context, attempt.recorder.ledger.tools)
        arguments, warnings = read_arguments(call, tool, lenient=tool.repair or self.policy.repair)
        ledger = attempt.recorder.ledger
        if ledger.withheld or self.policy.flows.untrusted_results == "handles":
            quoted = put_in_words(arguments, tool, ledger.withheld)
            attempt.quotes = quoted is not arguments
            arguments = quoted
        attempt.take(arguments)
        if attempt.quotes:
            ledger.complete_arguments(call.id, arguments)
        await self._authoriser.authorise(context, tool.names)
        known = await reconcile_call(attempt, self.policy)
        if known is not None:
            return await self._performer.result(attempt, tool, known)
        if attempt.only_find_out:
            raise ToolError("failed", "it did not take effect, and is not run again: another call has its effect key")
        check_secrets(arguments, tool)
        word = await self._follow_plan(attempt, tool)
        if not tool.reads or tool.sends_out:
            if not tool.reads:
                self._performer.check_repeated(attempt, tool)
                if (earlier := await self._effects.answer(attempt, tool)) is not None:
                    return earlier
            flows = self._why_confirm_flows(attempt, tool)
            why = "; ".join(filter(None, (attempt.why_again, flows)))
            if attempt.grant is None and (why or (self.policy.confirm_side_effects and not tool.reads)):
                warnings += await self._confirm(attempt, tool, why, None if why else word)
                if attempt.arguments != arguments and (earlier := await self._effects.answer(attempt, tool)):
                    return earlier  # a person changed it into another effect
        while True:
            try:
                result = await self._perform(attempt, tool)
                break
            except EffectOverlap:
                if (earlier := await self._effects.answer(attempt, tool)) is not None:
                    return earlier
        return msgspec.structs.replace(result, warnings=warnings + result.warnings) if warnings else result

    def _why_confirm_flows(self, attempt: CallAttempt, tool: Tool) -> str:
        """Why a person must decide now, for what was read from outside or is private; nothing if no policy
        asks for it.

        Raises:
            Denied: The policy refuses it.
        """
        ledger, policy, plan = attempt.recorder.ledger, self.policy, attempt.recorder.ledger.plan
        if policy.after_untrusted != "origins":
            return "" if tool.reads else why_confirm_after_untrusted(tool, ledger, policy.after_untrusted)
        found = FlowFinding()
        if ledger.origins.outside or ledger.origins.has_private:
            found = self._check_flows(attempt, tool)
            attempt.origins = found.origins
        if attempt.planned is not None:
            attempt.origins = attempt.planned.told(found.origins)
        return found.why if plan is None else why_by_plan(plan, attempt.planned, tool, found.why)

    def _check_flows(self, attempt: CallAttempt, tool: Tool) -> FlowFinding:
        ledger = attempt.recorder.ledger
        run = RunSoFar(
            ledger.origins,
            ledger.tools,
            partial(ledger.was_done, tool, attempt.arguments),
            partial(ledger.has_other_effect, tool),
            attempt.planned,
        )
        try:
            return check_flows(tool, attempt.arguments, run, self.policy.flows)
        except Denied:
            if not attempt.quotes:
                raise
            raise Denied(f"{tool.name!r} is not run: words that you were not shown must not go there") from None

    async def _follow_plan(self, attempt: CallAttempt, tool: Tool) -> Decision | None:
        """Use up the step of the run's plan that the call is, if it is one. Returns the decision on the plan."""
        recorder, plan = attempt.recorder, attempt.recorder.ledger.plan
        if plan is None or not plan.steps_left or (attempt.context.depth and not attempt.is_for_code):
            return None  # a call that a tool of the application makes is not the model's
        word = None
        if plan.asks and (word := await self._word_on_plan(recorder, plan)) is None:
            return None
        attempt.planned = fit_plan(plan, attempt.call.id, tool, attempt.arguments, recorder.ledger.origins)
        if attempt.planned is None:
            return None
        attempt.origins = attempt.planned.told(())
        return word

    async def _word_on_plan(self, recorder: RunRecorder, plan: RunPlan) -> Decision | None:
        asked = plan.id, PLAN_QUESTION.scoped_name, plan.shown, PLAN_QUESTION.digest
        request = recorder.ledger.request_for(*asked)
        if request is None:
            return None
        await recorder.refresh(request.request)
        answer = recorder.ledger.answers.get(request.request)
        if answer is None or answer.decision != "allow" or answer.edited or answer.binds != request.binds:
            return None
        return Allow(f"{answer.by}, with the plan")

    async def confirm_plan(self, plan: RunPlan, why: str, context: Context, emit: Emit = ignore_event) -> None:
        """Have a person decide about a whole plan at once.

        Raises:
            Denied: Somebody said no.
            NeedsConfirmation: Nobody has said anything yet.
        """
        recorder = await self.runs.recorder(context, emit)
        call = ToolCall(plan.id, PLAN_QUESTION.name, plan.shown)
        granted = await self._confirmer.confirm(PLAN_QUESTION, call, plan.shown, recorder, why, agents=context.agents)
        if granted.arguments != plan.shown:
            raise Denied(
                "the plan was changed by whoever was asked, and it is allowed or denied as it is; state another"
            )

    @property
    def _effects(self) -> EarlierEffects:
        """Made when it is needed: kept, it would be a circle that waits for the garbage collector."""
        return EarlierEffects(self.runs, self.policy, self.invoke)

    async def _perform(self, attempt: CallAttempt, tool: Tool) -> ToolResult:
        deps = attempt.context.deps
        given = deps is not self.deps  # for this call: what was answered with other dependencies is no answer
        result, _ = await self._reuse.run(
            call_id=attempt.call.id,
            deduplicator=None if given else self._deduplicators.get(tool),
            scope=f"{attempt.scope}\n{id(deps)}" if given else attempt.scope,
            name=tool.scoped_name,
            arguments=attempt.arguments,
            resource=attempt.resource,
            reads=tool.reads,
            may_reuse=tool.repeatable,
            share=tool.share,
            execute=lambda: self._performer.perform(attempt),
            alone=attempt.alone,
        )
        return result

    async def _confirm(self, attempt: CallAttempt, tool: Tool, why: str, word: Decision | None) -> tuple[str, ...]:
        """What the tool takes is told without the time in which a person thought about it."""
        asked = self._clock.monotonic()
        try:
            found = await locate_arguments(tool, attempt.arguments)
            granted = await self._confirmer.confirm(
                tool,
                attempt.call,
                attempt.arguments,
                attempt.recorder,
                why,
                found,
                attempt.context.agents,
                question_identity(attempt),
                word,
            )
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
            await self._record_end(attempt, result)
        except JournalError:
            ledger.is_lost(result, lambda: self._write_down(attempt, result))
            raise
        ledger.unwritten.pop(attempt.call.id, None)

    async def _record_end(self, attempt: CallAttempt, result: ToolResult) -> None:
        call, tool, recorder = attempt.call, attempt.tool, attempt.recorder
        left: list[Recorded] = []
        if not attempt.ran and call.id not in recorder.ledger.before:
            asked = CallAsked(
                run=recorder.run,
                at=recorder.now(),
                call_id=call.id,
                tool=attempt.name,
                principal=attempt.context.principal.id,
                arguments=call.arguments if tool is None else tool.masked(call.arguments),
            )
            if not recorder.record_soon(asked):
                left.append(asked)
        settled = CallSettled(
            run=recorder.run,
            at=recorder.now(),
            call_id=call.id,
            tool=attempt.name,
            outcome=result.outcome,
            duration_us=result.duration_us,
            ran=attempt.ran,
            result=result,
        )
        durable = attempt.ran and tool is not None and not tool.reads
        if not durable and not left and recorder.record_soon(settled):
            return
        if left or not recorder.record_at_once(settled, durable=durable):
            await run_to_completion(recorder.record_all([*left, settled], durable=durable))

    async def call_nested(
        self, attempt: CallAttempt, name: str, arguments: dict[str, Any], scopes: tuple[str, ...] | None, key: str
    ) -> ToolResult:
        """A call made by a running tool: the same caller, the same run, no more rights."""
        call = ToolCall(nested_id(attempt.call.id, key) if key else self.new_id("call"), name, arguments)
        context = attempt.context.nested(scopes, attempt.tool, attempt.resource, attempt.entry)
        refusal = _unrepeatable(attempt.tool, name, attempt.recorder.ledger.tools, key)
        if refusal is not None:
            return await self.refuse(call, refusal, context, attempt.recorder.emit)
        result = await self.invoke(call, context, attempt.recorder.emit)
        attempt.has_read_outside = attempt.has_read_outside or result.untrusted
        return result

    async def begin_run(
        self, attempt: CallAttempt, tools: RegisteredTools, agent: str
    ) -> tuple[Executor, Context, Emit]:
        """For a run that a running tool begins: an executor with other tools, and everything else as it is here.

        The run is named after the call, so that a call which is made again takes it up. Its caller's rights are the
        most it has, and what either reads from outside, both have read. Close it with `runs.let_go_all`.
        """
        below = copy(self)
        below.runs = self.runs.below(tools)
        below._deduplicators = {}
        below._take_in(tools)
        context = attempt.context.nested(None, attempt.resource, attempt.entry)
        context = msgspec.structs.replace(
            context,
            run=nested_id(attempt.recorder.run, attempt.call.id),
            model=None,
            raised=None,
            agents=(*context.agents, agent),
            # It is a model that reads what its calls give, also where code began it.
            held=tuple(each for each in context.held if not (isinstance(each, Tool) and each.replays)),
        )
        (await below.runs.open(context)).join(attempt.recorder.ledger)
        return below, context, attempt.recorder.listener

    async def refuse(
        self, call: ToolCall, error: ToolError, context: Context = Context(), emit: Emit = ignore_event
    ) -> ToolResult:
        """Settle a call without running it, for a reason that its caller has."""
        attempt = CallAttempt(call, context, await self.runs.recorder(context, emit), self)
        return await self._settle_unrun(attempt, lambda: honest_result(attempt, attempt.refused(error)))

    async def accept(
        self, call: ToolCall, content: str, context: Context = Context(), emit: Emit = ignore_event
    ) -> ToolResult:
        """Settle a call that needs nothing run, as one by which the model gives its answer."""
        attempt = CallAttempt(call, context, await self.runs.recorder(context, emit), self)
        return await self._settle_unrun(attempt, lambda: ToolResult(call.id, call.name, content))

    async def _settle_unrun(self, attempt: CallAttempt, result_of: Callable[[], ToolResult]) -> ToolResult:
        async def settle() -> ToolResult:
            result = result_of()
            await self._write_down(attempt, result)
            return result

        try:
            return await attempt.recorder.ledger.settle_once(attempt.call, settle)
        except ToolError as duplicate:
            return refusal_result(attempt.call, duplicate)

    async def result_of_left_call(self, call: ToolCall, context: Context = Context()) -> ToolResult:
        """The answer to a call whose caller is gone: what it was settled with, or that it never began."""
        return await self.refuse(call, Cancelled(_NEVER), context)

    def is_left(self, call: ToolCall, context: Context = Context()) -> bool:
        """Whether a call whose caller is gone has no end, and is made again when its run is taken up."""
        ledger = self.runs.find(context.run)
        if ledger is None or call.name not in ledger.tools or ledger.has_end(call.id):
            return False
        return ledger.tools.find(call.name).replays

    async def record_late(self, attempt: CallAttempt, result: ToolResult) -> None:
        """Record how work ended that outlived its answer."""
        result = msgspec.structs.replace(result, untrusted=is_untrusted_result(attempt.tool, result))
        self._reuse.wrote(attempt.resource)
        await attempt.recorder.amend(attempt.name, result, "late")

    async def answer(self, run: str, request: str, *, allow: bool, by: str, reason: str = "") -> None:
        """Record a person's decision on a call that waits for it. Ask for the call again to have it run.

        Raises:
            UsageError: No such request waits in this run.
        """
        recorder = await self.runs.recorder_of_answers(run)
        await recorder.refresh(request)  # the first answer is the answer, also one from another process
        asked = recorder.ledger.requests.get(request)
        if asked is None or request in recorder.ledger.answers:
            raise UsageError(f"no request {request!r} waits for an answer in run {run!r}")
        answer = asked.answered("allow" if allow else "deny", at=recorder.now(), by=by, reason=reason)
        if await recorder.record_answer(answer) != answer:
            raise UsageError(f"no request {request!r} waits for an answer in run {run!r}: somebody was quicker")

    async def amend(self, run: str, result: ToolResult) -> None:
        """Say what became of a call that was in doubt, on a person's decision."""
        await (await self.runs.recorder(Context(run=run))).amend(result.name, result, "person")

    async def finish(self, run: str | None = None, reason: str = "done", *, keep: bool = False) -> None:
        """Close a run: its last entry is written and others may work on it. With `keep` it is likely to be gone on with
        here, and what is known of it is kept for that."""
        await self.runs.finish(run or self.run, reason, keep=keep)

    async def aclose(self) -> None:
        """End what still runs where that is possible, and let go of every run. The journal is its owner's to close."""
        try:
            await self._performer.aclose()
            await self.finish()
        finally:
            self.runs.let_go_all()


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
