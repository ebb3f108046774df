"""Very many calls in worker processes, some of which hang or die: is anything left behind?"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter

from handrail import Context, Executor, ToolCall
from handrail.core.calls import ToolResult
from soak.tools import add, fall, hang
from soak.verdict import Holdings, Verdict, resident

AT_ONCE = 8
MOST_GROWTH = 30.0
"""Megabytes that the process may have grown by."""


def _call(n: int) -> ToolCall:
    if n % 500 == 499:
        return ToolCall(f"call_{n}", "hang", {"a": n})
    if n % 700 == 699:
        return ToolCall(f"call_{n}", "fall", {"a": n})
    return ToolCall(f"call_{n}", "add", {"a": n, "b": 1})


def _is_right(n: int, result: ToolResult) -> bool:
    match _call(n).name:
        case "hang":
            return result.outcome == "timeout" and not result.still_running
        case "fall":
            return result.outcome == "failed"
    return result.outcome == "ok" and result.content == n + 1


async def _run(calls: int) -> tuple[Holdings, Counter[str], list[str]]:
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    async with Executor([add, hang, fall]) as executor:
        for start in range(0, calls, AT_ONCE):
            numbers = range(start, min(calls, start + AT_ONCE))
            # A run of its own for each thousand: what one run knows of its calls is not what is measured here.
            context = Context(run=f"run_{start // 1000}")
            for n, result in zip(numbers, await executor.invoke_all(map(_call, numbers), context), strict=True):
                outcomes[result.outcome] += 1
                wrong += [] if _is_right(n, result) else [f"{n}: {result}"]
            if start % 1000 == 0:
                await executor.finish(f"run_{start // 1000 - 1}")
        within = Holdings.now()
    return within, outcomes, wrong


def clean(calls: int = 10_000) -> Verdict:
    asyncio.run(_run(AT_ONCE * 4))
    gc.collect()
    before, weight = Holdings.now(), resident()
    within, outcomes, wrong = asyncio.run(_run(calls))
    gc.collect()
    after, grown = Holdings.now(), resident() - weight
    ok = not wrong and after == before and grown <= MOST_GROWTH
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    figures = f"{calls} calls: {counts}; {grown:+.0f} MB, {after.files - before.files:+d} files left"
    return Verdict(
        ok, figures, "" if ok else f"before {before}\nwithin {within}\nafter {after}\n" + "\n".join(wrong[:20])
    )
