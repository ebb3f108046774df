"""One contestant in its own process: it does jobs when it is told to, and says what they cost.

    python -m bench.turns.worker <module> <job> <base url> [core]

The module has `opened(work, base_url)`, an async context manager that gives a
function which does the job once and returns the final answer. Orders come as lines of JSON
on stdin (`{"count": 100, "at_once": 1}`), what was found goes to stdout. Only the standard
library is imported here: peers have environments of their own.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import sys
import time
from typing import Any, TextIO

from bench.turns.work import ANSWER, JOBS, Once, Work


async def measured(once: Once, work: Work, count: int, at_once: int) -> dict[str, Any]:
    """Do a job so many times, with so many under way at any moment."""
    took: list[float] = []
    left = iter(range(count))
    work.starts.clear()
    work.spent.clear()

    async def lane() -> None:
        for _ in left:
            start = time.perf_counter()
            answer = await once()
            took.append(time.perf_counter() - start)
            if answer != ANSWER:
                raise AssertionError(f"the answer should be {ANSWER!r}, and is {answer!r}")

    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    if at_once == 1:
        await lane()
    else:
        await asyncio.gather(*(lane() for _ in range(at_once)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    calls = count * work.job.turns * work.job.calls
    if len(work.starts) != calls:
        raise AssertionError(f"the tool should have run {calls} times, and ran {len(work.starts)} times")
    found = {"count": count, "cpu": cpu, "wall": wall, "took": took, "peak_mb": peak_mb()}
    found["since_start"] = time.process_time()
    if work.job.pace:
        found["starts"] = list(work.starts)
    if work.spent and at_once == 1:
        found["spent"] = list(work.spent[: work.job.turns])
    return found


def peak_mb() -> float:
    """The most memory that this process held. Not `ru_maxrss`, which begins with that of the parent."""
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def serve(module: str, job: str, base_url: str, out: TextIO) -> None:
    start = time.process_time()
    contestant = importlib.import_module(module)
    say(out, {"import_cpu": time.process_time() - start})
    work = Work(JOBS[job])
    async with contestant.opened(work, base_url) as once:
        for line in sys.stdin:
            order = json.loads(line)
            say(out, await measured(once, work, order["count"], order["at_once"]))


def say(out: TextIO, found: dict[str, Any]) -> None:
    print(json.dumps(found), file=out, flush=True)


def main() -> None:
    module, job, base_url, *core = sys.argv[1:]
    if core:
        os.sched_setaffinity(0, {int(core[0])})
    # What a library prints must not come between the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(serve(module, job, base_url, out))


if __name__ == "__main__":
    main()
