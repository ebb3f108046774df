"""Processes that die between a side effect and its result, and others that take up what they left.

`python -m tests.faults.killed_payment FOLDER` does it for each kind of tool, and prints each outcome as a JSON line.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

from handrail import Context, Conversation, Executor, Invocation, Policy, Tool, tool
from handrail.core.messages import ResultMessage
from handrail.journal.auditing import audit
from handrail.journal.journal import SqliteJournal
from handrail.run.history import conversation_of
from handrail.run.runner import Runner
from handrail.testing.script import ReplyLine, Script, ScriptedCall, ScriptFile
from tests.crash.killed_calls import dump, forked, lines, note

KINDS = ("plain", "idempotent", "reconciled", "reconciled as not done")
RUN = "run-of-one"
SCRIPT = Script((ReplyLine(calls=(ScriptedCall("pay", {"amount": 5}),)), ReplyLine(text="Done.")))


def payment(kind: str, effects: Path, *, deadly: bool) -> Tool:
    """A tool that pays, and that a first process does not survive."""

    async def look_up(invocation: Invocation) -> str | None:
        return "paid, as the bank says" if kind == "reconciled" else None

    async def pay(amount: int, invocation: Invocation) -> str:
        if deadly and kind == "reconciled as not done":
            os.kill(os.getpid(), signal.SIGKILL)
        note(effects, amount, invocation.idempotency_key)
        if deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        return "paid"

    reconcile = look_up if kind.startswith("reconciled") else None
    return tool(side_effects=True, idempotent=kind == "idempotent", reconcile=reconcile)(pay)


async def work(folder: Path, kind: str, *, deadly: bool) -> list[list[str]]:
    async with await SqliteJournal.open(folder / "journal.db") as journal:
        made = payment(kind, folder / "effects", deadly=deadly)
        async with Executor([made], journal=journal, policy=Policy(confirm_side_effects=False)) as executor:
            said = conversation_of(await journal.history(RUN)) or Conversation().say("pay")
            said = await Runner(ScriptFile(SCRIPT), executor).run(said, Context(run=RUN))
        results = [each.result for each in said.messages if isinstance(each, ResultMessage)]
        return [[each.outcome, each.text] for each in results] + [["said", said.text]]


def main(folder: Path) -> None:
    for kind in KINDS:
        place = folder / kind
        place.mkdir()
        died = forked(lambda: asyncio.run(work(place, kind, deadly=True)))  # noqa: B023  # it is done at once
        again = forked(lambda: dump(place / "told", asyncio.run(work(place, kind, deadly=False))))  # noqa: B023
        told = {
            "kind": kind,
            "died": os.WIFSIGNALED(died) and os.WTERMSIG(died) == signal.SIGKILL,
            "went on": again == 0,
            "told": json.loads((place / "told").read_text()),
            "effects": lines(place / "effects"),
            "problems": [str(each) for each in audit(place / "journal.db").problems],
        }
        sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
