"""Whoever waits for an answer may go away at any moment: no process, task or lease of the run is left, and the run can
be taken up."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
from pathlib import Path

import pytest

from handrail.core.events import CallSettled
from handrail.execute.policy import Policy
from handrail.rlm import RLM
from handrail.rlm.progress import CellRunning
from handrail.rlm.run import RlmRun
from handrail.testing.journal import MemoryJournal
from handrail.tools.tool import tool
from tests.processes import children, is_running
from tests.rlm.root_models import Echo, Root, ready, repl

PATIENCE = 60
"""Seconds after which what does not end is taken not to."""


def alive() -> set[int]:
    """One that has ended may wait for Monty to notice, which it does when it starts the next."""
    return set(filter(is_running, children()))


@pytest.mark.parametrize(("kind", "points", "turns"), [("monty", 25, 400), ("process", 4, 400)])
async def test_a_completion_that_is_cancelled_anywhere_leaves_nothing_behind(
    kind: str, points: int, turns: int, tmp_path: Path
) -> None:
    """Anywhere is after so many turns of the loop; every third is cancelled once more while it winds up."""
    chance, before = random.Random(20261115), alive()
    cancelled = 0
    for point in range(points):
        sent: list[str] = []

        @tool(side_effects=True)
        async def send(words: str, sent: list[str] = sent) -> str:
            """Send something."""
            sent.append(words)
            await asyncio.sleep(0)
            return words

        # Whatever was cut off, the last turn has an answer.
        replies = (repl("x = [llm_query('a'), send('b')]"), repl("y = rlm_query('c')"), *[ready("'done'")] * 3)
        journal = MemoryJournal()
        async with RLM(
            Root(*replies),
            environment=kind,
            other_backends=[Echo()],
            custom_tools={"send": send},
            policy=Policy(confirm_side_effects=False),
            journal=journal,
            state=tmp_path / str(point),
            run="r",
        ) as rlm:
            tasks = asyncio.all_tasks()
            asking = asyncio.create_task(rlm.acompletion("text", "question"))
            for _ in range(chance.randrange(turns * (point + 1) // points)):
                await asyncio.sleep(0)
            asking.cancel()
            for _ in range(chance.randrange(5) if point % 3 == 2 else 0):
                await asyncio.sleep(0)
                asking.cancel()
            await asyncio.wait({asking})
            cancelled += asking.cancelled()
            if left := asyncio.all_tasks() - tasks - {asking}:  # an answer does not wait long for what winds up slowly
                assert (await asyncio.wait(left, timeout=PATIENCE))[1] == set()
            assert alive() <= before

            found = await rlm.aresume("r", "text", "question")

        assert found.response == "done"
        assert len(sent) == len(set(sent))
        settled = [event.call_id for event in journal.events if isinstance(event, CallSettled)]
        assert len(settled) == len(set(settled))
    assert cancelled > points // 2


@pytest.mark.parametrize("kind", ("monty", "process"))
async def test_a_run_whose_interpreter_was_killed_is_let_go_of(kind: str) -> None:
    """A context may be large, and a program may ask very many questions."""

    def dies(event: object) -> None:
        if isinstance(event, CellRunning) and event.code == "x = 1":
            for pid in children() - before:
                os.kill(pid, signal.SIGKILL)

    before, others = children(), runs()
    async with RLM(Root(repl("x = 1"), ready("1")), environment=kind, on_event=dies) as rlm:
        await rlm.acompletion("text", "question")

    assert runs() <= others


def runs() -> set[int]:
    """Those that are in memory, also of other tests."""
    gc.collect()
    return {id(each) for each in gc.get_objects() if isinstance(each, RlmRun)}
