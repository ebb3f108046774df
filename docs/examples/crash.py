"""A process is killed in the middle of a payment. The next one finds out what became of it, and pays nothing twice.

Run it: python docs/examples/crash.py
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from handrail import Context, Executor, Invocation, Policy, Tool, ToolCall, tool
from handrail.journal import SqliteJournal

CALL = ToolCall("pay-1", "pay", {"to": "Ada", "cents": 2450})
CONTEXT = Context(run="invoice-17")


def bank(folder: Path) -> Path:
    """The outside world: one line for each payment that took effect."""
    return folder / "bank.txt"


def payments(folder: Path) -> list[str]:
    return bank(folder).read_text().splitlines() if bank(folder).exists() else []


def make_tool(folder: Path, *, dies: bool = False, can_ask: bool = True) -> Tool:
    def ask_the_bank(invocation: Invocation) -> str | None:
        found = [line for line in payments(folder) if line.startswith(invocation.idempotency_key)]
        return f"paid before: {found[0].partition(' ')[2]}" if found else None

    @tool(side_effects=True, reconcile=ask_the_bank if can_ask else None)
    def pay(to: str, cents: int, invocation: Invocation) -> str:
        """Pay somebody."""
        with bank(folder).open("a") as book:
            book.write(f"{invocation.idempotency_key} {cents} cents to {to}\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"paid {cents} cents to {to}"

    return pay


async def invoke(folder: Path, pay: Tool) -> str:
    journal = await SqliteJournal.open(folder / "journal.db")
    async with journal, Executor([pay], policy=Policy(confirm_side_effects=False), journal=journal) as executor:
        result = await executor.invoke(CALL, CONTEXT)
    return f"{result.outcome}: {result.text}"


def main() -> None:
    for can_ask in (False, True):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            child = subprocess.run([sys.executable, __file__, name], check=False)
            print("killed while paying:", child.returncode == -signal.SIGKILL)
            print("asked again:", asyncio.run(invoke(folder, make_tool(folder, can_ask=can_ask))))
            print("payments made:", len(payments(folder)))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(invoke(Path(sys.argv[1]), make_tool(Path(sys.argv[1]), dies=True)))
    else:
        main()
