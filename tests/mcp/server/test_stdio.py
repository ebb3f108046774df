"""A program of ours as a server over real pipes: with the SDK's client, and with bytes of our own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, StdioServerParameters

from tests import prestarted
from tests.mcp.server.server_setup import ERAS, text

era = pytest.mark.parametrize("era", ERAS)
ROOT = Path(__file__).parents[3]
PROGRAM = ("-m", "tests.mcp.server.stdio_program")


@asynccontextmanager
async def client(era: str, folder: Path, **options: Any) -> AsyncIterator[Client]:
    python, *rest = prestarted.command()
    program = StdioServerParameters(command=python, args=[*rest, *PROGRAM, str(folder)], cwd=ROOT)
    async with Client(program, mode=era, cache=None, read_timeout_seconds=60, **options) as connected:
        yield connected


@era
@pytest.mark.requirement("converser.mcp-server")
async def test_a_server_over_pipes_answers_whatever_its_tools_do(era: str, tmp_path: Path) -> None:
    async with client(era, tmp_path) as served:
        assert len((await served.list_tools()).tools) == 11
        assert text(await served.call_tool("echo", {"text": "Grüße 👋"})) == "Grüße 👋"
        assert text(await served.call_tool("noisy", {})) == "quiet"
        assert text(await served.call_tool("curious", {})) == "read '' and b''"
        assert (await served.call_tool("leave", {})).is_error
        assert "\\ud800" in text(await served.call_tool("odd", {}))
        flood = text(await served.call_tool("flood", {}))
        assert len(flood) < 11_000 and "cut:" in flood
        listed = (await served.list_resources()).resources[0]
        assert (listed.name, listed.description) == ("\\udcff", "\\ud800")
        read = (await served.read_resource("odd://1")).contents[0]
        assert isinstance(read, types.TextResourceContents) and read.text == "\\ud800 text"
        assert text(await served.call_tool("echo", {"text": "still here"})) == "still here"
    assert (tmp_path / "finished").read_text() == "1", "the run was ended in the record"


@era
async def test_a_side_effect_is_confirmed_over_pipes(era: str, tmp_path: Path) -> None:
    answers = iter(("accept", "decline"))

    async def person(context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult.model_validate({"action": next(answers)})

    async with client(era, tmp_path, elicitation_callback=person) as served:
        assert text(await served.call_tool("put", {"thing": "pen"})) == "done"
        assert (await served.call_tool("put", {"thing": "cup"})).is_error
    assert (tmp_path / "pen").exists() and not (tmp_path / "cup").exists()


@era
async def test_a_call_that_is_given_up_is_cancelled_over_pipes(era: str, tmp_path: Path) -> None:
    async with client(era, tmp_path) as served:
        began = asyncio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            began.set()

        calling = asyncio.create_task(served.call_tool("wait", {}, progress_callback=hear))
        await asyncio.wait_for(began.wait(), 30)
        calling.cancel()
        await asyncio.wait({calling})
        assert text(await served.call_tool("ended", {})) == "ended"


@era
async def test_a_message_of_some_megabytes_gets_through(era: str, tmp_path: Path) -> None:
    async with client(era, tmp_path) as served:
        result = await served.call_tool("echo", {"text": "x" * 5_000_000})
    assert not result.is_error and "cut:" in text(result)


# ── bytes of our own ─────────────────────────────────────────────────────────────────

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bytes", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Pipes:
    """The program, and both ends of its pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def send(self, *messages: dict[str, Any] | bytes) -> None:
        assert self.process.stdin is not None
        for each in messages:
            self.process.stdin.write((each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n")
        await self.process.stdin.drain()

    async def line(self) -> bytes:
        assert self.process.stdout is not None
        return await asyncio.wait_for(self.process.stdout.readline(), 30)

    async def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self.line())
        return answer

    async def greet(self) -> None:
        await self.send(HELLO, READY)
        assert (await self.answer())["result"]["protocolVersion"] == "2025-11-25"

    async def code(self) -> int:
        return await asyncio.wait_for(self.process.wait(), 30)


@asynccontextmanager
async def pipes(folder: Path, *options: str) -> AsyncIterator[Pipes]:
    process = await asyncio.create_subprocess_exec(
        *prestarted.command(),
        *PROGRAM,
        str(folder),
        *options,
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Pipes(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def calls(id: int, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": id}}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


async def test_nothing_but_the_protocol_is_on_standard_output(tmp_path: Path) -> None:
    async with pipes(tmp_path, "speak") as program:
        await program.greet()
        await program.send(calls(2, "noisy"))
        assert (await program.answer())["id"] == 2
        assert program.process.stdin is not None and program.process.stderr is not None
        program.process.stdin.close()
        assert await program.line() == b"after\n", "then it is the program's own again"
        assert await program.code() == 0
        said = await program.process.stderr.read()
    for words in (b"print", b"descriptor", b"child"):
        assert words in said


async def test_the_end_of_input_ends_the_server_and_cancels_its_calls(tmp_path: Path) -> None:
    async with pipes(tmp_path) as program:
        await program.greet()
        await program.send(calls(2, "wait"))
        assert (await program.answer())["params"]["message"] == "waiting"
        assert program.process.stdin is not None
        program.process.stdin.close()
        assert await program.code() == 0
    assert (tmp_path / "ended").exists() and (tmp_path / "finished").exists()


async def test_sigterm_ends_the_server_in_order_while_input_is_open(tmp_path: Path) -> None:
    async with pipes(tmp_path) as program:
        await program.greet()
        await program.send(calls(2, "wait"))
        assert (await program.answer())["params"]["message"] == "waiting"
        program.process.send_signal(signal.SIGTERM)
        assert await program.code() == 0
    assert (tmp_path / "ended").exists() and (tmp_path / "finished").exists()


@pytest.mark.parametrize(("size", "count"), [(9_000, 200), (900, 1_000)])
def test_sigterm_ends_a_server_whose_client_does_not_read(tmp_path: Path, size: int, count: int) -> None:
    command = (sys.executable, *PROGRAM, str(tmp_path))
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        many = [calls(number, "echo", text="x" * size) for number in range(2, count)]
        for message in (HELLO, READY, *many):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    assert (tmp_path / "finished").exists()


@pytest.mark.parametrize(
    ("sent", "id", "code"),
    [
        (b"this is no JSON", None, -32700),
        (b'{"jsonrpc": "2.0", "id": 7, "method": 5}', 7, -32600),
        (b'{"jsonrpc": "2.0", "id": 8, "method": "x", "params": {"y": "\\ud800"}}', 8, -32600),
        (b"[" * 100_000, None, -32700),
        (b"\xff\xfe", None, -32700),
    ],
)
async def test_what_is_no_message_is_answered_and_the_next_is_read(
    tmp_path: Path, sent: bytes, id: int | None, code: int
) -> None:
    async with pipes(tmp_path) as program:
        await program.greet()
        await program.send(sent, b"", calls(2, "echo", text="on"))
        refused = await program.answer()
        assert (refused["id"], refused["error"]["code"]) == (id, code)
        assert (await program.answer())["result"]["content"][0]["text"] == "on"


async def test_a_server_without_a_client_ends_by_itself(tmp_path: Path) -> None:
    async with pipes(tmp_path) as program:
        assert program.process.stdin is not None
        program.process.stdin.close()
        assert await program.code() == 0
