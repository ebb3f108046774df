"""How many frames a node streams in a second, against a bare Starlette endpoint that sends the same frames.

Each round asks both in turn, one stream and then several at once, so that both see the same machine.

Run: python bench/bench_node.py [--json] [frames]
"""

from __future__ import annotations

import asyncio
import json
import platform
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

AIM = 0.5
SERVER = str(Path(__file__).with_name("node_server.py"))
ROUNDS = 7
AT_ONCE = (1, 10)


async def bench(frames: int) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        ports = {name: await stack.enter_async_context(_served(name)) for name in ("ours", "bare")}
        for port in ports.values():
            await _stream(port, 100)
        found = {str(streams): await _rounds(ports, frames, streams) for streams in AT_ONCE}
    return {"python": platform.python_version(), "frames": frames, "aim": AIM, "streams": found}


async def _rounds(ports: dict[str, int], frames: int, streams: int) -> dict[str, float]:
    """Frames in a second, and the median of what we do of what the other does in the same round."""
    each = frames // streams
    rates: dict[str, list[float]] = {name: [] for name in ports}
    for _ in range(ROUNDS):
        for name, port in ports.items():
            start = time.perf_counter()
            await asyncio.gather(*(_stream(port, each) for _ in range(streams)))
            rates[name].append(each * streams / (time.perf_counter() - start))
    ratio = median(ours / bare for ours, bare in zip(rates["ours"], rates["bare"], strict=True))
    return {**{name: round(median(found)) for name, found in rates.items()}, "ratio": round(ratio, 2)}


async def _stream(port: int, count: int) -> None:
    """Read one stream to its end, and see that it is whole."""
    body = json.dumps({"input": {"count": count}}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    writer.write(
        b"POST /bus/v1/call HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Accept: text/event-stream\r\nX-HearthNet-Capability: bench.tokens\r\n"
        + f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    found = 0
    while piece := await reader.read(2**18):
        found += piece.count(b"event: ")
    writer.close()
    # A name may be cut in two by the pieces; that is rare, and never adds one.
    assert count * 0.99 <= found <= count + 1, f"{found} of {count + 1} frames came"


@asynccontextmanager
async def _served(kind: str) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, SERVER, kind, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def main(arguments: list[str]) -> None:
    numbers = [int(argument) for argument in arguments if argument.isdigit()]
    result = asyncio.run(bench(numbers[0] if numbers else 50_000))
    print(json.dumps(result))
    if "--json" not in arguments:
        print("\n".join(_table(result)), file=sys.stderr)
    sys.exit(int(any(row["ratio"] < AIM for row in result["streams"].values())))


def _table(result: dict[str, Any]) -> list[str]:
    lines = [f"{'frames a second':24} {'handrail':>10} {'bare':>10} {f'ratio (aim {AIM})':>18}"]
    for streams, row in result["streams"].items():
        name = "one stream" if streams == "1" else f"{streams} streams at once"
        lines.append(f"{name:24} {row['ours']:>10,} {row['bare']:>10,} {row['ratio']:>18.2f}")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
