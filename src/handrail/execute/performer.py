"""Running one checked and permitted call: place, intent, handler, result."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Coroutine, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from handrail.core.calls import Output, ToolCall, ToolResult, WithheldWords
from handrail.core.errors import (
    INVALID_OUTPUT,
    Cancelled,
    HandrailError,
    JournalError,
    LimitReached,
    TimedOut,
    ToolError,
    UsageError,
)
from handrail.core.events import CallIntended, CallProgress
from handrail.core.interception import HandlerCall, Interceptor, current_interceptor
from handrail.core.invocation import Invocation
from handrail.core.ports import Clock, Spill
from handrail.execute.attempt import CallAttempt, handler_failure, report_failure
from handrail.execute.concurrency import CallGate, GateEntry
from handrail.execute.dedupe.matching import call_identity
from handrail.execute.effects import EffectOverlap
from handrail.execute.handles.result_words import is_withheld, split_output, told_failure
from handrail.execute.isolation.handler_work import HandlerThreads, HandlerWork, StragglingWork
from handrail.execute.isolation.loop_watch import LoopWatch
from handrail.execute.isolation.process_pool import ProcessPool
from handrail.execute.isolation.worker_frames import NOTHING_LEFT
from handrail.execute.output import (
    bound_output,
    check_output,
    normalise_output,
    read_worker_output,
    resolve_handler_value,
)
from handrail.execute.policy import Policy
from handrail.execute.recorder import RunRecorder
from handrail.tools.tool import Retry, Tool, schema_defaults

if TYPE_CHECKING:
    from handrail.execute.isolation.sandbox_pool import SandboxPool

logger = logging.getLogger(__name__)

_KILLABLE = ("process", "sandbox")
"""The isolations in which work is killed when its time is up; those that run it there keep the time."""
_TOLERANCE = 0.1
"""Seconds by which an answer may miss its timeout unnoticed."""
_WINDING_UP = 5.0
"""Seconds for what works by calls of other tools, once it is cancelled: each of those has to end first."""


class CallPerformer:
    """Has the places where handlers run, and ends them all when it is closed.

    An executor and those of the runs below it share one, so that limits on what runs at once hold for all of them.
    """

    def __init__(self, policy: Policy, spill: Spill | None, clock: Clock) -> None:
        self._policy = policy
        self._spill = spill
        self._clock = clock
        self._gate = CallGate(policy.concurrency)
        self._threads = HandlerThreads()
        self._uses_threads = False
        self._watch = LoopWatch()
        self._processes: ProcessPool | None = None
        self._sandboxes: SandboxPool | None = None
        self._stragglers = StragglingWork(policy.max_left_running)
        self._amendments: set[asyncio.Task[None]] = set()

    async def perform(self, attempt: CallAttempt) -> ToolResult:
        """Run the call and give its result; a failure is a result too.

        Raises:
            CancelledError: It was cancelled; `attempt.result` is the answer, if it had begun.
            JournalError: Its intent could not be written.
            EffectOverlap: An equal effect was begun since it was looked for.
        """
        tool = attempt.tool
        assert tool is not None  # a call is resolved before it is performed
        held = attempt.context.held if attempt.context.depth else None
        try:
            async with self._gate.enter(tool, attempt.resource, held) as entry:
                attempt.entry = entry
                await self._intend(attempt, tool)
                retry = (tool.retry or self._policy.retry) if tool.repeatable else None
                run = self._run(attempt, tool, entry) if retry is None else self._try(attempt, tool, entry, retry)
                if (interceptor := current_interceptor()) is not None:
                    run = _intercept(interceptor, attempt, tool, run)
                return await self.result(attempt, tool, await run)
        except ToolError as error:
            report_failure(attempt, tool, error)
            return attempt.refused(_after_effect(error, tool))

    async def _intend(self, attempt: CallAttempt, tool: Tool) -> None:
        if not tool.reads:
            self.check_repeated(attempt, tool)
        if tool.isolation not in _KILLABLE:
            self._stragglers.check(tool.name)
        attempt.key = attempt.key or attempt.recorder.new_id("key")
        if not attempt.recorder.instant:
            intended = CallIntended(
                run=attempt.recorder.run,
                at=attempt.recorder.now(),
                call_id=attempt.call.id,
                tool=tool.scoped_name,
                side_effects=not tool.reads,
                idempotent=tool.definition.idempotent,
                key=attempt.key,
                principal=attempt.context.principal.id,
                depth=attempt.context.depth,
                grant=attempt.grant,
                arguments=tool.exact(attempt.arguments),
                origins=attempt.origins or UNSET,
            )
            recorder = attempt.recorder
            if tool.reads:
                if not recorder.record_soon(intended):
                    await recorder.record(intended)
            elif not await recorder.record_intent(intended, attempt.effect, attempt.effect_seen):
                raise EffectOverlap
        attempt.ran = True

    def check_repeated(self, attempt: CallAttempt, tool: Tool) -> None:
        """Do not begin what must not happen twice while an equal call of the run, answered long ago, still does it.

        Raises:
            LimitReached: Such a call is still running.
        """
        if tool.reusable or not self._stragglers:
            return
        earlier = self._stragglers.find(_identity(attempt, tool))
        if earlier is not None:
            raise LimitReached(
                f"{tool.name!r} was not started: an equal call ({earlier}) could not be stopped and is still running; "
                "it may yet take effect, so do not repeat it"
            )

    async def _try(self, attempt: CallAttempt, tool: Tool, entry: GateEntry, retry: Retry) -> Output:
        """Once; again only by a policy, and only what may run again."""
        delay = retry.first_delay
        for left in range(retry.attempts - 1, -1, -1):
            try:
                return await self._run(attempt, tool, entry)
            except ToolError as error:
                if not left or attempt.still_running or error.outcome not in ("failed", "timeout"):
                    raise
            attempt.late = ""
            await self._clock.sleep(delay)
            delay *= retry.factor
        raise AssertionError("the last try returns or raises")

    async def _run(self, attempt: CallAttempt, tool: Tool, entry: GateEntry) -> Output:
        timeout = self._time_left(attempt, tool)
        progress = ProgressReporter(attempt.call, attempt.recorder)
        invocation = Invocation(
            attempt.call,
            attempt.arguments,
            attempt.context,
            attempt.key,
            attempt.locations,
            report=progress.report,
            nested=partial(_from_thread, asyncio.get_running_loop(), attempt)
            if tool.isolation == "thread"
            else partial(attempt.owner.call_nested, attempt),
            begin_run=partial(attempt.owner.begin_run, attempt) if tool.begins_runs else None,
            label=attempt.label,
        )
        work = self._start(tool, invocation, attempt.converted, timeout)
        if tool.isolation == "loop":
            invocation.held_by(partial(_hold, work, entry))
        many = tool.replays or tool.begins_runs
        grace = max(self._policy.cancel_grace, _WINDING_UP) if many else self._policy.cancel_grace
        keeps_time = tool.isolation in _KILLABLE
        ending = await work.watch(timeout, grace, attempt.context.deadline, keeps_time=keeps_time)
        if tool.isolation == "thread" and not work.running:
            self._watch.ended(work.future)
        if work.late > _TOLERANCE:
            attempt.late = self._late(work, tool, timeout)
        try:
            await progress.drain()
        except asyncio.CancelledError:  # the work has ended, and its answer is the real one
            ending = "cancelled"
        if work.finished:
            attempt.cancelled = ending == "cancelled"
            return _output(work.future, tool, attempt)
        if work.running:
            attempt.still_running = True
            on_end = partial(self._ended_late, attempt, tool)
            self._stragglers.add(work, _identity(attempt, tool), attempt.call.id, on_end)
        if ending == "cancelled":
            attempt.result = attempt.refused(Cancelled(_after("was cancelled", tool, attempt)))
            raise asyncio.CancelledError
        raise TimedOut(_after(f"timed out after {timeout:g} s", tool, attempt))

    def _start(self, tool: Tool, invocation: Invocation, arguments: dict[str, Any], timeout: float) -> HandlerWork:
        match tool.isolation:
            case "process":
                if self._processes is None:
                    self._processes = ProcessPool(self._policy.process)
                processes = self._processes
                return HandlerWork.of(lambda: processes.run(tool, invocation, invocation.arguments, timeout))
            case "sandbox":
                sandboxes = self._sandboxed()
                return HandlerWork.of(lambda: sandboxes.run(tool, invocation, invocation.arguments, timeout))
            case "thread":
                if not self._uses_threads:
                    self._uses_threads = True
                    weakref.finalize(self, self._threads.close).atexit = False  # for an executor that nobody closed
                work = self._threads.start(lambda: resolve_handler_value(tool.start(invocation, arguments)))
                self._watch.began(work.future, tool.name)
                return work
        return HandlerWork.of(lambda: tool.start(invocation, arguments), self._watch, tool.name)

    def _late(self, work: HandlerWork, tool: Tool, timeout: float) -> str:
        how = "ran to its end" if work.finished and tool.isolation not in _KILLABLE else "was answered"
        cause = self._watch.cause(asyncio.get_running_loop().time() - work.late)
        return (
            f"late: {tool.name!r} {how} {work.late:.1f} s after its timeout of {timeout:g} s"
            f"{f'; {cause}, where no timeout can stop it' if cause else ''}"
        )

    def _sandboxed(self) -> SandboxPool:
        from handrail.execute.isolation.sandbox_pool import SandboxPool  # few programs have such tools

        if self._sandboxes is None:
            self._sandboxes = SandboxPool(self._policy.sandbox)
        return self._sandboxes

    def _time_left(self, attempt: CallAttempt, tool: Tool) -> float:
        timeout = tool.definition.timeout or self._policy.timeout
        if attempt.context.deadline is None:
            return timeout
        left = attempt.context.deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise TimedOut("the deadline of the caller had passed before the tool could run")
        # A run that a call begins has its caller's deadline itself; it then says what its calls came to.
        return min(timeout, left + _WINDING_UP if tool.begins_runs else left)

    async def result(self, attempt: CallAttempt, tool: Tool, output: Output, *, late: bool = False) -> ToolResult:
        """What a call gave, held to the schema of its tool and cut for the model. A `late` one comes after the answer.

        Raises:
            InvalidOutput: It does not fit the schema.
        """
        unfit = check_output(output, tool)
        withheld: tuple[WithheldWords, ...] = ()
        if is_withheld(attempt, self._policy):
            output, withheld = await split_output(attempt, tool, output, late=late)
            unfit = ()  # what it says may repeat the words
        limit = _WHOLE if attempt.is_for_code else tool.max_output or self._policy.max_output
        try:
            content, spilled, warnings = await bound_output(output.output, limit, self._spill)
        except asyncio.CancelledError:  # the tool ran: who goes away does not wait for the rest to be kept
            attempt.cancelled = True
            content, spilled, warnings = await bound_output(output.output, limit, None)
        return ToolResult(
            attempt.call.id,
            attempt.call.name,
            content,
            warnings=output.warnings + unfit + warnings,
            attachments=output.attachments,
            spilled=spilled,
            withheld=withheld,
        )

    def _ended_late(self, attempt: CallAttempt, tool: Tool, future: asyncio.Future[Any]) -> None:
        self._watch.ended(future)
        if future.cancelled() or future.get_loop().is_closed():
            return
        task = future.get_loop().create_task(self._note_late(attempt, tool, future))
        self._amendments.add(task)
        task.add_done_callback(self._amendments.discard)

    async def _note_late(self, attempt: CallAttempt, tool: Tool, future: asyncio.Future[Any]) -> None:
        try:
            result = await self.result(attempt, tool, _output(future, tool, attempt), late=True)
        except ToolError as error:
            report_failure(attempt, tool, error)
            told = _after_effect(error, tool)
            result = msgspec.structs.replace(attempt.refused(told), still_running=False)
            if is_withheld(attempt, self._policy):
                result = told_failure(attempt, result)
        try:
            await attempt.owner.record_late(attempt, result)
        except JournalError:  # its owner has closed it meanwhile: nobody is left to be told
            logger.info("%r ended after its record was closed: %s", tool.name, result.outcome)

    async def aclose(self) -> None:
        self._threads.close()
        self._watch.close()
        try:
            if self._processes is not None:
                await self._processes.aclose()
        finally:  # whoever is in a hurry leaves no jail behind
            if self._sandboxes is not None:
                await self._sandboxes.aclose()
        if self._amendments:
            await asyncio.wait(self._amendments)


_WHOLE = 2**40
"""Characters: not cut."""


def _hold(work: HandlerWork, entry: GateEntry, by: int) -> None:
    """A call that waits for a person takes no time of its own and nobody's place."""
    work.hold(by)
    entry.lend()


