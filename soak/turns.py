"""One run of very many turns: does the last one cost what the first did, and is memory only what was said?"""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator
from itertools import pairwise
from pathlib import Path
from statistics import median

from handrail import Conversation, Executor, Limits, Runner, tool
from handrail.core.calls import ToolCall
from handrail.core.events import CallRequested, Event, ModelEvent, ReplyFinished, ReplyGiven, TextDelta
from handrail.core.model_request import ModelRequest
from handrail.journal.journal import SqliteJournal
from soak.verdict import Verdict, resident

MOST_SLOWER = 1.5
"""How much more a turn of the last tenth may take than one of the first, in the median."""
MOST_BYTES = 12_000
"""That a turn may leave behind: its messages, what the ledger knows of its call, and their indexes."""


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Endless:
    """A model that calls a tool in every reply but the last."""

    name = "endless"

    def __init__(self, turns: int) -> None:
        self._left = turns

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        self._left -= 1
        yield TextDelta(text=f"{self._left} to go")
        if self._left > 0:
            yield CallRequested(call=ToolCall("", "add", {"a": self._left, "b": 1}))
        yield ReplyFinished(stop="tool_calls" if self._left > 0 else "end", model=self.name)


class Stopwatch:
    """An `Emit` that notes the processor's time at the end of each reply, and memory now and then."""

    def __init__(self, weigh_every: int) -> None:
        self.times: list[float] = []
        self.bytes: list[int] = []
        self._weigh_every = weigh_every

    async def __call__(self, event: Event) -> None:
        if isinstance(event, ReplyGiven):
            self.times.append(time.process_time())
            if tracemalloc.is_tracing() and len(self.times) % self._weigh_every == 0:
                gc.collect()
                self.bytes.append(tracemalloc.get_traced_memory()[0])


async def _run(turns: int, folder: Path) -> Stopwatch:
    watch = Stopwatch(max(1, turns // 10))
    async with await SqliteJournal.open(folder / "journal.db") as journal, Executor([add], journal=journal) as executor:
        runner = Runner(Endless(turns), executor, Limits(iterations=turns))
        await runner.run(Conversation().say("count"), emit=watch)
    return watch


def _lived(turns: int) -> Stopwatch:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(turns, Path(folder)))


def flat(turns: int = 1000) -> Verdict:
    """Once for the time, and once for the memory, since weighing slows everything down."""
    times = _lived(turns).times
    costs = [(after - before) * 1e3 for before, after in pairwise(times)]
    tenth = max(1, len(costs) // 10)
    first, last = median(costs[tenth : 2 * tenth]), median(costs[-tenth:])  # the first tenth still warms up
    tracemalloc.start()
    weights = _lived(turns).bytes
    tracemalloc.stop()
    grown = [after - before for before, after in pairwise(weights)]
    each = max(grown[1:], default=0) / max(1, turns // 10)
    ok = last <= MOST_SLOWER * first and each <= MOST_BYTES
    figures = (
        f"{turns} turns: {first:.2f} ms at first, {last:.2f} at last; {each:.0f} bytes a turn, {resident():.0f} MB"
    )
    return Verdict(ok, figures, "" if ok else f"milliseconds: {costs[::tenth]}\nbytes: {weights}")
