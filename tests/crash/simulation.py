"""The loop under a seed: who goes first, what the model and the person do, and where the process dies.

A case is one run that lives until its end, however many processes that takes. Each
process dies at a step (before or after a write to the journal, before or after an
effect), and the next one goes on from what the journal kept. Then the case is judged.

`python -m tests.crash.simulation --seeds 2000` tries every step of every seed;
`python -m tests.crash.simulation --case 17:32` tries one, and prints what happened.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from handrail import Agent, Context, Conversation, Executor, Runner
from handrail.core.errors import InvalidAnswer, LimitExceeded, ToolFailed
from handrail.core.events import CallIntended, ConfirmationAnswered, ConfirmationRequested, Recorded, ignore_event
from handrail.core.ids import nested_id
from handrail.core.ports import Journal, Lease
from handrail.journal.journal import SqliteJournal
from handrail.run.answers import answer_of
from handrail.run.history import conversation_of, unanswered_calls
from handrail.testing.clock import FixedClock
from handrail.testing.journal import MemoryJournal
from handrail.testing.loop import LoopClock, LoopStopped, SeededLoop
from tests.crash.invariants import judge, plain, told_otherwise
from tests.crash.mortal_world import NEVER, RUN, CountedWorld, MortalJournal, MortalProcess, MortalTools
from tests.crash.scenario import PlannedAnswer, PlannedClerk, PlannedModel, PlannedPerson, Scenario, scenario

BEGUN = Conversation().say("go")
MOST_LIVES = 12
MOST_ROUNDS = 12


@dataclass(frozen=True, slots=True)
class SimulatedCase:
    """A seed, and the step at which its first process dies. Whether and where the next ones do, the seed says."""

    seed: int
    dies_at: int = NEVER
    disk: bool = False
    """Whether the journal is the real one, in a file."""

    def __str__(self) -> str:
        where = "" if self.dies_at == NEVER else f":{self.dies_at}"
        return f"--case {self.seed}{where}{' --disk' if self.disk else ''}"


@dataclass(slots=True)
class CaseOutcome:
    """What came of a case."""

    case: SimulatedCase
    plan: Scenario
    world: CountedWorld = field(default_factory=CountedWorld)
    lives: list[MortalProcess] = field(default_factory=list)
    kept: list[list[Recorded]] = field(default_factory=list)
    """What the journal had after each life, without what a power cut took."""
    conversation: Conversation = BEGUN
    answers: list[PlannedAnswer] = field(default_factory=list)
    """The typed answers with which runs ended, if one was asked for."""
    problems: list[str] = field(default_factory=list)


class JournalsBetweenLives:
    """Where journals are kept between lives."""

    def __init__(self, plan: Scenario, chance: Random) -> None:
        self._plan = plan
        self._chance = chance
        self._events: list[Recorded] = []
        self._journal = MemoryJournal()

    async def open(self) -> Journal:
        self._journal = MemoryJournal()
        self._journal.events = self._events
        self._journal.durable = [True] * len(self._events)
        return self._journal

    def died(self) -> None:
        """Leave what a dead process has written; after a power cut, what was on disk and perhaps a bit more."""
        loose = 0
        if self._plan.power:
            for durable in reversed(self._journal.durable):
                if durable:
                    break
                loose += 1
        lost = self._chance.randint(0, loose)
        self._events = self._journal.events[: len(self._journal.events) - lost]

    def events(self) -> list[Recorded]:
        return list(self._events)

    def problems(self) -> list[str]:
        return []


class SyncedJournal:
    """A real journal, and how much of its log had been synced when somebody last waited for that."""

    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal
        self._log = journal.path.with_name(journal.path.name + "-wal")
        self.synced = 0

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        loop = asyncio.get_running_loop()
        with loop.held() if isinstance(loop, SeededLoop) else nullcontext():
            await self._journal.append(event, durable=durable)
        if durable:
            self.synced = self._log.stat().st_size

    async def history(self, run: str) -> list[Recorded]:
        return await self._journal.history(run)

    async def lease(self, run: str) -> Lease:
        return await self._journal.lease(run)

    async def aclose(self) -> None:
        await self._journal.aclose()


class DiskJournalsBetweenLives:
    """The same with a real journal. A process that died leaves its files as they are: copied before they are closed.

    A power cut leaves its log torn: cut off anywhere behind what had been synced.
    """

    def __init__(self, folder: Path, plan: Scenario, chance: Random) -> None:
        self._folder = folder
        self._plan = plan
        self._chance = chance
        self._number = 0
        self._journal: SyncedJournal | None = None

    @property
    def path(self) -> Path:
        return self._folder / str(self._number) / "journal.db"

    async def open(self) -> Journal:
        self.path.parent.mkdir(exist_ok=True)
        self._journal = SyncedJournal(await SqliteJournal.open(self.path, clock=FixedClock()))
        return self._journal

    def died(self) -> None:
        old = self.path
        self._number += 1
        self.path.parent.mkdir()
        for each in old.parent.glob("journal.*"):
            if each.is_file():
                shutil.copy(each, self.path.parent)
        if self._journal is not None:
            self._tear(self._journal.synced)
            asyncio.run(self._journal.aclose())

    def _tear(self, synced: int) -> None:
        log = self.path.with_name(self.path.name + "-wal")
        if self._plan.power and log.exists() and log.stat().st_size > synced > 0:
            with log.open("r+b") as file:
                file.truncate(self._chance.randint(synced, log.stat().st_size))

    def events(self) -> list[Recorded]:
        from handrail.journal.reader import JournalReader

        with JournalReader(self.path) as reader:
            return list(reader.events())

    def problems(self) -> list[str]:
        from handrail.journal.auditing import audit

        return [f"the journal does not verify: {each}" for each in audit(self.path).problems]


def play(case: SimulatedCase, folder: Path | None = None) -> CaseOutcome:
    """Live a case to its end, and judge it."""
    plan, chance = scenario(case.seed), Random(f"lives {case.seed} {case.dies_at}")
    outcome = CaseOutcome(case, plan)
    stable = JournalsBetweenLives(plan, chance) if folder is None else DiskJournalsBetweenLives(folder, plan, chance)
    dies_at = case.dies_at
    for number in range(MOST_LIVES):
        life = MortalProcess(Random(f"life {case.seed} {number}"), dies_at=dies_at, number=number)
        outcome.lives.append(life)
        loop = SeededLoop(f"loop {case.seed} {number}", patience=0.0 if folder is None else 20.0)
        try:
            outcome.conversation = loop.run(live(outcome, stable, life))
        except LoopStopped:
            stable.died()
            loop.bury()
        outcome.kept.append(stable.events())
        if not life.dead:
            break
        dies_at = chance.randrange(40) if chance.random() < 0.3 else NEVER
    else:
        outcome.problems.append(f"it did not end in {MOST_LIVES} lives")
    outcome.problems += judge(outcome.plan, outcome.world, outcome.lives, outcome.kept, outcome.conversation)
    outcome.problems += stable.problems()
    return outcome


async def live(
    outcome: CaseOutcome, stable: JournalsBetweenLives | DiskJournalsBetweenLives, life: MortalProcess
) -> Conversation:
    """One process: take up what the journal has, and go on to the end."""
    plan = outcome.plan
    opened = await stable.open()
    journal = MortalJournal(opened, life)
    first = _agents(plan, outcome.world, life)
    executor = Executor(
        first.all_tools,
        policy=plan.policy,
        approver=PlannedPerson(plan, life),
        journal=journal,
        clock=LoopClock(),
        new_id=life.new_id,
    )
    runner = Runner(
        first.model,
        executor,
        plan.limits,
        on_error=plan.on_error,
        on_wait=plan.on_wait,
        new_id=life.new_id,
        team=first.as_team(),
    )
    conversation = conversation_of(await journal.history(RUN))
    if not conversation.messages:
        conversation = BEGUN
    cancel_at = plan.cancel_at if life.number == plan.cancelled_life else None
    async with executor:
        for _ in range(MOST_ROUNDS):
            before, conversation = conversation, await _go_on(outcome, runner, conversation, life, cancel_at)
            if conversation is not before:  # else it was cancelled before anything was written
                _compare(outcome, conversation, await journal.history(RUN))
            pending = await _pending(journal)
            if cancel_at is None and (not unanswered_calls(conversation) or not pending):
                break
            if cancel_at is None:
                for question in pending:
                    allow = plan.later((question.arguments or {})["n"])
                    await executor.answer(question.run, question.request, allow=allow, by="grace")
            cancel_at = None
        else:
            outcome.problems.append(f"it still waits after {MOST_ROUNDS} answers")
        await executor.finish(RUN)
    await journal.aclose()
    return conversation


def listens(seed: int) -> bool:
    """Whether somebody is told what happens in these lives; where nobody is, the journal may put entries off."""
    return seed % 2 == 0


async def _go_on(
    outcome: CaseOutcome, runner: Runner, conversation: Conversation, life: MortalProcess, cancel_at: float | None
) -> Conversation:
    """Until the run ends, waits, or is cancelled: the conversation as its caller knows it then."""
    known = [conversation]
    returns = None if outcome.plan.answer == "words" else PlannedAnswer
    emit = life.emit if listens(outcome.case.seed) else ignore_event
    task = asyncio.ensure_future(
        runner.run(conversation, Context(run=RUN), emit, follow=lambda now: known.append(now), returns=returns)
    )
    timer = asyncio.get_running_loop().call_later(cancel_at, task.cancel) if cancel_at is not None else None
    try:
        ended = await task
        if returns is not None and not unanswered_calls(ended):
            outcome.answers.append(answer_of(ended, returns))
        return ended
    except InvalidAnswer as error:
        if error.conversation is None:
            outcome.problems.append(f"a run with a typed answer ended without one: {error}")
        return known[-1]
    except (LimitExceeded, ToolFailed):
        return known[-1]
    except asyncio.CancelledError:
        if life.dead or not task.cancelled():
            raise
        return known[-1]
    finally:
        if timer is not None:
            timer.cancel()


def _compare(outcome: CaseOutcome, conversation: Conversation, events: list[Recorded]) -> None:
    """What is replayed from the record is what is in memory."""
    memory, record = plain(conversation), plain(conversation_of(events))
    if memory != record:
        outcome.problems.append(f"memory and record differ:\n    {memory}\n    {record}")


def _agents(plan: Scenario, world: CountedWorld, life: MortalProcess) -> Agent:
    """Two agents that hand over to each other, and the tools of both: one of them runs a third agent."""
    tools = MortalTools(world, life).tools()
    clerk = Agent(
        PlannedClerk(plan, life),
        name="clerk",
        description="Does tasks.",
        system_prompt="You are the clerk.",
        tools=tools,
        limits=plan.clerk,
    )
    both = (*tools, clerk.as_tool())
    limits = plan.limits
    second = Agent(
        PlannedModel(plan, life, "second"),
        name="second",
        system_prompt="You are second.",
        tools=both,
        limits=limits,
        handoffs=["first"],
    )
    return Agent(PlannedModel(plan, life), name="first", tools=both, limits=limits, handoffs=[second])


async def _pending(journal: Journal) -> list[ConfirmationRequested]:
    """The questions without an answer, also those of agents that calls run."""
    events = await journal.history(RUN)
    clerks = {each.call_id: each for each in events if isinstance(each, CallIntended) and each.tool == "clerk"}
    for id in clerks:
        events = events + await journal.history(nested_id(RUN, id))
    return _unanswered(events)


def _unanswered(events: list[Recorded]) -> list[ConfirmationRequested]:
    answered = {event.request for event in events if isinstance(event, ConfirmationAnswered)}
    asked = [event for event in events if isinstance(event, ConfirmationRequested)]
    return [event for event in asked if event.request not in answered]


def cases(seed: int, steps: int, most: int = NEVER, *, disk: bool = False) -> Iterator[SimulatedCase]:
    """A seed without a death, and with one at each step, or at so many of them."""
    yield SimulatedCase(seed, disk=disk)
    chosen = range(steps) if steps <= most else Random(seed).sample(range(steps), most)
    for step in sorted(chosen):
        yield SimulatedCase(seed, step, disk)


def tried(case: SimulatedCase) -> CaseOutcome:
    if not case.disk:
        return play(case)
    with tempfile.TemporaryDirectory() as folder:
        return play(case, Path(folder))


def failures(seeds: Iterable[int], most: int = NEVER, *, disk: bool = False) -> tuple[int, list[str]]:
    """How many cases were tried, and what was wrong, each with how to see it alone."""
    count, found = 0, []
    for seed in seeds:
        whole = play(SimulatedCase(seed))
        for case in cases(seed, whole.lives[0].steps, most, disk=disk):
            count += 1
            outcome = tried(case)
            problems = [*outcome.problems, *told_otherwise(outcome.plan, whole.conversation, outcome.conversation)]
            found += [f"{each}\n  see: python -m tests.crash.simulation {case}" for each in problems]
    return count, found


def tell(outcome: CaseOutcome) -> None:
    """Print a case as it went."""
    say = sys.stdout.write
    say(f"{outcome.plan}\n")
    for life, kept in zip(outcome.lives, outcome.kept, strict=False):
        say(f"\nlife {life.number}: {life.steps} steps{', died' if life.dead else ''}; the journal then has\n")
        for event in kept:
            say(f"  {event}\n")
    say("\nthe conversation\n")
    for message in outcome.conversation.messages:
        say(f"  {message}\n")
    say("\neffects\n" + "".join(f"  {each}\n" for each in outcome.world.effects))
    say("\n" + "\n".join(outcome.problems or ["nothing is wrong"]) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate runs that die, and judge what they leave.")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=NEVER, help="at most so many deaths for each seed")
    parser.add_argument("--disk", action="store_true", help="with the real journal, in files")
    parser.add_argument("--case", help="one SEED or SEED:STEP, told in full")
    chosen = parser.parse_args()
    if chosen.case:
        seed, _, step = chosen.case.partition(":")
        outcome = tried(SimulatedCase(int(seed), int(step) if step else NEVER, chosen.disk))
        tell(outcome)
        return 1 if outcome.problems else 0
    started = time.monotonic()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    count, found = failures(seeds, chosen.steps, disk=chosen.disk)
    sys.stdout.write("\n".join(found[:20]) + "\n" if found else "")
    sys.stdout.write(f"{count} cases of {len(seeds)} seeds, {len(found)} wrong, {time.monotonic() - started:.0f} s\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
