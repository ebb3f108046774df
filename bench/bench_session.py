"""What a `Session` costs by itself: how it grows, what one that waits holds, and how many a second come and go.

    python bench/bench_session.py [--prompts 10000] [--open 2000] [--made 2000]

The model answers at once and in the process: each prompt calls one tool and gets an answer.
CPU time, not the clock. A table goes to stderr, JSON to stdout. It ends with 1 if a session that
waits holds more than 50 KB.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

from handrail import LLM, Session, ToolCall, tool
from handrail.core.events import CallRequested, ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import UserMessage
from handrail.core.model_request import ModelRequest

AT = (10, 100, 1_000, 10_000)
"""The prompts whose cost is taken, each over the ten that follow it."""
MOST_KB = 50.0


class NotesAtOnce:
    """A model that calls `note` once for each prompt, then answers."""

    name = "at-once"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if isinstance(request.messages[-1], UserMessage):
            yield CallRequested(call=ToolCall(f"call_{len(request.messages)}", "note", {"number": 1}))
            yield ReplyFinished(stop="tool_calls")
        else:
            yield TextDelta(text="It is noted.")
            yield ReplyFinished(stop="end")


@tool
async def note(number: int) -> str:
    """Note down a number."""
    return f"noted {number}"


TOOLS = (note,)


async def growth(llm: LLM, prompts: int, journal: Path | None) -> dict[int, float]:
    """CPU µs of a prompt, by how many came before it."""
    found: dict[int, float] = {}
    async with Session(llm, tools=TOOLS, journal=journal) as session:
        for done in range(prompts + 11):
            if done in AT:
                start = time.process_time()
            await session.ask_async("Note this down.")
            if done - 10 in AT:
                found[done - 10] = (time.process_time() - start) / 11 * 1e6
    return found


async def kept_kb(llm: LLM, count: int) -> float:
    """What one of so many open sessions holds that were asked once and wait."""
    sessions: list[Session[None]] = []
    gc.collect()
    before = _resident_kb()
    for _ in range(count):
        sessions.append(Session(llm, tools=TOOLS))
        await sessions[-1].ask_async("Note this down.")
    gc.collect()
    found = (_resident_kb() - before) / count
    for session in sessions:
        await session.aclose()
    return found


def _resident_kb() -> float:
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


async def per_second(llm: LLM, count: int, *, ask: bool) -> float:
    """Sessions that are opened, asked once if wanted, and closed, in a second of CPU."""
    start = time.process_time()
    for _ in range(count):
        async with Session(llm, tools=TOOLS) as session:
            if ask:
                await session.ask_async("Note this down.")
    return count / (time.process_time() - start)


async def main(prompts: int, open_at_once: int, made: int) -> None:
    llm = LLM(NotesAtOnce())
    await per_second(llm, 50, ask=True)
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as folder:
        found = {
            "kept_kb": await kept_kb(llm, open_at_once),
            "per_second": await per_second(llm, made, ask=False),
            "per_second_asked": await per_second(llm, made, ask=True),
            "prompt_us": await growth(llm, prompts, None),
            "prompt_us_journal": await growth(llm, min(prompts, 1_000), Path(folder) / "journal.db"),
        }
    for name, costs in (("in memory", found["prompt_us"]), ("with a journal", found["prompt_us_journal"])):
        assert isinstance(costs, dict)
        line = ", ".join(f"{at:,}: {cost:.0f}" for at, cost in costs.items())
        print(f"CPU µs of a prompt after so many, {name}: {line}", file=sys.stderr)
    print(f"a session that waits holds {found['kept_kb']:.1f} KB", file=sys.stderr)
    print(
        f"sessions opened and closed in a second of CPU: {found['per_second']:,.0f};"
        f" asked once: {found['per_second_asked']:,.0f}",
        file=sys.stderr,
    )
    print(json.dumps(found))
    if found["kept_kb"] > MOST_KB:  # type: ignore[operator]  # it is a number
        sys.exit(f"a session that waits should hold {MOST_KB:g} KB at most")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=10_000)
    parser.add_argument("--open", type=int, default=2_000, help="sessions that are open at once")
    parser.add_argument("--made", type=int, default=2_000, help="sessions that are made one after the other")
    options = parser.parse_args()
    asyncio.run(main(options.prompts, options.open, options.made))
