"""Very many calls of MCP servers that die all the time: is every answer true, and is anything left behind?

Four servers, over pipes and over HTTP, of both eras. Each call has a fate of its own, and from outside a server is
killed now and then, whatever it is doing. The servers write down what they did; nobody else does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from handrail import Context, Executor, Policy, ToolCall
from handrail.core.calls import ToolResult
from handrail.journal.journal import SqliteJournal
from handrail.mcp.client.connection import McpConnection
from handrail.mcp.client.ensemble import McpEnsemble
from handrail.mcp.client.tool_listing import McpToolTerms
from handrail.mcp.values import Endpoint, HttpEndpoint, McpBounds, McpLinkTerms, StdioEndpoint
from handrail.tools.ensemble import ToolDefaults
from handrail.tools.registry import prepared_tools
from soak.verdict import ROOT, Verdict, run_and_measure, verdict_on_kills
from tests.processes import children

AT_ONCE = 8
IN_A_RUN = 1000
KINDS = (("stdio", "modern"), ("stdio", "legacy"), ("http", "modern"), ("http", "legacy"))
TOOLS = ("pay", "put", "look")
FATES = {"fine": 93, "dies before": 1, "dies after": 1, "dies answering": 1, "says nothing": 1, "lists anew": 3}
"""How often, of a hundred calls."""
CANCELLED = 0.02
KILL_EVERY = 1.5
"""Seconds between two kills from outside, in the mean."""
MOST_GROWTH = 30.0
"""Megabytes that the process may have grown by."""
TIMEOUT = 2.0
"""Seconds for a call; those that get no answer wait as long."""


@dataclass
class Town:
    """The servers, and what they did."""

    folder: Path
    dice: random.Random
    kills: int = 0
    ports: dict[str, int] = field(default_factory=dict)

    def ensembles(self) -> list[McpEnsemble]:
        return [_Eager(f"{kind}-{era}", self._endpoint(kind, era), prefix=f"{kind}_{era}_") for kind, era in KINDS]

    def _endpoint(self, kind: str, era: str) -> Endpoint:
        if kind == "http":
            return HttpEndpoint(url=f"http://127.0.0.1:{self.ports[era]}/mcp")
        args = ("-m", "soak.mcp_server", kind, era, str(self.ledger(kind, era)))
        return StdioEndpoint(command=sys.executable, args=args, cwd=str(ROOT))

    def ledger(self, kind: str, era: str) -> Path:
        return self.folder / f"{kind}-{era}.ledger"

    async def keep_up(self, era: str) -> None:
        """A server over HTTP, started again whenever it has died."""
        process: asyncio.subprocess.Process | None = None
        try:
            while True:
                args = ("-m", "soak.mcp_server", "http", era, str(self.ledger("http", era)), str(self.ports[era]))
                process = await asyncio.create_subprocess_exec(sys.executable, *args, cwd=ROOT)
                await process.wait()
        finally:
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()

    async def kill_at_random(self) -> None:
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / KILL_EVERY))
            if servers := sorted(children()):
                self.kills += 1
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.dice.choice(servers), signal.SIGKILL)


class _Eager(McpEnsemble):
    """Connects again at once: how long to wait is not what is tried here."""

    def __init__(self, name: str, endpoint: Endpoint, prefix: str) -> None:
        link = McpLinkTerms(bounds=McpBounds(settle=0.01, failures=1000))
        defaults = ToolDefaults(timeout=TIMEOUT)
        super().__init__(name, endpoint, terms=McpToolTerms(prefix), link=link, defaults=defaults)

    async def _made(self) -> McpConnection:
        connection = await super()._made()
        connection._backoff._chance = lambda: 0.02
        return connection


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


async def _called(executor: Executor, call: ToolCall, run: str, cancel_after: float | None) -> ToolResult:
    """One call, perhaps given up; either way it ends in one result."""
    context = Context(run=run)
    task = asyncio.ensure_future(executor.invoke(call, context))
    if cancel_after is not None:
        await asyncio.wait({task}, timeout=cancel_after)
        task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return await executor.invoke(call, context)  # what was recorded of it


def _lie(tool: str, number: int, result: ToolResult, times: int) -> str | None:
    """What is not true about an answer, given how often the server did it."""
    if tool == "pay" and times > 1:
        return f"it ran {times} times"
    match result.outcome:
        case "ok" if not times:
            return "it did not run"
        case "ok" if str(result.content) != str(number):
            return f"it is the answer to another call: {result.content!r}"
        case "failed" if tool == "pay" and times:
            return f"it is told as failed and ran: {result.text}"
        case "ok" | "failed" | "in_doubt" | "timeout" | "cancelled":
            return None
    return f"it ended in {result.outcome}: {result.text}"


def _done(town: Town) -> dict[str, Counter[str]]:
    """How often each server did what."""
    ledgers = {f"{kind}_{era}": town.ledger(kind, era) for kind, era in KINDS}
    return {
        name: Counter(path.read_text().splitlines()) if path.exists() else Counter() for name, path in ledgers.items()
    }


async def _run(calls: int, seed: int, folder: Path) -> tuple[Counter[str], list[str], int, set[str]]:
    dice = random.Random(seed)
    town = Town(folder, dice, ports={era: _free_port() for era in ("modern", "legacy")})
    around = [asyncio.create_task(town.keep_up(era)) for era in town.ports]
    results: Results = {}
    try:
        await asyncio.gather(*map(_reachable, town.ports.values()))
        async with (
            prepared_tools(town.ensembles()) as tools,
            await SqliteJournal.open(folder / "journal.db") as journal,
            Executor(tools, policy=Policy(confirm_side_effects=False), journal=journal) as executor,
        ):
            around.append(asyncio.create_task(town.kill_at_random()))
            for start in range(0, calls, IN_A_RUN):
                numbers = iter(range(start, min(calls, start + IN_A_RUN)))
                await asyncio.gather(*(_some(numbers, executor, dice, results) for _ in range(AT_ONCE)))
                await executor.finish(f"run_{start // IN_A_RUN}")
    finally:
        for task in around:
            task.cancel()
        await asyncio.gather(*around, return_exceptions=True)
    done = _done(town)
    lies = [
        f"{server} {tool} {number}: {lie}"
        for (server, tool, number), result in results.items()
        if (lie := _lie(tool, number, result, done[server][f"{tool} {number}"])) is not None
    ]
    lies += [] if len(results) == calls else [f"{len(results)} answers to {calls} calls"]
    left = {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    return Counter(result.outcome for result in results.values()), lies, town.kills, left


async def _reachable(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)


Results = dict[tuple[str, str, int], ToolResult]


async def _some(numbers: Iterator[int], executor: Executor, dice: random.Random, results: Results) -> None:
    """One caller of several, who calls again as soon as it has an answer."""
    for number in numbers:
        kind, era = dice.choice(KINDS)
        tool = dice.choice(TOOLS)
        (fate,) = dice.choices(tuple(FATES), tuple(FATES.values()))
        cancel_after = dice.random() * 0.01 if dice.random() < CANCELLED else None
        call = ToolCall(f"call_{number}", f"{kind}_{era}_{tool}", {"number": number, "fate": fate})
        run = f"run_{number // IN_A_RUN}"
        results[f"{kind}_{era}", tool, number] = await _called(executor, call, run, cancel_after)


def survives(calls: int = 20_000, seed: int = 1) -> Verdict:
    found, growth = run_and_measure(_run, calls, seed, warm_up=AT_ONCE * 4)
    return verdict_on_kills(calls, *found, growth, MOST_GROWTH)
