"""Programs as servers: how their lines are cut, what they are given, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import McpError, ServerLost
from handrail.mcp.client.connection import McpConnection
from handrail.mcp.client.line_cutter import EndlessLine, McpLineCutter, OverlongLine, answered_id, is_request_or_notice
from handrail.mcp.client.wire import UnreadableLine, read_message
from handrail.mcp.values import McpBounds, McpLinkTerms, StdioEndpoint
from tests.mcp.client.connections import ERAS, PATIENCE, QUICK, call, connected, gone, raw
from tests.polling import until
from tests.processes import kept_waiting

# ── lines ────────────────────────────────────────────────────────────────────────────


def _cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(each % (len(data) + 1) for each in at), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b""))), st.lists(st.integers(0, 10_000)))
def test_lines_are_the_same_however_the_bytes_arrive(lines: list[bytes], at: list[int]) -> None:
    reader = McpLineCutter(40)
    found = [line for piece in _cut(b"".join(line + b"\n" for line in lines), at) for line in reader.feed(piece)]
    assert found == lines


@given(st.integers(11, 100), st.lists(st.integers(0, 200)))
def test_a_line_that_is_too_long_is_passed_over_and_the_next_is_read(size: int, at: list[int]) -> None:
    reader = McpLineCutter(10)
    data = b"x" * size + b"\n" + b"next\n"
    found = [line for piece in _cut(data, at) for line in reader.feed(piece)]
    assert isinstance(found[0], OverlongLine)
    assert found[1:] == [b"next"]


def test_a_line_without_an_end_is_given_up() -> None:
    reader = McpLineCutter(100)
    with pytest.raises(EndlessLine):
        for _ in range(100):
            assert list(reader.feed(b"x" * 100)) == []


_IDS = st.integers(0, 2**53) | st.text(max_size=20)


@given(_IDS, st.booleans(), st.booleans())
def test_the_request_that_a_long_line_answers_is_found_at_either_end(id: int | str, first: bool, compact: bool) -> None:
    result = {"result": {"content": [{"id": 99, "text": "x" * 5000, "method": "m"}], "more": {"id": 98}}}
    head = {"jsonrpc": "2.0", "id": id, **result}
    tail = {**result, "jsonrpc": "2.0", "id": id}
    text = json.dumps(head if first else tail, separators=(",", ":") if compact else None).encode()
    line = OverlongLine(text[:4096], text[-1024:])
    assert answered_id(line) == id
    assert not is_request_or_notice(line)


@given(st.integers())
def test_a_long_request_of_the_server_is_not_taken_for_an_answer(id: int) -> None:
    for message in ({"method": "m", "id": id, "params": {}}, {"jsonrpc": "2.0", "id": id, "method": "m"}):
        text = json.dumps({**message, "more": "x" * 5000}).encode()
        assert is_request_or_notice(OverlongLine(text[:4096], text[-1024:]))
        assert answered_id(OverlongLine(text[:4096], text[-1024:])) is None


@given(st.binary(max_size=200))
def test_any_line_is_a_message_or_unreadable(line: bytes) -> None:
    try:
        read_message(line)
    except UnreadableLine:
        return


@given(st.integers(0, 1000), st.text(max_size=50), st.binary(min_size=1, max_size=3))
def test_a_line_that_is_damaged_after_its_id_still_answers(id: int, text: str, damage: bytes) -> None:
    whole = json.dumps({"jsonrpc": "2.0", "id": id, "result": {"text": text}}).encode()
    at = whole.index(b'"result"')
    message = read_message(whole[:at] + damage.replace(b"\n", b"") + whole[at:])
    assert message is None or getattr(message, "id", None) == id


# ── what a program is given ──────────────────────────────────────────────────────────


async def test_a_program_gets_the_variables_it_was_given_and_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("TERM", "() { :; }; echo")
    async with connected(raw("modern", env={"GIVEN": "yes"})) as connection:
        found = json.loads(await call(connection, "environment"))
    assert found["GIVEN"] == "yes"
    assert "PATH" in found
    assert not {"OPENAI_API_KEY", "TERM", "PYTEST_CURRENT_TEST"} & found.keys()


async def test_there_is_no_shell() -> None:
    with pytest.raises(McpError, match="could not be started"):
        async with connected(StdioEndpoint(command="echo hello; true")):
            raise NotImplementedError


async def test_what_a_program_says_on_its_standard_error_is_kept_up_to_a_bound() -> None:
    script = "import sys; sys.stderr.write('x' * 100_000 + 'the reason'); sys.exit(1)"
    connection = McpConnection(
        "srv", StdioEndpoint(command=sys.executable, args=("-c", script)), McpLinkTerms(bounds=McpBounds(stderr=100))
    )
    try:
        with pytest.raises(McpError, match="the reason"):
            await connection.open()
        assert len(connection.diagnosis) < 400
        assert "exit code 1" in connection.diagnosis
    finally:
        await connection.aclose()


# ── how it ends ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("era", ERAS)
async def test_nothing_of_a_program_is_left_when_it_is_closed(era: str) -> None:
    async with connected(raw(era)) as connection:
        pid, child = int(await call(connection, "pid")), int(await call(connection, "fork"))
    assert gone(pid)
    await until(lambda: gone(child) or _is_zombie(child))  # its parent is gone: somebody else buries it


async def test_a_program_that_ignores_everything_is_killed() -> None:
    async with connected(raw("legacy")) as connection:
        pid = int(await call(connection, "pid"))
        with pytest.raises(ServerLost):
            await call(connection, "hush", ignore=True)
    assert gone(pid)


async def test_nothing_is_left_when_the_task_that_owns_it_is_cancelled() -> None:
    pid = 0

    async def owner() -> None:
        nonlocal pid
        connection = McpConnection("srv", raw("modern"), McpLinkTerms(bounds=QUICK))
        await connection.open()
        pid = int(await call(connection, "pid"))

    # As a program that forgets to close: everything that is left is cancelled at the end.
    await asyncio.to_thread(asyncio.run, owner())
    assert pid and gone(pid)


@pytest.mark.parametrize("turns", [1, 2, 5, 50])
async def test_closing_while_it_starts_leaves_nothing(turns: int) -> None:
    connection = McpConnection("srv", raw("modern", "mute"), McpLinkTerms(bounds=QUICK))
    opening = asyncio.create_task(connection.open())
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        await connection.aclose()
        with pytest.raises(McpError):
            await opening
    assert connection.state == "closed"
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_who_gives_up_a_program_that_never_reads_is_not_kept_waiting() -> None:
    async with connected(raw("legacy")) as connection:
        deaf = asyncio.create_task(call(connection, "deaf"))
        full = [asyncio.create_task(call(connection, "echo", text="x" * 1_000_000)) for _ in range(3)]
        await asyncio.sleep(0.05)
        before = time.monotonic() - kept_waiting()
        for task in (deaf, *full):
            task.cancel()
        await asyncio.gather(deaf, *full, return_exceptions=True)
        assert time.monotonic() - kept_waiting() - before < 3, "the SDK waits 5 s for each"


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return not Path("/proc").is_dir() and os.name == "posix"


def test_a_message_keeps_its_shape() -> None:
    found: Any = read_message(b'{"jsonrpc":"2.0","method":"m"}')
    assert found.model_dump(exclude_unset=True) == {"jsonrpc": "2.0", "method": "m"}
