"""What a call to an MCP server costs through handrail, against the official package alone, and what starting costs.

Each round asks every contestant in turn over its own connection to its own server, so that all see the same machine.

Run: python bench/bench_mcp.py [--json] [calls]
"""

from __future__ import annotations

import asyncio
import itertools
import json
import platform
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from mcp import Client, StdioServerParameters

from handrail import Executor, ToolCall
from handrail.mcp.client.ensemble import McpEnsemble
from handrail.mcp.values import Stdio
from handrail.tools.lives import alive

AIM = 1.2
SERVER = str(Path(__file__).with_name("mcp_server.py"))
SERVERS = 5
"""Of different slowness, started at once."""
ROUNDS = 5

Once = Callable[[], Awaitable[object]]


async def bench(calls: int) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        contestants = {
            "the official package": await _bare(stack),
            "handrail, its handler": await _handler(stack),
            "handrail, through the executor": await _executor(stack),
        }
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for name, once in itertools.chain(*(contestants.items() for _ in range(calls))):
            start = time.perf_counter()
            await once()
            times[name].append((time.perf_counter() - start) * 1e3)
    base = median(times["the official package"])
    rows = {
        name: {"p50": round(median(each), 3), "p99": round(quantiles(each, n=100)[98], 3), "ratio": median(each) / base}
        for name, each in times.items()
    }
    return {"python": platform.python_version(), "calls": calls, "aim": AIM, "milliseconds": rows, **await _starts()}


async def _bare(stack: AsyncExitStack) -> Once:
    parameters = StdioServerParameters(command=sys.executable, args=[SERVER, "sdk"])
    client = await stack.enter_async_context(Client(parameters))
    await client.list_tools()
    return lambda: client.call_tool("add", {"a": 1, "b": 2})


async def _handler(stack: AsyncExitStack) -> Once:
    ensemble = await stack.enter_async_context(_ensemble("handler", "sdk"))
    return lambda: ensemble.connection.use(lambda client: client.call_tool("add", {"a": 1, "b": 2}), resend=True)


async def _executor(stack: AsyncExitStack) -> Once:
    tools = await stack.enter_async_context(alive([_ensemble("executor", "sdk")]))
    executor = await stack.enter_async_context(Executor(tools))
    ids = itertools.count()

    async def once() -> object:
        result = await executor.invoke(ToolCall(str(next(ids)), "add", {"a": 1, "b": 2}))
        assert result.outcome == "ok", result
        return result

    return once


def _ensemble(name: str, kind: str, prefix: str = "") -> McpEnsemble:
    return McpEnsemble(name, Stdio(command=sys.executable, args=(SERVER, kind)), prefix=prefix)


async def _starts() -> dict[str, float]:
    """How long it takes until five servers are there, against the slowest of them alone."""
    delays = [str(0.4 * number) for number in range(SERVERS)]
    alone, together = [], []
    for _ in range(ROUNDS):
        alone.append(await _until_ready([_ensemble("slowest", delays[-1])]))
        together.append(
            await _until_ready([_ensemble(f"server{n}", delay, f"s{n}_") for n, delay in enumerate(delays)])
        )
    return {"slowest_alone_s": median(alone), "five_s": median(together), "ratio": median(together) / median(alone)}


async def _until_ready(ensembles: list[McpEnsemble]) -> float:
    start = time.perf_counter()
    async with alive(ensembles):
        return time.perf_counter() - start


def main(arguments: list[str]) -> None:
    numbers = [int(argument) for argument in arguments if argument.isdigit()]
    result = asyncio.run(bench(numbers[0] if numbers else 1000))
    print(json.dumps(result))
    if "--json" in arguments:
        return
    print(f"\n{'ms per call over stdio':34} {'p50':>8} {'p99':>8} {'ratio':>7}", file=sys.stderr)
    for name, row in result["milliseconds"].items():
        print(f"{name:34} {row['p50']:>8} {row['p99']:>8} {row['ratio']:>7.2f}", file=sys.stderr)
    print(
        f"\nfive servers ready in {result['five_s']:.2f} s, the slowest of them alone in"
        f" {result['slowest_alone_s']:.2f} s: {result['ratio']:.2f} times",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
