"""What a call over NATS costs beside a bare request of nats-py: the same payload, server and two processes.

    python bench/bench_nats.py [--rounds 11] [--calls 400]

The bare one sends the body as JSON, and a subscription in the other process answers with it. Ours goes through
`NatsBus`, the worker's door, admission and the executor, validated and settled. Rounds are interleaved; the figures
are medians. A table goes to stderr, JSON to stdout; the exit code is 1 if a call costs more than 1.5 bare requests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg

from handrail.core.context import Principal
from handrail.core.redact import Secret
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.request import Caller, RouteRequest
from handrail.node.capability_bus import CapabilityBus
from handrail.node.nats.bus import NatsBus
from handrail.node.nats.door import NatsDoor
from handrail.node.nats.link import NatsLink

SERVER = Path(sys.executable).parent / "nats-server"
BODY = {"input": {"text": "x" * 200}}
SCHEMA = {
    "type": "object",
    "properties": {"input": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}},
    "required": ["input"],
}
AIM = 1.5

Way = Callable[[], Awaitable[object]]


class Welcome:
    async def admit(
        self, caller: Caller, token: Secret | None, descriptor: CapabilityDescriptor, body: Mapping[str, Any]
    ) -> Caller:
        return Caller(principal=Principal(caller.id), trust="member", token=token)


async def worker(url: str) -> None:
    """The other process: the bare answer, and a node."""

    async def bare(message: Msg) -> None:
        await message.respond(msgspec.json.encode(msgspec.json.decode(message.data)))

    async def echo(request: RouteRequest) -> dict[str, Any]:
        return {"output": request.input}

    async with CapabilityBus(admission=Welcome()) as bus, NatsLink(url) as link:
        bus.register(CapabilityDescriptor(name="bench.echo", request_schema=SCHEMA, max_concurrent=64), echo)
        client = await link.open()
        await client.subscribe("bare", queue="q", cb=bare)
        async with NatsDoor(bus, link, community="bench"):
            print("ready", flush=True)
            await asyncio.Event().wait()


async def measured(ways: dict[str, Way], rounds: int, calls: int) -> dict[str, float]:
    """Microseconds per call of each way, the median over interleaved rounds."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            for _ in range(calls):
                await way()
            times[name].append((time.perf_counter() - start) / calls * 1e6)
    return {name: statistics.median(each) for name, each in times.items()}


async def main(url: str, rounds: int, calls: int) -> dict[str, float]:
    client = Client()
    await client.connect(url)

    async def bare() -> object:
        answer = await client.request("bare", msgspec.json.encode(BODY), timeout=5)
        return msgspec.json.decode(answer.data)

    async with NatsBus(url, community="bench") as bus:

        async def call() -> object:
            return await bus.call("bench.echo", (1, 0), BODY)

        ways: dict[str, Way] = {"bare nats-py request": bare, "call over NATS": call}
        await measured(ways, 1, calls)
        found = await measured(ways, rounds, calls)
    await client.close()
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


def run(rounds: int, calls: int) -> int:
    port = free_port()
    url = f"nats://127.0.0.1:{port}"
    server = subprocess.Popen([SERVER, "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    child = subprocess.Popen([sys.executable, __file__, "--worker", url], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        found = asyncio.run(main(url, rounds, calls))
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
        server.kill()
        server.wait()
    for name, each in found.items():
        print(f"{name:24}{each:9.1f} µs", file=sys.stderr)
    ratio = found["call over NATS"] / found["bare nats-py request"]
    print(
        f"a call is {ratio:.2f} bare requests; at most {AIM:g}: {'met' if ratio <= AIM else 'MISSED'}", file=sys.stderr
    )
    print(json.dumps({**found, "ratio": ratio}))
    return int(ratio > AIM)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        asyncio.run(worker(options.worker))
    else:
        sys.exit(run(options.rounds, options.calls))
