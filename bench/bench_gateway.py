"""How fast the gateways stream, beside a bare Starlette endpoint that yields the very same frames.

    python bench/bench_gateway.py [--tokens 5000] [--rounds 7]

Both are served by one uvicorn in a process of its own; the client reads raw bytes and
does nothing with them. The gateway reads the request, runs a scripted model in a run
with an executor, and encodes each token; the bare endpoint has its frames ready.
`burst` has every token at hand, `paced` gives the loop a turn after each, as a
service on the network does. Rounds are interleaved; figures are medians. A table goes
to stderr, JSON to stdout; below half of the bare endpoint it ends with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import statistics
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from multiprocessing import get_context
from multiprocessing.connection import Connection

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from handrail import Executor
from handrail.core.context import Principal
from handrail.core.events import ModelEvent, ReplyFinished, TextDelta
from handrail.core.messages import Usage
from handrail.core.model_request import ModelRequest
from handrail.core.redact import Secret
from handrail.node.bus.request import Caller
from handrail.node.gateways.gateway import Gateway, GatewayModel
from handrail.node.gateways.request import GatewayOutcome, GatewayRequest
from handrail.node.gateways.wire_table import ANTHROPIC, WIRES

WORD = "tokens "
LEAST = 0.5


class Speaker:
    """Says the same word so many times."""

    name = "m"

    def __init__(self, tokens: int, paced: bool) -> None:
        self._tokens = tokens
        self._paced = paced

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        for _ in range(self._tokens):
            yield TextDelta(text=WORD)
            if self._paced:
                await asyncio.sleep(0)
        yield ReplyFinished(stop="end", model=self.name, usage=Usage(input_tokens=1, output_tokens=self._tokens))


def frames_of(path: str, tokens: int) -> list[bytes]:
    """What the gateway sends, as it sends it."""
    wire = next(wire for wire in WIRES if wire.path == path)
    asked = GatewayRequest(model="m", messages=(), settings=ModelRequest(messages=()), stream=True)
    writer = wire.writer(f"{wire.id}_{'0' * 32}", int(time.time()), "m", asked)
    ended = GatewayOutcome(run="r", usage=Usage(input_tokens=1, output_tokens=tokens))
    return [writer.begin(), *(writer.text(WORD) for _ in range(tokens)), writer.finish(ended)]


async def anybody(request: Request) -> tuple[Caller, Secret | None]:
    return Caller(principal=Principal("bench"), trust="member"), None


def application(tokens: int) -> Starlette:
    models = {name: Speaker(tokens, paced=name == "paced") for name in ("burst", "paced")}
    executor = Executor([])
    gateway = Gateway(
        models=lambda name: GatewayModel(name=name or "", model=models[name or ""]),
        names=lambda: list(models),
        executor=executor,
        caller_of=anybody,
    )
    ready = {wire.path: frames_of(wire.path, tokens) for wire in WIRES}

    async def bare(request: Request) -> StreamingResponse:
        body = await request.json()
        paced = body["model"] == "paced"

        async def frames() -> AsyncIterator[bytes]:
            for frame in ready[request.url.path.removeprefix("/bare")]:
                yield frame
                if paced:
                    await asyncio.sleep(0)

        return StreamingResponse(frames(), media_type="text/event-stream")

    bares = [Route(f"/bare{wire.path}", bare, methods=["POST"]) for wire in WIRES]
    return Starlette(routes=[*gateway.routes(), *bares])


def serve(tokens: int, told: Connection) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        told.send(listener.getsockname()[1])
        server = uvicorn.Server(uvicorn.Config(application(tokens), log_level="error", lifespan="off"))
        asyncio.run(server.serve(sockets=[listener]))


async def read_once(port: int, path: str, model: str) -> int:
    """Ask once and read to the end: how many bytes came."""
    body = json.dumps(
        {"model": model, "max_tokens": 10, "stream": True, "messages": [{"role": "user", "content": "speak"}]}
    ).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + body)
    size = 0
    while piece := await reader.read(1 << 18):
        size += len(piece)
    writer.close()
    await writer.wait_closed()
    return size


async def measured(port: int, tokens: int, rounds: int) -> dict[str, dict[str, float]]:
    kinds = [(wire.path, model) for wire in WIRES for model in ("burst", "paced")]
    seconds: dict[str, list[float]] = {}
    for turn in range(rounds + 1):
        for path, model in kinds:
            for prefix in ("", "/bare"):
                started = time.perf_counter()
                size = await read_once(port, prefix + path, model)
                taken = time.perf_counter() - started
                if size < tokens * len(WORD):
                    raise RuntimeError(f"{prefix}{path} gave {size} bytes only")
                if turn:  # the first warms up
                    seconds.setdefault(f"{prefix}{path} {model}", []).append(taken)
    found: dict[str, dict[str, float]] = {}
    for path, model in kinds:
        ours, bare = (statistics.median(seconds[f"{prefix}{path} {model}"]) for prefix in ("", "/bare"))
        name = f"{'anthropic' if path == ANTHROPIC.path else 'openai'} {model}"
        found[name] = {"gateway": tokens / ours, "bare": tokens / bare, "ratio": bare / ours}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    here, there = get_context("spawn").Pipe()
    server = get_context("spawn").Process(target=serve, args=(given.tokens, there), daemon=True)
    server.start()
    try:
        found = asyncio.run(measured(here.recv(), given.tokens, given.rounds))
    finally:
        server.terminate()
        server.join()
    print(f"{'':20} {'gateway':>12} {'bare':>12} {'ratio':>7}   frames a second", file=sys.stderr)
    for name, row in found.items():
        print(f"{name:20} {row['gateway']:12,.0f} {row['bare']:12,.0f} {row['ratio']:7.2f}", file=sys.stderr)
    json.dump(found, sys.stdout, indent=2)
    sys.exit(int(any(row["ratio"] < LEAST for row in found.values())))


if __name__ == "__main__":
    main()
