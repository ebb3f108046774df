"""A question over ten million characters. The process is killed in the middle; the next one goes on where it was.

The model that writes code is a script here, so that the program needs no service; the one that its code asks is the
embedded one, if its weights are on this machine, or else a script too. The code itself is real, and runs in a sandbox.

Run it: python docs/examples/rlm.py
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from handrail import LLM, RLM, Policy, Tool, create_llm, tool
from handrail.models import find_weights
from handrail.rlm import RLMChatCompletion
from handrail.testing import ReplyLine, Script, ScriptFile

QUESTION = "Who sold the lighthouse?"
NEEDLE = "The lighthouse at Cape Wrath was sold by Edwin Marsh in 1931."
RUN = "lighthouse-1"
TURNS = (
    """Let me look where it is mentioned.
```repl
hits = context.search("lighthouse", 5, 60)
print(len(context), "characters,", len(hits), "places")
```""",
    """I have a model read that place, and note down what it says.
```repl
passage = context.read(max(hits[0]["at"] - 100, 0), 300)
said = llm_query("Text:\\n" + passage + "\\n\\nQuestion: Who sold the lighthouse?\\nAnswer:")
number = note(text=said)
again = look_up(number=number)
```""",
    """```repl
FINAL("note " + str(number) + ": " + again)
```""",
)


def haystack(folder: Path) -> Path:
    """Ten million characters, and one line among them that matters."""
    path = folder / "book.txt"
    page = "All work and no play makes Jack a dull boy.\n" * 1_000
    with path.open("w") as book:
        for number in range(230):
            book.write(page if number != 170 else f"{page}{NEEDLE}\n")
    return path


def notes(folder: Path) -> list[str]:
    path = folder / "notes.txt"
    return path.read_text().splitlines() if path.exists() else []


def make_tools(folder: Path, *, dies: bool) -> dict[str, Tool]:
    """What the code may call. They run here, on the host, and through the executor."""

    @tool(side_effects=True)
    def note(text: str) -> int:
        """Note something down."""
        with (folder / "notes.txt").open("a") as book:
            book.write(text.replace("\n", " ").strip() + "\n")
        return len(notes(folder))

    @tool(side_effects=False)
    def look_up(number: int) -> str:
        """The note of that number."""
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return notes(folder)[number - 1]

    return {"note": note, "look_up": look_up}


def reader() -> LLM:
    if find_weights() is not None:
        return create_llm("local", max_tokens=60)
    return LLM(ScriptFile(Script(name="reader", reply=(ReplyLine(text="Edwin Marsh sold it."),))))


async def ask(folder: Path, *, dies: bool = False) -> RLMChatCompletion:
    """Ask, or go on with what is on record of the same run."""
    root = ScriptFile(Script(name="root", reply=tuple(ReplyLine(text=turn) for turn in TURNS)))
    async with (
        reader() as sub,
        RLM(
            root,
            other_backends=[sub],
            custom_tools=make_tools(folder, dies=dies),
            policy=Policy(confirm_side_effects=False),
            journal=folder / "journal.db",
            run=RUN,
        ) as rlm,
    ):
        return await rlm.acompletion(folder / "book.txt", QUESTION)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{haystack(folder).stat().st_size:,} characters in book.txt. {QUESTION}")
        child = subprocess.run([sys.executable, __file__, name], check=False)
        print("killed in the middle of its code:", child.returncode == -signal.SIGKILL)
        completion = asyncio.run(ask(folder))
        print("answer:", completion.response)
        print(f"replies of models in all: {completion.usage_summary.total_calls}, notes written: {len(notes(folder))}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(ask(Path(sys.argv[1]), dies=True))
    else:
        main()
