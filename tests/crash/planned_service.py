"""A model on this machine that speaks OpenAI's wire and follows a plan, for programs that are killed meanwhile.

What it says is a function of the messages that it gets: the calls of the first step
that is not done yet, and an answer when all are. So a run that was cut off, and is
taken up in another process, hears what it would have heard. It counts the pieces it
has sent for each folder (the first part of the path), and kills the program there when
it has sent as many as the folder's plan says.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from tests.wires.wire_dialogue import ScriptedReply, WireCall
from tests.wires.writers.chat import write

STEPS: tuple[tuple[tuple[str, dict[str, Any], str], ...], ...] = (
    # name, arguments, what the result says
    (("look", {"name": "ada"}, "ada is owed 5"), ("look", {"name": "bob"}, "bob is owed 7")),
    (("pay", {"to": "ada", "amount": 5}, "paid 5 to ada"), ("look", {"name": "eve"}, "eve is owed 9")),
    (
        ("pay", {"to": "bob", "amount": 7}, "paid 7 to bob"),
        ("note", {"text": "two are paid"}, "noted two are paid"),
        ("pay", {"to": "eve", "amount": 9}, "paid 9 to eve"),
    ),
)
ANSWER = "Ada, Bob and Eve are paid, and it is noted."


def reply(messages: list[dict[str, Any]]) -> ScriptedReply:
    """The calls of the plan that have no good result yet, one step at a time; then the answer."""
    asked: dict[str, tuple[str, str]] = {}
    done: set[tuple[str, str]] = set()
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call["function"]
            asked[call["id"]] = function["name"], _same(json.loads(function["arguments"]))
        if message["role"] == "tool" and _went_well(asked[message["tool_call_id"]], str(message["content"])):
            done.add(asked[message["tool_call_id"]])
    for number, step in enumerate(STEPS):
        missing = [(name, arguments) for name, arguments, _ in step if (name, _same(arguments)) not in done]
        if missing:
            calls = (WireCall(f"call_{number}_{len(asked) + at}", *each) for at, each in enumerate(missing))
            return ScriptedReply(f"Step {number + 1}.", tuple(calls))
    return ScriptedReply(ANSWER, ())


def _went_well(asked: tuple[str, str], content: str) -> bool:
    return any(
        (name, _same(arguments)) == asked and result in content for step in STEPS for name, arguments, result in step
    )


def _same(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True)


class PlannedService:
    """Answers on a port of its own; `serve` runs until the process ends."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._sent: Counter[str] = Counter()

    async def serve(self, announce: int) -> None:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        os.write(announce, f"{server.sockets[0].getsockname()[1]}\n".encode())
        os.close(announce)
        await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            folder, body = await _request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for event in [*write(reply(body["messages"]), True), "[DONE]"]:
                data = event if isinstance(event, str) else json.dumps(event)
                writer.write(f"data: {data}\n\n".encode())
                await writer.drain()
                await self._count(folder)
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # the program is dead, which is the point
        finally:
            writer.close()

    async def _count(self, folder: str) -> None:
        plan = json.loads((self._root / folder / "plan.json").read_text())
        self._sent[folder] += 1
        (self._root / folder / "served").write_text(str(self._sent[folder]))
        if plan.get("served") == self._sent[folder]:
            os.kill(int((self._root / folder / "pid").read_text()), signal.SIGKILL)
        await asyncio.sleep(0)


async def _request(reader: asyncio.StreamReader) -> tuple[str, dict[str, Any]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
    body: dict[str, Any] = json.loads(await reader.readexactly(int(headers["content-length"])))
    return head[0].split()[1].split("/")[1], body
