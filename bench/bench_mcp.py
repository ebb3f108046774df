"""What a call to an MCP server costs through handrail, against the official package alone, and what starting costs;
what `handrail mcp serve` adds when it stands before a server; and for how long servers that mean harm keep the event
loop from everybody else.

Each round asks every contestant in turn over its own connection to its own server, so that all see the same machine.

Run: python bench/bench_mcp.py [--json] [--proxy] [calls]     (--proxy measures nothing but `handrail mcp serve`)
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import platform
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from mcp import Client, StdioServerParameters

from handrail import Executor, ToolCall
from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.core.errors import McpError
from handrail.mcp.client.ensemble import McpEnsemble, mcp_ensemble
from handrail.mcp.values import Endpoint, HttpEndpoint, StdioEndpoint
from handrail.tools.registry import prepared_tools

AIM = 1.2
PROXY_AIMS = {"connect": 1.5, "read": 1.3}
PAUSE = 100
"""Milliseconds for which the loop may be blocked."""
SERVER = str(Path(__file__).with_name("mcp_server.py"))
HOSTILE = str(Path(__file__).parent.parent / "tests" / "mcp" / "servers" / "raw_stdio_server.py")
SERVERS = 5
"""Of different slowness, started at once."""
ROUNDS = 5
BIG = 30 * 1024 * 1024
SDK = "the official package"

Once = Callable[[], Awaitable[object]]


async def bench(calls: int) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "calls": calls,
        "aim": AIM,
        "milliseconds": {"stdio": await _calls("stdio", calls), "http": await _calls("http", calls)},
        "proxy": await _proxy(calls),
        **await _starts(),
        "pauses_ms": await _pauses(),
    }


# ── what a call costs ────────────────────────────────────────────────────────────────


async def _calls(wire: str, calls: int) -> dict[str, dict[str, float]]:
    async with AsyncExitStack() as stack:
        contestants = {
            SDK: await _bare(stack, wire),
            "handrail, its handler": await _handler(stack, wire),
            "handrail, through the executor": await _executor(stack, wire),
        }
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for name, once in itertools.chain(*(contestants.items() for _ in range(calls))):
            start = time.perf_counter()
            await once()
            times[name].append((time.perf_counter() - start) * 1e3)
    base = median(times[SDK])
    return {
        name: {"p50": round(median(each), 3), "p99": round(quantiles(each, n=100)[98], 3), "ratio": median(each) / base}
        for name, each in times.items()
    }


async def _bare(stack: AsyncExitStack, wire: str) -> Once:
    if wire == "http":
        target: Any = (await stack.enter_async_context(_web())).url
    else:
        target = StdioServerParameters(command=sys.executable, args=[SERVER, "sdk"])
    client = await stack.enter_async_context(Client(target))
    await client.list_tools()
    return lambda: client.call_tool("add", {"a": 1, "b": 2})


async def _handler(stack: AsyncExitStack, wire: str) -> Once:
    ensemble = await stack.enter_async_context(mcp_ensemble("handler", await _endpoint(stack, wire)))
    return lambda: ensemble.connection.use(lambda client: client.call_tool("add", {"a": 1, "b": 2}), resend=True)


async def _executor(stack: AsyncExitStack, wire: str) -> Once:
    tools = await stack.enter_async_context(prepared_tools([mcp_ensemble("executor", await _endpoint(stack, wire))]))
    executor = await stack.enter_async_context(Executor(tools))
    ids = itertools.count()

    async def once() -> object:
        result = await executor.invoke(ToolCall(str(next(ids)), "add", {"a": 1, "b": 2}))
        assert result.outcome == "ok", result
        return result

    return once


async def _endpoint(stack: AsyncExitStack, wire: str) -> Endpoint:
    return await stack.enter_async_context(_web()) if wire == "http" else _program("sdk")


def _program(kind: str) -> StdioEndpoint:
    return StdioEndpoint(command=sys.executable, args=(SERVER, kind))


@asynccontextmanager
async def _web() -> AsyncIterator[HttpEndpoint]:
    process = await asyncio.create_subprocess_exec(sys.executable, SERVER, "http", stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield HttpEndpoint(url=f"http://127.0.0.1:{int(await process.stdout.readline())}/mcp")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


# ── what starting costs ──────────────────────────────────────────────────────────────


async def _starts() -> dict[str, float]:
    """How long it takes until five servers are there, against the slowest of them alone."""
    delays = [str(0.4 * number) for number in range(SERVERS)]
    alone, together = [], []
    for _ in range(ROUNDS):
        alone.append(await _until_ready([mcp_ensemble("slowest", _program(delays[-1]))]))
        five = [mcp_ensemble(f"server{n}", _program(delay), prefix=f"s{n}_") for n, delay in enumerate(delays)]
        together.append(await _until_ready(five))
    return {"slowest_alone_s": median(alone), "five_s": median(together), "ratio": median(together) / median(alone)}


async def _until_ready(ensembles: list[McpEnsemble]) -> float:
    start = time.perf_counter()
    async with prepared_tools(ensembles):
        return time.perf_counter() - start


# ── what a proxy before them costs ───────────────────────────────────────────────────


async def _proxy(calls: int) -> dict[str, Any]:
    """Connecting and reading through `handrail mcp serve`, against the same server without it."""
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "directly": StdioServerParameters(command=sys.executable, args=[SERVER, "sdk"]),
            "through the proxy": _proxied(Path(folder)),
        }
        connects: dict[str, list[float]] = {name: [] for name in ways}
        for name, program in itertools.chain(*(ways.items() for _ in range(ROUNDS))):
            connects[name].append(await _connecting(program))
        reads = await _reading(ways, calls)
    return {
        "load": os.getloadavg()[0],
        "connect": _compared(connects),
        "read": _compared(reads),
    }


def _proxied(folder: Path) -> StdioServerParameters:
    """`handrail mcp serve` with a journal, before the server that the others speak to."""
    file = folder / "handrail.toml"
    command = json.dumps([sys.executable, SERVER, "sdk"])
    file.write_text(f'[proof]\njournal = "journal.db"\n[mcp.bench]\ncommand = {command}\n')
    env = {"XDG_STATE_HOME": str(folder / "home"), "PATH": os.environ["PATH"]}
    Approvals.here(env).approve(file, "bench", load_config(file).mcp["bench"].endpoint, by="bench")
    serve = ["-m", "handrail", "mcp", "serve", "--rule", "allow *"]
    return StdioServerParameters(command=sys.executable, args=serve, cwd=folder, env=env)


async def _connecting(program: StdioServerParameters) -> float:
    """Milliseconds until the tools are known."""
    start = time.perf_counter()
    async with Client(program) as client:
        await client.list_tools()
        return (time.perf_counter() - start) * 1e3


async def _reading(ways: dict[str, StdioServerParameters], calls: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    async with AsyncExitStack() as stack:
        clients = {name: await stack.enter_async_context(Client(program)) for name, program in ways.items()}
        for client in clients.values():
            await client.list_tools()
        for number in range(calls):
            for name, client in clients.items():
                start = time.perf_counter()
                result = await client.call_tool("add", {"a": number, "b": 2})
                times[name].append((time.perf_counter() - start) * 1e3)
                assert not result.is_error, result
    return times


def _compared(times: dict[str, list[float]]) -> dict[str, float]:
    found = {name: median(each) for name, each in times.items()}
    return {**found, "ratio": found["through the proxy"] / found["directly"]}


# ── what servers that mean harm cost everybody else ──────────────────────────────────


async def _pauses() -> dict[str, dict[str, float]]:
    """The longest pause of the loop while a good server is used beside a bad one, and what a good call took."""
    found: dict[str, dict[str, float]] = {}
    async with prepared_tools([mcp_ensemble("good", _program("0"))]) as tools, Executor(tools) as executor:
        for name, harm in HARMS.items():
            found[name] = await _beside(executor, harm)
    return found


async def _beside(executor: Executor, harm: Callable[[], Awaitable[None]]) -> dict[str, float]:
    ids, took, longest = itertools.count(), [0.0], 0.0
    loop = asyncio.get_running_loop()
    harming = loop.create_task(_repeated(harm))

    async def use() -> None:
        while not harming.done():
            start = time.perf_counter()
            result = await executor.invoke(ToolCall(f"{id(harm)}-{next(ids)}", "add", {"a": 1, "b": 2}))
            assert result.outcome == "ok", result
            took.append((time.perf_counter() - start) * 1e3)
            await asyncio.sleep(0.005)

    async def beat() -> None:
        nonlocal longest
        while not harming.done():
            before = loop.time()
            await asyncio.sleep(0.001)
            longest = max(longest, (loop.time() - before) * 1e3 - 1)

    await asyncio.gather(use(), beat(), harming)
    return {"pause": round(longest, 1), "good_call": round(max(took), 1), "calls": len(took) - 1}


async def _repeated(harm: Callable[[], Awaitable[None]]) -> None:
    for _ in range(ROUNDS):
        await harm()


def _hostile(*begin: str) -> McpEnsemble:
    return mcp_ensemble(
        "bad", StdioEndpoint(command=sys.executable, args=("-I", "-S", HOSTILE, "modern", *begin)), prefix="bad_"
    )


async def _nothing() -> None:
    async with _hostile():
        await asyncio.sleep(0.2)


async def _used(tool: str, **arguments: Any) -> None:
    async with _hostile() as bad:
        with suppress(McpError):
            await bad.connection.use(lambda client: client.call_tool(tool, arguments), resend=True)


async def _listed(begin: str) -> None:
    async with _hostile(begin):
        pass


async def _pattern() -> None:
    async with prepared_tools([_hostile()]) as tools, Executor(tools) as executor:
        await executor.invoke(ToolCall("1", "bad_pattern", {}))


HARMS: dict[str, Callable[[], Awaitable[None]]] = {
    "nothing (for comparison)": _nothing,
    "a result of 30 MB": lambda: _used("big", size=BIG),
    "a result of 3.9 MB": lambda: _used("big", size=3_900_000),
    "a result of 29,000 values": lambda: _used("dense", count=29_000),
    "a list of tools of 30 MB": lambda: _listed("long_list"),
    "20,000 tools": lambda: _listed("many"),
    "a hostile regular expression": _pattern,
    "a storm of 20,000 notices": lambda: _used("storm", count=20_000),
    "an endless line": lambda: _used("endless"),
}


def main(arguments: list[str]) -> None:
    logging.disable(logging.WARNING)  # the servers that mean harm are complained about
    numbers = [int(argument) for argument in arguments if argument.isdigit()]
    calls = numbers[0] if numbers else 1000
    if "--proxy" in arguments:
        proxy = asyncio.run(_proxy(calls))
        print(json.dumps(proxy))
        print("\n".join(_proxy_table(proxy)), file=sys.stderr)
        return
    result = asyncio.run(bench(calls))
    print(json.dumps(result))
    if "--json" not in arguments:
        print("\n".join(_table(result)), file=sys.stderr)


def _table(result: dict[str, Any]) -> list[str]:
    lines = []
    for wire, rows in result["milliseconds"].items():
        lines.append(f"\n{f'ms per call over {wire}':34} {'p50':>8} {'p99':>8} {'ratio':>7}")
        lines += [f"{name:34} {row['p50']:>8} {row['p99']:>8} {row['ratio']:>7.2f}" for name, row in rows.items()]
    lines += ["", *_proxy_table(result["proxy"])]
    lines.append(
        f"\nfive servers ready in {result['five_s']:.2f} s, the slowest of them alone in"
        f" {result['slowest_alone_s']:.2f} s: {result['ratio']:.2f} times"
    )
    lines.append(f"\n{f'ms beside a good server (aim {PAUSE})':34} {'longest pause':>14} {'slowest good call':>18}")
    lines += [f"{name:34} {row['pause']:>14} {row['good_call']:>18}" for name, row in result["pauses_ms"].items()]
    return lines


def _proxy_table(proxy: dict[str, Any]) -> list[str]:
    title = f"ms with `handrail mcp serve` (load {proxy['load']:.1f})"
    lines = [f"{title:40} {'directly':>9} {'through':>9} {'ratio':>7} {'aim':>5}"]
    for what, aim in PROXY_AIMS.items():
        row = proxy[what]
        figures = f"{row['directly']:>9.2f} {row['through the proxy']:>9.2f} {row['ratio']:>7.2f}"
        lines.append(f"{what:40} {figures} {aim:>5}")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