def _output(future: asyncio.Future[Any], tool: Tool, attempt: CallAttempt) -> Output:
    attempt.cause = None
    try:
        if tool.isolation in _KILLABLE:
            return read_worker_output(future.result())
        return normalise_output(future.result(), tool.style or "arguments")
    except ToolError as error:
        if hasattr(error, "__notes__"):  # the traceback of what a worker's handler raised
            attempt.cause = error
        raise
    except Exception as error:
        if tool.begins_runs and _is_raised_by_runs(error):
            raise
        attempt.cause = error
        raise handler_failure(error) from error


def _is_raised_by_runs(error: Exception) -> bool:
    """Whether the program that asks gets an exception from the run of an agent, as it would from a run of its own.

    Without a record nothing goes on, and a mistake of the program, as in its approver, is not for a model to read.
    """
    return isinstance(error, JournalError | UsageError) or not isinstance(error, HandrailError)


async def _from_thread(
    loop: asyncio.AbstractEventLoop,
    attempt: CallAttempt,
    name: str,
    arguments: dict[str, Any],
    scopes: tuple[str, ...] | None,
    key: str,
) -> ToolResult:
    """A tool in a thread has a loop of its own there. What it calls is settled here, where the executor is."""
    call = attempt.owner.call_nested(attempt, name, arguments, scopes, key)
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, loop))


