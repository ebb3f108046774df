"""Very many completions of one RLM; some are cancelled, and of some the sandbox is killed: is anything left behind?

Dying hosts are tried by `tests/crash/test_killed_rlm.py`, which takes any number of points.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

from handrail import Policy, tool
from handrail.core.events import CallSettled, ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import AssistantMessage
from handrail.core.model_request import ModelRequest
from handrail.rlm import RLM
from soak.verdict import Holdings, Verdict, resident
from tests.processes import children

KINDS = ("monty", "monty", "monty", "process")
MOST_GROWTH = 40.0
"""Megabytes that the process may have grown by."""
LONGEST = 0.1
"""Seconds after which a completion is cancelled, at most."""
TURNS = (
    "```repl\nfound = llm_query_batched(['a', 'b'])\n```\n```repl\nfound.append(send('c'))\n```",
    "```repl\nfound.append(rlm_query('d'))\n```",
    '```repl\nanswer["content"] = found\nanswer["ready"] = True\n```',
)
ANSWER = '["said", "said", "sent c", "said"]'


class Model:
    """Writes the code of its next turn, and answers what that asks."""

    name = "model"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        turn = sum(isinstance(message, AssistantMessage) for message in request.messages)
        root = "REPL" in str(request.messages[0])
        yield TextDelta(text=TURNS[min(turn, len(TURNS) - 1)] if root else "said")
        yield ReplyFinished(stop="end", model=self.name)


@tool(side_effects=True)
async def send(words: str) -> str:
    """Send something."""
    await asyncio.sleep(0)
    return f"sent {words}"


def _kill_children() -> None:
    for pid in children():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def _one(rlm: RLM, cancelled_after: float | None) -> str:
    task = asyncio.create_task(rlm.acompletion("a field\n" * 50, "What is there?"))
    if cancelled_after is not None:
        await asyncio.wait({task}, timeout=cancelled_after)
        task.cancel()
    try:
        found = await task
    except asyncio.CancelledError:
        return "cancelled"
    return "right" if found.response == ANSWER else f"wrong: {found.response[:300]} {found.error}"


async def _run(count: int, folder: Path, chance: random.Random) -> Counter[str]:
    ends: Counter[str] = Counter()
    for kind in KINDS:
        robbed = False

        def rob(event: object) -> None:
            nonlocal robbed
            if robbed and isinstance(event, CallSettled) and event.tool == "send":
                robbed = False
                _kill_children()

        async with RLM(
            Model(),
            environment=kind,
            custom_tools={"send": send},
            policy=Policy(confirm_side_effects=False),
            journal=folder / f"{kind}.db",
            state=folder / "state",
            on_event=rob,
        ) as rlm:
            for n in range(count // len(KINDS)):
                robbed = n % 5 == 4
                ends[await _one(rlm, chance.uniform(0, LONGEST) if n % 3 == 2 else None)] += 1
    return ends


def _lived(count: int, seed: int) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(count, Path(folder), random.Random(seed)))


def tidy(count: int = 2_000, seed: int = 20261115) -> Verdict:
    _lived(len(KINDS) * 3, seed)
    gc.collect()
    before, weight = Holdings.now(), resident()
    ends = _lived(count, seed)
    _lived(len(KINDS), seed)  # Monty takes note of processes that have ended when it starts others
    gc.collect()
    after, grown = Holdings.now(), resident() - weight
    wrong = [end for end in ends if end.startswith("wrong")]
    ok = not wrong and after == before and grown <= MOST_GROWTH
    counts = ", ".join(f"{number} {end}" for end, number in ends.most_common() if end not in wrong)
    figures = f"{count} completions: {counts}; {grown:+.0f} MB, {after.files - before.files:+d} files left"
    return Verdict(ok, figures, "" if ok else f"before {before}\nafter {after}\n" + "\n".join(wrong[:20]))
