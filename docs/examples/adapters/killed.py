"""An agent of another framework is killed at every step of a payment, and resumed by the framework's own way.

Its tools are guarded. Run it: python docs/examples/adapters/killed.py pydantic_ai

One process for each step: it dies there by SIGKILL, another goes on with what the framework kept, and the bank is
looked at.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from handrail.events import CallIntended, ConfirmationAnswered, ConfirmationRequested, Recorded
from handrail.journal import SqliteJournal
from handrail.ports import EffectMark, Lease

Step = Callable[[], None]
Agent = Callable[[Path, "MortalJournal", Step], Awaitable[str]]


class Death:
    """Counts the steps of a process and kills it at one of them."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


class MortalJournal:
    """A journal whose process may die before and after each of its writes."""

    def __init__(self, journal: SqliteJournal, step: Step) -> None:
        self.journal = journal
        self.step = step

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        self.step()
        await self.journal.append(event, durable=durable)
        self.step()

    async def append_effect(
        self, event: CallIntended | ConfirmationRequested, identity: bytes, after: int | None, *, durable: bool = False
    ) -> bool:
        self.step()
        appended = await self.journal.append_effect(event, identity, after, durable=durable)
        self.step()
        return appended

    async def answer(self, event: ConfirmationAnswered, *, durable: bool = False) -> ConfirmationAnswered:
        self.step()
        first = await self.journal.answer(event, durable=durable)
        self.step()
        return first

    async def wait_for_answer(self, run: str, request: str) -> ConfirmationAnswered:
        return await self.journal.wait_for_answer(run, request)

    async def last_effect(self, identity: bytes) -> EffectMark | None:
        return await self.journal.last_effect(identity)

    async def history(self, run: str) -> list[Recorded]:
        return await self.journal.history(run)

    async def lease(self, run: str) -> Lease:
        return await self.journal.lease(run)

    async def aclose(self) -> None:
        await self.journal.aclose()


def payments(folder: Path) -> int:
    book = folder / "bank.txt"
    return len(book.read_text().splitlines()) if book.exists() else 0


def in_a_process(agent: Agent, folder: Path, at: int | None) -> bool:
    """Run the agent until it ends or dies; whether it died. What it said is in `said.txt`, its steps in `steps.txt`."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    code = 1
    try:
        asyncio.run(_live(agent, folder, at))
        code = 0
    finally:
        os._exit(code)


async def _live(agent: Agent, folder: Path, at: int | None) -> None:
    death = Death(at)
    async with await SqliteJournal.open(folder / "journal.db") as journal:
        said = await agent(folder, MortalJournal(journal, death.step), death.step)
    (folder / "said.txt").write_text(said)
    (folder / "steps.txt").write_text(str(death.steps))


def verdict(folder: Path) -> str:
    """What became of the payment, and whether the agent was told the truth."""
    paid, said = payments(folder), (folder / "said.txt").read_text()
    if paid > 1:
        return f"paid {paid} times"
    unknown = "not known" in said
    if paid == 1:
        return "paid once, and known" if "paid 2450 cents" in said else _told(unknown, "paid once", "claimed undone")
    return _told(unknown, "not paid", "lost in silence")


def _told(unknown: bool, what: str, otherwise: str) -> str:
    return f"{what}, in doubt until a person looks" if unknown else otherwise


def kill_at_steps(agent: Agent, every: int = 1) -> Counter[str]:
    with tempfile.TemporaryDirectory() as name:
        in_a_process(agent, Path(name), None)
        steps = int((Path(name) / "steps.txt").read_text())
        verdicts = Counter({verdict(Path(name)): 1})
    for at in range(every, steps + 1, every):
        with tempfile.TemporaryDirectory() as name:
            died = in_a_process(agent, Path(name), at)
            assert died, f"step {at} was not reached"
            in_a_process(agent, Path(name), None)
            verdicts[verdict(Path(name))] += 1
    return verdicts


def main(framework: str, every: str = "1") -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    program: Any = importlib.import_module(f"pay_with_{framework}")
    for what, times in sorted(kill_at_steps(program.agent, int(every)).items()):
        print(f"{times:3}  {what}")


if __name__ == "__main__":
    main(*sys.argv[1:])
