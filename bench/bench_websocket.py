"""A thousand chats at once over WebSocket, on a model that only talks: whether every frame arrives, how long it takes,
and whether the node's memory stays where it was when others come. And how long a cancel takes on a quiet node.

The node is a process of its own, and has had as many calls before as it remembers. Each wave opens its sockets, has
them all chat at the same time, and closes them; memory is compared between the waves.

Run: python bench/bench_websocket.py [--json] [chats]
"""

from __future__ import annotations

import asyncio
import json
import logging
import platform
import resource
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from handrail import CapabilityBus
from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.model_request import ModelRequest
from handrail.node.http import HttpBus
from handrail.node.http.bus import HttpPace
from handrail.node.server.node import NodeServer, ServerLimits
from handrail.node.server.serving import serve
from handrail.node.services.llm import LlmService

CHATS = 1_000
TOKENS = 20
WAVES = 3
BEFORE = 11_000
AIM = 1.1
"""The memory of the last wave over that of the first."""
CANCEL_AIM = 200.0
"""Milliseconds from `cancel` to the last frame."""
CANCELS = 50
BODY = {"params": {"model": "talks"}, "input": {"messages": [{"role": "user", "content": "Talk."}]}}


class Talks:
    """So many words, with a breath between them, so that all chats go on at the same time."""

    name = "talks"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for number in range(TOKENS):
            yield TextDelta(text=f"word {number} ")
            await asyncio.sleep(0)
        yield ReplyFinished(stop="end")


class Waits:
    """One word, and then nothing."""

    name = "waits"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta(text="well")
        await asyncio.Event().wait()


async def node() -> None:
    """The process that serves."""
    async with CapabilityBus() as bus:
        bus.register_service(LlmService({"talks": Talks(), "waits": Waits()}, max_concurrent=10 * CHATS))
        for _ in range(BEFORE // CHATS):  # what it remembers of calls has a bound, which is reached first
            await asyncio.gather(*(bus.call("llm.chat", (2, 0), BODY) for _ in range(CHATS)))
        limits = ServerLimits(connections=10 * CHATS, kept_seconds=0.0)
        server = NodeServer(bus=bus, token_required=False, limits=limits)
        await serve(server, ready=lambda url: print(url, flush=True))


@asynccontextmanager
async def _served() -> AsyncIterator[tuple[str, int]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "node", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip(), process.pid
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _memory(pid: int) -> int:
    """Bytes of a process that are in memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def _chat(bus: HttpBus, open_at_once: asyncio.Barrier) -> int:
    """How many frames are missing."""
    async with bus.stream("llm.chat", (2, 0), BODY) as stream:
        seen = [(await anext(stream)).seq]
        await open_at_once.wait()  # everybody's socket is open and has begun
        seen += [frame.seq async for frame in stream]
    return len(set(range(1, TOKENS + 2)) - set(seen))


async def _cancel(bus: HttpBus) -> float:
    """Milliseconds until a call that was told to end has."""
    body = {**BODY, "params": {"model": "waits"}}
    async with bus.stream("llm.chat", (2, 0), body) as stream:
        await anext(stream)
        begun = time.perf_counter()
        await stream.cancel()
        last = await anext(stream)
        assert last.data["error"] == "cancelled"
        return (time.perf_counter() - begun) * 1000


async def bench(chats: int) -> dict[str, Any]:
    waves: list[dict[str, Any]] = []
    async with _served() as (url, pid), HttpBus(url, transport="websocket", pace=HttpPace(connect=30.0)) as bus:
        for _ in range(WAVES):
            open_at_once = asyncio.Barrier(chats)
            begun = time.perf_counter()
            missing = await asyncio.gather(*(_chat(bus, open_at_once) for _ in range(chats)))
            took = time.perf_counter() - begun
            waves.append({"seconds": round(took, 2), "lost": sum(missing), "memory": _memory(pid)})
        cancels = sorted([await _cancel(bus) for _ in range(CANCELS)])
    return {
        "python": platform.python_version(),
        "chats": chats,
        "frames": chats * (TOKENS + 1),
        "waves": waves,
        "lost": sum(wave["lost"] for wave in waves),
        "memory_ratio": round(waves[-1]["memory"] / waves[0]["memory"], 3),
        "aim": AIM,
        "cancel_ms": {"median": round(cancels[CANCELS // 2], 2), "worst": round(cancels[-1], 2), "aim": CANCEL_AIM},
    }


def show(found: dict[str, Any]) -> None:
    say = f"{found['chats']:,} chats at once, {found['frames']:,} frames in each wave, {found['lost']} lost"
    print(say, file=sys.stderr)
    for number, wave in enumerate(found["waves"], 1):
        memory = wave["memory"] / 2**20
        print(f"  wave {number}: {wave['seconds']:6.2f} s, {memory:6.1f} MiB in memory", file=sys.stderr)
    verdict = "met" if found["memory_ratio"] <= AIM and not found["lost"] else "missed"
    print(
        f"  memory of the last wave over the first: {found['memory_ratio']:.3f} (aim ≤ {AIM}: {verdict})",
        file=sys.stderr,
    )
    cancel = found["cancel_ms"]
    verdict = "met" if cancel["worst"] <= CANCEL_AIM else "missed"
    print(
        f"  cancel: {cancel['median']:.1f} ms, at worst {cancel['worst']:.1f} (aim ≤ {CANCEL_AIM:.0f}: {verdict})",
        file=sys.stderr,
    )


def main() -> None:
    logging.disable()
    arguments = [each for each in sys.argv[1:] if each != "--json"]
    if arguments == ["node"]:
        asyncio.run(node())
        return
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit[1], limit[1]))
    found = asyncio.run(bench(int(arguments[0]) if arguments else CHATS))
    print(json.dumps(found))
    if "--json" not in sys.argv:
        show(found)
    slow = found["cancel_ms"]["median"] > CANCEL_AIM
    sys.exit(int(bool(found["lost"]) or found["memory_ratio"] > AIM or slow))


if __name__ == "__main__":
    main()
