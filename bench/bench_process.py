"""What a call in a warm worker process costs, against a direct call and a hop to a thread.

Run: python bench/bench_process.py [--json] [calls]
"""

from __future__ import annotations

import asyncio
import json
import platform
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import quantiles

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.invocation import Invocation
from handrail.execute.isolation.process_pool import ProcessPool
from handrail.tools.tool import tool

AIM_MS = 2.0


@tool
def add(a: int, b: int) -> int:
    return a + b


async def measure(call: Callable[[], Awaitable[object]], calls: int) -> dict[str, float]:
    """Percentiles in milliseconds of calls one after another."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        await call()
        times.append((time.perf_counter() - start) * 1e3)
    cuts = quantiles(times, n=100)
    return {"p50": round(cuts[49], 4), "p99": round(cuts[98], 4)}


async def bench(calls: int) -> dict[str, object]:
    arguments = {"a": 1, "b": 2}
    invocation = Invocation(ToolCall("call-1", "add", arguments), arguments, Context(run="bench"))

    async def direct() -> object:
        return add(**arguments)

    async def thread() -> object:
        return await asyncio.to_thread(add, **arguments)

    async with ProcessPool() as pool:

        async def process() -> object:
            return (await pool.run(add, invocation, arguments, 30)).output

        async def fresh() -> object:
            async with ProcessPool() as cold:
                return await cold.run(add, invocation, arguments, 30)

        await process()
        await thread()
        rows = {
            "direct": await measure(direct, calls),
            "thread": await measure(thread, calls),
            "process, warm": await measure(process, calls),
            "process, with the start and end of a pool": await measure(fresh, 10),
        }
    return {"python": platform.python_version(), "calls": calls, "aim_ms": AIM_MS, "milliseconds": rows}


def main(arguments: list[str]) -> None:
    numbers = [int(argument) for argument in arguments if argument.isdigit()]
    result = asyncio.run(bench(numbers[0] if numbers else 2000))
    print(json.dumps(result))
    if "--json" in arguments:
        return
    rows = result["milliseconds"]
    assert isinstance(rows, dict)
    print(f"\n{'ms per call':42} {'p50':>9} {'p99':>9}", file=sys.stderr)
    for name, row in rows.items():
        print(f"{name:42} {row['p50']:9.4f} {row['p99']:9.4f}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
