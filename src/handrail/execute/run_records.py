"""The runs that an executor works on: each has a ledger, a record, and a lease so that nobody else works on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.context import Context
from handrail.core.errors import LeaseHeld
from handrail.core.events import Emit, Recorded, RunFinished, RunResumed, RunStarted, ToolsOffered, ignore_event
from handrail.core.ids import NewId
from handrail.core.ports import (
    AppendsAtOnce,
    Clock,
    EffectJournal,
    Journal,
    VersionsRuns,
    appending_at_once,
    finding_effects,
)
from handrail.core.single_flight import SingleFlight
from handrail.execute.ledger import CallLedger
from handrail.execute.recorder import RunRecorder
from handrail.tools.registry import RegisteredTools

_REMEMBERED = 64
"""Runs that were finished with the word that they are likely to be gone on with."""


class RunRecords:
    """Opens runs, keeps their ledgers and writes their record. Runs no tool.

    A run is started, or resumed from the journal, at its first use.
    """

    def __init__(
        self,
        tools: RegisteredTools,
        journal: Journal | None,
        clock: Clock,
        new_id: NewId,
        *,
        follows_origins: bool = True,
    ) -> None:
        self.tools: RegisteredTools = tools
        """What runs that begin now may call. A run keeps those that it began with."""
        self.default_run: str = new_id("run")
        """The run of calls whose context names none."""
        self.now: Callable[[], int] = clock.now
        self._journal = journal
        self.effects: EffectJournal | None = finding_effects(journal)
        """The journal, if it finds side effects by what they do."""
        self._quick: AppendsAtOnce | None = appending_at_once(journal)
        self._clock = clock
        self._new_id = new_id
        self._ledgers: dict[str, CallLedger] = {}
        self._follows_origins = follows_origins
        """Whether runs note where the values come from that they see; it holds on to their results."""
        self._taken_up: Counter[str] = Counter()
        """Runs that are worked on only to settle calls that were left in them, and by how many at this moment."""
        self._left: BoundedMemory[str, tuple[CallLedger, tuple[int, int]]] = BoundedMemory(_REMEMBERED)
        """The latest runs that were finished and may be gone on with, and the version of each then."""
        self._opening: SingleFlight[str, CallLedger] = SingleFlight()
        """The runs that are being opened: a long record keeps no other run waiting."""
        self._opening_with: dict[str, RegisteredTools] = {}
        """The tools of each run that is being opened."""
        self._recorder: RunRecorder | None = None
        """The latest, which whoever asks next mostly wants again."""

    def below(self, tools: RegisteredTools) -> RunRecords:
        """The runs that calls of these runs begin, with tools of their own; in the same journal."""
        return RunRecords(tools, self._journal, self._clock, self._new_id, follows_origins=self._follows_origins)

    @property
    def are_recorded(self) -> bool:
        """Whether there is a journal, by which a run can be taken up."""
        return self._journal is not None

    @property
    def tools_in_use(self) -> tuple[RegisteredTools, ...]:
        """The set that runs get now, and those that runs under way have."""
        return (self.tools, *(ledger.tools for ledger in self._ledgers.values()))

    def tools_of(self, run: str) -> RegisteredTools:
        """What the calls of a run may name: what it began with; of one that is not worked on, what it would get now."""
        ledger = self.find(run)
        return self.tools if ledger is None else ledger.tools

    def include(self, tools: RegisteredTools) -> None:
        """Replace the tools of runs that begin now, and of those under way that have the same set."""
        for ledger in self._ledgers.values():
            if ledger.tools is self.tools:
                ledger.tools = tools
        for run, begun_with in self._opening_with.items():
            if begun_with is self.tools:
                self._opening_with[run] = tools
        self.tools = tools

    def holds(self, run: str) -> bool:
        """Whether it works on this run now, so that nobody else does."""
        return run in self._ledgers

    def is_under_way(self, run: str) -> bool:
        """Whether it works on this run for the run's own sake, and not only to settle what was left in it."""
        return run in self._ledgers and run not in self._taken_up

    @contextmanager
    def taking_up(self, run: str) -> Iterator[None]:
        """Settle a call that was left in a run; the last one who does lets the run go, unless it is under way."""
        if self.is_under_way(run):
            yield
            return
        self._taken_up[run] += 1
        try:
            yield
        finally:
            self._taken_up[run] -= 1
            if not self._taken_up[run]:
                del self._taken_up[run]
                self.let_go(run)

    async def is_live(self, run: str) -> bool:
        """Whether somebody works on this run now, here or in another process."""
        if run in self._ledgers or self._journal is None:
            return run in self._ledgers
        try:
            lease = await self._journal.lease(run)
        except LeaseHeld:
            return True
        lease.release()
        return False

    def find(self, run: str) -> CallLedger | None:
        """The ledger of a run that is worked on."""
        return self._ledgers.get(run or self.default_run)

    async def open(self, context: Context) -> CallLedger:
        """The ledger of a run. The first entry of the run, or of its resumption, says with which tools and for whom.

        Raises:
            JournalError: The record cannot be kept.
            LeaseHeld: Another process works on this run.
        """
        run = context.run or self.default_run
        if (ledger := self._ledgers.get(run)) is not None:
            return ledger
        if self._journal is None:
            self._ledgers[run] = ledger = CallLedger(
                run, self.tools, is_below=context.depth > 0, follows_origins=self._follows_origins
            )
            return ledger
        journal = self._journal
        while (ledger := self._ledgers.get(run)) is None:  # whoever opened it may have let it go again by now
            await self._opening.share(run, lambda: self._begin_with_tools(run, context, journal))
        return ledger

    async def _begin_with_tools(self, run: str, context: Context, journal: Journal) -> CallLedger:
        self._opening_with[run] = self.tools
        try:
            ledger = await self._begin(run, context, journal)
        finally:
            tools = self._opening_with.pop(run)
        ledger.tools = tools  # one may have been included meanwhile
        self._ledgers[run] = ledger
        return ledger

    async def _begin(self, run: str, context: Context, journal: Journal) -> CallLedger:
        tools, principal = self.tools, context.principal.id
        lease = await journal.lease(run)
        try:
            if (ledger := await self._left_as_it_is(run)) is not None:
                await journal.append(RunResumed(run=run, at=self.now(), tools=tools.digest, principal=principal))
                ledger.take_up(tools, lease)
                return ledger
            history = await journal.history(run)
            kind = RunResumed if history else RunStarted
            begun = kind(run=run, at=self.now(), tools=tools.digest, principal=principal)
            if history or self._quick is None or not self._quick.append_soon(begun):
                await journal.append(begun)
        except BaseException:
            lease.release()
            raise
        return CallLedger(
            run,
            tools,
            lease,
            [*history, begun] if history else (),
            is_below=context.depth > 0,
            follows_origins=self._follows_origins,
        )

    async def _left_as_it_is(self, run: str) -> CallLedger | None:
        """What is known of a run that was let go of here, if nobody has written to its record since."""
        left = self._left.pop(run, None)
        if left is None or not isinstance(self._journal, VersionsRuns):
            return None
        return left[0] if await self._journal.version_of(run) == left[1] else None

    async def known_calls(self, context: Context = Context()) -> set[str]:
        """The ids that calls of a run have had; to use one again is to ask for that call again."""
        return (await self.open(context)).calls

    async def begun_calls(self, context: Context = Context()) -> set[str]:
        """The ids of the calls of a run that were begun or answered: to ask for one again begins no effect."""
        return (await self.open(context)).begun

    async def recorder(self, context: Context, emit: Emit = ignore_event) -> RunRecorder:
        """Opens the run of a context, and gives what writes its record."""
        ledger = self._ledgers.get(context.run or self.default_run) or await self.open(context)
        known = self._recorder
        if known is None or known.ledger is not ledger or known.listener is not emit:
            self._recorder = known = self._recorder_of(ledger, emit)
        return known

    def _recorder_of(self, ledger: CallLedger, emit: Emit) -> RunRecorder:
        return RunRecorder(ledger, self._journal, self._quick, self.effects, self._clock, self._new_id, emit)

    async def recorder_of_answers(self, run: str) -> RunRecorder:
        """Writes answers to questions of a run. One that is not worked on here is not taken up for that."""
        if self._journal is None or self.holds(run):
            return await self.recorder(Context(run=run))
        ledger = CallLedger(run, self.tools, None, await self._journal.history(run))
        return self._recorder_of(ledger, ignore_event)

    def is_silent(self, emit: Emit) -> bool:
        """Whether nothing is written down and nobody listens: then what would only be told need not be made."""
        return self._journal is None and emit is ignore_event

    async def record(self, event: Recorded, context: Context = Context(), emit: Emit = ignore_event) -> None:
        """Write down what happened around the calls of a run."""
        await (await self.recorder(context, emit)).record(event)

    async def record_offer(self, context: Context, tools: tuple[str, ...], emit: Emit = ignore_event) -> None:
        """Note which tools a model was shown in a turn."""
        if self.is_silent(emit):
            return
        scoped = self.tools_of(context.run).scoped_names(tools)
        event = ToolsOffered(run=context.run or self.default_run, at=self.now(), tools=scoped)
        recorder = await self.recorder(context, emit)
        if not recorder.record_soon(event):
            await recorder.record(event)

    async def history(self, run: str) -> list[Recorded]:
        """What the journal has of a run; nothing without a journal, or when the run has only just begun."""
        if self._journal is None:
            return []
        if (ledger := self._ledgers.get(run)) is not None and ledger.history is not None:
            return list(ledger.history)
        return await self._journal.history(run)

    async def finish(self, run: str, reason: str, *, keep: bool = False) -> None:
        """Write the last entry of a run, and let others work on it; with `keep`, so that it can be gone on with here
        without reading its record again, unless others have written to it."""
        ledger = self._ledgers.pop(run, None)
        if ledger is None:
            return
        self._recorder = None
        try:
            finished = RunFinished(run=run, at=self.now(), reason=reason)
            if self._journal is not None and (self._quick is None or not self._quick.append_at_once(finished)):
                await self._journal.append(finished)
            if keep and isinstance(self._journal, VersionsRuns):
                self._left[run] = ledger, await self._journal.version_of(run)
        finally:
            ledger.release()

    def let_go(self, run: str) -> None:
        """Releases the lease of a run without writing anything, so that another process may work on it."""
        self._recorder = None
        if (ledger := self._ledgers.pop(run, None)) is not None:
            ledger.release()

    def let_go_all(self) -> None:
        for run in list(self._ledgers):
            self.let_go(run)
