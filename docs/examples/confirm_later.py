"""One program asks, a person answers in another, and the first goes on. It holds the run all the while.

`handrail confirm allow` does the answering part from a terminal. Run it: python docs/examples/confirm_later.py
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from handrail import Context, Executor, ToolCall, tool
from handrail.journal import JournalReader, SqliteJournal, answer


@tool(side_effects=True)
def publish(page: str) -> str:
    """Publish a page."""
    return f"{page} is public"


async def serve(path: Path) -> None:
    """The program that serves the model."""
    call, context = ToolCall("call-1", "publish", {"page": "prices"}), Context(run="site")
    async with await SqliteJournal.open(path) as journal, Executor([publish], journal=journal) as executor:
        print("first: ", (await executor.invoke(call, context)).outcome, flush=True)
        person = await asyncio.create_subprocess_exec(sys.executable, __file__, str(path))
        await person.wait()
        print("second:", (await executor.invoke(call, context)).text)


async def decide(path: Path) -> None:
    """The program in which a person reads the questions that wait."""
    with JournalReader(path) as reader:
        waiting = reader.pending()
    for question in waiting:
        await answer(path, question, "allow", by="grace@example.org")
        print("grace: ", question.tool, question.arguments, "- allowed", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(serve(Path(folder) / "journal.db"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(decide(Path(sys.argv[1])))
    else:
        main()
