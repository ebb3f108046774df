"""What the bus in a process adds to a call, beside the executor that runs it there.

    python bench/bench_bus.py [--rounds 15] [--calls 2000]

The same async function as a tool of an executor, as a capability, and the capability called for somebody with
scopes and an id of their own, which is what a door does. The aim is at most 1.5 times the executor. Rounds are
interleaved; the figures are medians. A table goes to stderr, JSON to stdout; the exit code is 1 if a plain call of
the capability is more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from handrail import CapabilityBus, Context, Executor, Policy, Principal, Tool, ToolCall
from handrail.core.invocation import Invocation
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import Caller, RouteRequest
from handrail.tools.definition import ToolDefinition

Way = Callable[[int], Awaitable[None]]
AIM = 1.5

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "input": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        }
    },
    "required": ["input"],
}
RESULT: dict[str, Any] = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
ADD = CapabilityDescriptor(name="sum.add", request_schema=SCHEMA, response_schema=RESULT)
CALLER = Caller(principal=Principal("ed25519:somebody", ("sum.*@1.0",)), trust="member")


async def as_tool(invocation: Invocation) -> dict[str, Any]:
    given = invocation.arguments["input"]
    return {"sum": given["a"] + given["b"]}


async def as_capability(request: RouteRequest) -> dict[str, Any]:
    return {"output": {"sum": request.input["a"] + request.input["b"]}}


def direct(executor: Executor) -> Way:
    runs = iter(range(10**9))

    async def way(calls: int) -> None:
        context = Context(run=f"run-{next(runs)}")
        for n in range(calls):
            result = await executor.invoke(ToolCall(f"call-{n}", "add", {"input": {"a": n, "b": 1}}), context)
            assert result.content == {"sum": n + 1}
        await executor.finish(context.run)

    return way


def on_the_bus(bus: CapabilityBus) -> Way:
    async def way(calls: int) -> None:
        for n in range(calls):
            response = await bus.call("sum.add", (1, 0), {"input": {"a": n, "b": 1}})
            assert response["output"] == {"sum": n + 1}

    return way


def for_somebody(bus: CapabilityBus) -> Way:
    ids = iter(range(10**9))

    async def way(calls: int) -> None:
        for n in range(calls):
            response = await bus.call(
                "sum.add", (1, 0), {"input": {"a": n, "b": 1}}, caller=CALLER, call_id=f"call-{next(ids)}"
            )
            assert response["output"] == {"sum": n + 1}

    return way


async def measured(ways: dict[str, Way], rounds: int, calls: int) -> dict[str, float]:
    """Microseconds of the processor per call of each way, the median over interleaved rounds. Nothing here waits."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            await way(calls)
            times[name].append((time.process_time() - start) / calls * 1e6)
    return {name: statistics.median(each) for name, each in times.items()}


async def main(rounds: int, calls: int) -> int:
    definition = ToolDefinition("add", "", SCHEMA, RESULT)
    tool = Tool(definition, as_tool, style="invocation", share=False)
    async with Executor([tool], policy=Policy(confirm_side_effects=False)) as executor, CapabilityBus() as bus:
        bus.register(ADD, as_capability)
        ways = {"executor": direct(executor), "bus": on_the_bus(bus), "bus, for somebody": for_somebody(bus)}
        await measured(ways, 1, calls)
        found = await measured(ways, rounds, calls)
    for name, each in found.items():
        print(f"{name:20}{each:9.1f} µs a call{each / found['executor']:8.2f} × the executor", file=sys.stderr)
    ratio = found["bus"] / found["executor"]
    print(f"a call on the bus at most {AIM:g} × the executor: {'met' if ratio <= AIM else 'MISSED'}", file=sys.stderr)
    print(json.dumps({**found, "ratio": ratio}))
    return int(ratio > AIM)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.rounds, options.calls)))
