"""One run with side effects on a disk that fails at a given write to the journal, and then is well again.

`python -m tests.faults.payments_on_failing_disk FOLDER KIND` does it once for every write, each time in
processes of its own, and prints what happened as one JSON line each. What the tools did is
noted outside the disk that fails: by the world, and not by us.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import hashlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from handrail import Context, Conversation, Executor, Invocation, Policy, Tool, tool
from handrail.core.errors import HandrailError, JournalError
from handrail.core.events import CallIntended, CallSettled, Recorded
from handrail.core.messages import InvocationMessage, ResultMessage
from handrail.core.ports import Lease
from handrail.journal.auditing import audit
from handrail.journal.journal import JournalTiming, SqliteJournal
from handrail.journal.reader import history
from handrail.run.history import conversation_of
from handrail.run.runner import Runner
from handrail.testing.script import ReplyLine, Script, ScriptedCall, ScriptFile
from tests.crash.killed_calls import forked, lines, note
from tests.faults import failing_disks

RUN = "run-of-payments"
SCRIPT = Script(
    (
        ReplyLine(calls=(ScriptedCall("balance"), ScriptedCall("pay", {"amount": 1}))),
        ReplyLine(calls=(ScriptedCall("pay", {"amount": 2}), ScriptedCall("pay", {"amount": 3}))),
        ReplyLine(text="All paid."),
    )
)
NEVER = 10**9


class BreakingJournal:
    """The real journal on a disk that breaks before the n-th write; it notes what was answered for."""

    def __init__(self, journal: SqliteJournal, at: int, break_it: Callable[[], None], answered: Path) -> None:
        self._journal = journal
        self._left = at
        self._break = break_it
        self._answered = answered
        self._refused = False

    async def append(self, event: Recorded, *, durable: bool = False) -> None:
        if self._left == 0:
            self._break()
        self._left -= 1
        what = [type(event).__name__, getattr(event, "call_id", "")]
        late = self._refused  # a write that began before the first refusal may be answered for after it
        try:
            await self._journal.append(event, durable=durable)
        except JournalError:
            self._refused = True
            note(self._answered, json.dumps({"refused": what}))
            raise
        note(self._answered, json.dumps({"kept": what, "durable": durable, "late": late}))

    async def history(self, run: str) -> list[Recorded]:
        return await self._journal.history(run)

    async def lease(self, run: str) -> Lease:
        return await self._journal.lease(run)

    async def aclose(self) -> None:
        await self._journal.aclose()


def tools(effects: Path) -> list[Tool]:
    @tool(side_effects=False)
    async def balance() -> int:
        return 6

    @tool(side_effects=True)
    async def pay(amount: int, invocation: Invocation) -> str:
        note(effects, invocation.id, amount)
        return f"paid {amount}"

    return [balance, pay]


async def work(disk: Path, notes: Path, at: int, break_it: Callable[[], None], timing: JournalTiming) -> str:
    """Start the run or take it up: what it ended with, in a word, and why."""
    journal = await SqliteJournal.open(disk / "journal.db", timing=timing)
    try:
        breaking = BreakingJournal(journal, at, break_it, notes / "answered")
        executor = Executor(tools(notes / "effects"), journal=breaking, policy=Policy(confirm_side_effects=False))
        async with executor:
            said = conversation_of(await journal.history(RUN)) or Conversation().say("pay them")
            if not said.text:  # else only its end is missing
                said = await Runner(ScriptFile(SCRIPT), executor).run(said, Context(run=RUN))
            await executor.finish(RUN)
            return said.text
    finally:
        await journal.aclose()


def once(disk: Path, notes: Path, at: int, break_it: Callable[[], None], timing: JournalTiming) -> dict[str, str]:
    """In this process: how it ended, and what was said that nobody asked for."""
    stray: list[str] = []

    async def watched() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda loop, told: stray.append(str(told)))
        try:
            return await work(disk, notes, at, break_it, timing)
        finally:
            gc.collect()

    try:
        return {"text": asyncio.run(watched()), "stray": "".join(stray)}
    except HandrailError as error:
        return {"error": type(error).__name__, "words": str(error), "stray": "".join(stray)}


def breaking(kind: str, disk: Path) -> Callable[[], None]:
    """What breaks the disk, in the process that writes to it."""
    match kind:
        case "fsync":
            return lambda: failing_disks.break_calls(failing_disks.SYNCS, errno.EIO)
        case "fsync, once":  # the journal's own thread is spared: for it the disk works again
            return lambda: failing_disks.break_calls(failing_disks.SYNCS, errno.EIO, all_threads=False)
        case "write":
            return lambda: failing_disks.break_calls(
                failing_disks.WRITES, errno.EIO, files=failing_disks.open_files(disk)
            )
        case "read-only":  # as ext4 goes by itself after an error
            return lambda: failing_disks.break_calls(
                failing_disks.WRITES, errno.EROFS, files=failing_disks.open_files(disk)
            )
        case "full":
            return lambda: failing_disks.fill(disk)
        case "never":
            return lambda: None
    raise ValueError(kind)


def _state(journal: Path) -> str:
    """Of the file itself, without the log beside it."""
    return hashlib.sha256(journal.read_bytes()).hexdigest()


def life(folder: Path, kind: str, at: int, timing: JournalTiming) -> dict[str, Any]:
    """In a process of its own: the run, the disk being well again, the run taken up."""
    disk, notes = folder / "disk", folder / "notes"
    disk.mkdir(parents=True)
    notes.mkdir()
    if kind == "full":
        failing_disks.own_mounts()
        failing_disks.small_disk(disk, 2**20)
    told: dict[str, Any] = {"at": at}

    def break_it() -> None:
        note(notes / "state", _state(disk / "journal.db"))
        breaking(kind, disk)()

    forked(lambda: dump(notes / "first", once(disk, notes, at, break_it, timing)))
    told["moved"] = (notes / "state").exists() and lines(notes / "state")[0] != [_state(disk / "journal.db")]
    told["first"] = json.loads((notes / "first").read_text())
    told["effects"] = [words[0] for words in lines(notes / "effects")]
    told["answers"] = [json.loads(" ".join(words)) for words in lines(notes / "answered")]
    with suppress(FileNotFoundError):
        failing_disks.filler(disk).unlink()
    told["problems"] = problems(disk / "journal.db")
    told["found"] = [[type(e).__name__, getattr(e, "call_id", "")] for e in recorded(disk / "journal.db")]
    forked(lambda: dump(notes / "second", once(disk, notes, NEVER, lambda: None, JournalTiming())))
    told["second"] = json.loads((notes / "second").read_text())
    told["effects after"] = [words[0] for words in lines(notes / "effects")]
    told["problems after"] = problems(disk / "journal.db")
    told["calls"] = calls(recorded(disk / "journal.db"))
    return told


def recorded(journal: Path) -> list[Recorded]:
    try:
        return history(journal, RUN)
    except JournalError:  # it broke before there was one
        return []


def problems(journal: Path) -> list[str]:
    try:
        return [str(each) for each in audit(journal).problems]
    except JournalError as error:
        return [str(error)]


def calls(events: list[Recorded]) -> dict[str, list[str]]:
    """Of every call of the conversation: its answers, and how often it was begun and settled."""
    said = conversation_of(events)
    found: dict[str, list[str]] = {m.id: [] for m in said.messages if isinstance(m, InvocationMessage)}
    for message in said.messages:
        if isinstance(message, ResultMessage):
            found[message.invocation_id].append(message.result.outcome)
    for event in events:
        if isinstance(event, CallIntended | CallSettled):
            found.setdefault(event.call_id, []).append(type(event).__name__)
    return found


def dump(path: Path, value: Any) -> None:
    path.write_bytes(msgspec.json.encode(value))


def one(place: Path, kind: str, at: int, timing: JournalTiming) -> dict[str, Any]:
    """Life in a process of its own, since what breaks a disk breaks it for good."""
    place.mkdir()
    status = forked(lambda: dump(place / "told", life(place, kind, at, timing)))
    if status:
        raise SystemExit(f"the life {str(place)!r} ended with {status}")
    told: dict[str, Any] = json.loads((place / "told").read_text())
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    return told


def main(folder: Path, kind: str, stall: float) -> None:
    """The first line is of a life that nothing disturbs: it says how many writes there are to fail."""
    undisturbed = one(folder / "undisturbed", "never", NEVER, JournalTiming(stall=stall))
    for at in range(len(undisturbed["answers"])):
        one(folder / str(at), kind, at, JournalTiming(stall=stall))


if __name__ == "__main__":
    os.umask(0o077)
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