async def _intercept(
    interceptor: Interceptor, attempt: CallAttempt, tool: Tool, run: Coroutine[Any, Any, Output]
) -> Output:
    """Asks whoever stands between the call and its handler, who may run it or not."""
    call = HandlerCall(
        id=attempt.call.id,
        tool=tool.scoped_name,
        arguments=attempt.arguments,
        secrets=tool.secrets,
        side_effects=not tool.reads,
    )
    try:
        return await interceptor.perform(call, lambda: run)
    finally:
        run.close()  # does nothing to one that ran


def _identity(attempt: CallAttempt, tool: Tool) -> Hashable:
    """The same for equal calls of one run: the same tool with the same arguments, defaults written out or not."""
    arguments = {**schema_defaults(tool.definition.input_schema), **attempt.arguments}
    return attempt.recorder.run, call_identity(tool.scoped_name, arguments)


def _after_effect(error: ToolError, tool: Tool) -> ToolError:
    """The same error, unless a side effect is done and only its result cannot be used: then it says so first."""
    if tool.reads or error.code != INVALID_OUTPUT:
        return error
    return ToolError(INVALID_OUTPUT, f"{tool.name!r} has done what it was asked; do not repeat it; {error.message}")


def _after(what: str, tool: Tool, attempt: CallAttempt) -> str:
    """The truth about what a call that gave no result may have done."""
    if tool.isolation == "sandbox":
        return f"{tool.name!r} {what} and {'is being' if attempt.still_running else 'was'} stopped; {NOTHING_LEFT}"
    if attempt.still_running:
        return f"{tool.name!r} {what}, but it cannot be stopped and is still running; it may yet take effect"
    if tool.reads:
        return f"{tool.name!r} {what} and was stopped"
    return f"{tool.name!r} {what} and was stopped; what it had done by then may have taken effect: check, do not repeat"


