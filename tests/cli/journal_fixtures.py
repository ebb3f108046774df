"""A journal as a real executor writes it, for commands to look at."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from handrail import Context, Executor, Policy, ToolCall, ToolError, tool
from handrail.cli.root import root
from handrail.core.events import ConfirmationAnswered, ConfirmationRequested, Recorded
from handrail.journal.journal import SqliteJournal
from handrail.journal.reader import history
from handrail.testing.clock import FixedClock
from handrail.testing.ids import CountedIds

NASTY = "\x1b[2J\u202egpj.exe\u200b\x07"
"""Clears the screen, turns the writing around, hides a letter and rings a bell."""
START = 1_700_000_000_000
"""2023-11-14 22:13:20 UTC"""


@tool(side_effects=False)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(side_effects=True)
async def pay(to: str, amount: int) -> str:
    """Pay someone."""
    return f"paid {amount} to {to}"


@tool(side_effects=False)
async def fail(why: str) -> str:
    """Fail, and say why."""
    raise ToolError("NO_LUCK", why)


Act = Callable[[Executor, SqliteJournal], Awaitable[None]]


def make(path: Path, *acts: Act, confirm: bool = True, ids: CountedIds | None = None) -> Path:
    """Do these things with one executor, each in a run of its own id, and close the journal."""
    asyncio.run(_make(path, acts, confirm, ids or CountedIds()))
    return path


async def _make(path: Path, acts: tuple[Act, ...], confirm: bool, ids: CountedIds) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    clock = FixedClock(START)
    policy = Policy(confirm_side_effects=confirm)
    async with (
        await SqliteJournal.open(path, clock=clock) as journal,
        Executor([add, pay, fail], policy=policy, journal=journal, clock=clock, new_id=ids) as executor,
    ):
        for act in acts:
            clock.advance(1)
            await act(executor, journal)


async def sums(executor: Executor, journal: SqliteJournal) -> None:
    """A run that ended: two good calls, one that failed, one of a tool that is not there."""
    context = Context(run="run_sums")
    await executor.runs.record_offer(context, ("add", "pay", "fail"))
    await executor.invoke(ToolCall("call_first", "add", {"a": 1, "b": 2}), context)
    await executor.invoke(ToolCall("call_second", "add", {"a": 3, "b": 4}), context)
    await executor.invoke(ToolCall("call_bad", "fail", {"why": NASTY}), context)
    await executor.invoke(ToolCall("call_none", "subtract", {"a": 3, "b": 4}), context)
    await executor.finish("run_sums")


async def payments(executor: Executor, journal: SqliteJournal) -> None:
    """A run that waits: two payments that nobody has allowed."""
    context = Context(run="run_payments")
    await executor.invoke(ToolCall("call_pay", "pay", {"to": "ada", "amount": 5}), context)
    await executor.invoke(ToolCall("call_odd", "pay", {"to": NASTY, "amount": 7}), context)


async def confirmed(executor: Executor, journal: SqliteJournal) -> None:
    """A payment that ada allowed and one that bob denied."""
    run = "run_confirmed"
    for call, allow, by in (("call_yes", True, "ada"), ("call_no", False, "bob")):
        asked = ToolCall(call, "pay", {"to": "eve", "amount": 9})
        await executor.invoke(asked, Context(run=run))
        request = request_for(await journal.history(run), call)
        await executor.answer(run, request, allow=allow, by=by, reason="" if allow else "not eve")
        await executor.invoke(asked, Context(run=run))
    await executor.finish(run, "done")


def request_for(events: list[Recorded], call: str) -> str:
    return next(e.request for e in events if isinstance(e, ConfirmationRequested) and e.call_id == call)


class Journal:
    """A copy of the journal, to look at with commands and to tamper with."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def answers(self, run: str) -> list[ConfirmationAnswered]:
        return [event for event in history(self.path, run) if isinstance(event, ConfirmationAnswered)]

    def change(self, statement: str, *values: Any) -> None:
        """Do to the file what no command would."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute(statement, values)


def run(*arguments: str, text: str = "", env: dict[str, str] | None = None) -> Result:
    """`handrail …`, in this process. What is not caught there is not caught here."""
    result = CliRunner().invoke(root, arguments, input=text, env=env, prog_name="handrail")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def lines(result: Result) -> list[Any]:
    """The answer of a command that was asked for JSON lines."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def command(*arguments: str) -> list[str]:
    """`handrail …`, for another process."""
    return [sys.executable, "-m", "handrail", *arguments]


def environment(**others: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    return {**inherited, "TZ": "UTC", **others}
