"""The runs of an executor: which it holds, with which tools, what is on record of them, and a person's word in them."""

from __future__ import annotations

from typing import Literal

from handrail.core.calls import ToolResult
from handrail.core.context import Context
from handrail.core.errors import UsageError
from handrail.core.events import Emit, Recorded, ToolsOffered, ignore_event
from handrail.core.ids import NewId
from handrail.core.ports import Clock, Journal
from handrail.execute.call_entries import call_amended_entry
from handrail.execute.ledger import CallLedger
from handrail.execute.open_runs import ExecutorRuns
from handrail.execute.recorder import RunRecorder
from handrail.tools.registry import RegisteredTools


class RunRecords:
    """Keeps runs and their record. It runs nothing."""

    def __init__(self, tools: RegisteredTools, journal: Journal | None, clock: Clock, new_id: NewId) -> None:
        self.tools = tools
        """What runs that begin now may call. A run keeps those that it began with."""
        self.run = new_id("run")
        """The run of calls whose context names none."""
        self._journal = journal
        self._clock = clock
        self._new_id = new_id
        self._runs = ExecutorRuns(journal, clock)

    @property
    def tools_in_use(self) -> tuple[RegisteredTools, ...]:
        """The set that runs get now, and those that runs under way have."""
        return (self.tools, *(ledger.tools for ledger in self._runs))

    def tools_of(self, run: str) -> RegisteredTools:
        """What the calls of a run may name: what it began with; of one that is not worked on, what it would get now."""
        ledger = self._runs.get(run or self.run)
        return self.tools if ledger is None else ledger.tools

    async def _open(self, run: str, context: Context) -> CallLedger:
        return await self._runs.open(run, tools=self.tools, principal=context.principal.id)

    async def calls(self, context: Context = Context()) -> set[str]:
        """The ids that calls of a run have had; to use one again is to ask for that call again."""
        return (await self._open(context.run or self.run, context)).calls

    async def begun(self, context: Context = Context()) -> set[str]:
        """The ids of the calls of a run that were begun or answered: to ask for one again begins no effect."""
        return (await self._open(context.run or self.run, context)).begun

    def holds(self, run: str) -> bool:
        """Whether it works on this run now, so that nobody else does."""
        return run in self._runs

    def now(self) -> int:
        return self._clock.now()

    def is_silent(self, emit: Emit) -> bool:
        """Whether nothing is written down and nobody listens: then what would only be told need not be made."""
        return self._journal is None and emit is ignore_event

    async def record(self, event: Recorded, context: Context = Context(), emit: Emit = ignore_event) -> None:
        """Write down what happened around the calls of a run."""
        ledger = await self._open(context.run or self.run, context)
        await self._recorder(ledger, emit).record(event)

    async def history(self, run: str) -> list[Recorded]:
        """What the journal has of a run; nothing without a journal, or when the run has only just begun."""
        return await self._runs.history(run)

    async def offered(self, context: Context, tools: tuple[str, ...], emit: Emit = ignore_event) -> None:
        """Note which tools a model was shown in a turn."""
        if self.is_silent(emit):
            return
        there = self.tools_of(context.run)
        scoped = tuple(there.find(name).scoped_name if name in there else name for name in tools)
        await self.record(ToolsOffered(run=context.run or self.run, at=self.now(), tools=scoped), context, emit)

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
        answer = asked.answered(decision, at=self._clock.now(), by=by, reason=reason)
        if await recorder.answer(answer) != answer:
            raise UsageError(f"no request {request!r} waits for an answer in run {run!r}: somebody was quicker")

    async def amend(self, run: str, result: ToolResult) -> None:
        """Say what became of a call that was in doubt, on a person's word."""
        recorder = self._recorder(await self._open(run, Context(run=run)))
        await recorder.record(call_amended_entry(recorder, result.name, result, "person"), durable=True)

    def _recorder(self, ledger: CallLedger, emit: Emit = ignore_event) -> RunRecorder:
        return RunRecorder(ledger, self._journal, self._clock, self._new_id, emit)

    async def finish(self, run: str | None = None, reason: str = "done") -> None:
        """Close a run: its last entry is written and others may work on it."""
        await self._runs.finish(run or self.run, reason)

    def let_go(self, run: str) -> None:
        """Let others work on a run that is not over: one that waits for a person's word."""
        self._runs.let_go(run)