_MOST_WAITING = 100


class ProgressReporter:
    """Costs nothing until a handler says something. When the listener is slow, old news is dropped for newer."""

    __slots__ = ("_call", "_loop", "_recorder", "_said", "_task", "_waiting")

    def __init__(self, call: ToolCall, recorder: RunRecorder) -> None:
        self._call = call
        self._recorder = recorder
        self._loop = asyncio.get_running_loop()
        self._waiting: list[CallProgress] = []
        self._task: asyncio.Task[None] | None = None
        self._said = False

    def report(self, current: float | None, total: float | None, stage: str) -> None:
        """Reports progress from the loop or from a tool's thread. After the loop has closed, it does nothing."""
        news = CallProgress(
            run=self._recorder.run,
            call_id=self._call.id,
            tool=self._call.name,
            current=current,
            total=total,
            stage=stage,
        )
        self._said = True
        try:
            self._loop.call_soon_threadsafe(self._add, news)
        except RuntimeError:
            return

    async def drain(self) -> None:
        """Waits until everything reported so far is told, so that it comes before the answer."""
        if self._said:
            await asyncio.sleep(0)  # what was reported in this turn of the loop is added in the next
        while self._task is not None:
            await asyncio.shield(self._task)

    def _add(self, news: CallProgress) -> None:
        self._waiting.append(news)
        del self._waiting[:-_MOST_WAITING]
        if self._task is None:
            self._task = self._loop.create_task(self._tell())

    async def _tell(self) -> None:
        try:
            while self._waiting:
                await self._recorder.emit(self._waiting.pop(0))
        except Exception:
            # The tool is running: its answer does not hang on whether somebody can hear how far it is.
            logger.exception("a listener failed on the progress of %r", self._call.name)
        finally:
            self._task = None
