"""Servers that others wrote: found, called, killed in mid-call, and used again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handrail import Executor, Policy, ToolCall, ToolResult
from handrail.core.events import CallIntended, CallProgress, Event
from handrail.core.messages import Media, Text, UserMessage
from handrail.mcp import McpEnsemble, StdioEndpoint
from handrail.testing.journal import MemoryJournal
from tests.npm_packages import node, package
from tests.polling import until
from tests.processes import children, is_running, unread

WILLING = Policy(confirm_side_effects=False, timeout=60)
PROGRAMS = Path(sys.executable).parent
Arguments = dict[str, Any]


@dataclass(frozen=True)
class Real:
    """A server, something to read from it, and something to change."""

    endpoint: Callable[[Path], StdioEndpoint]
    protocol: str
    some: frozenset[str]
    read: tuple[str, Callable[[Path], Arguments]]
    says: str
    write: tuple[str, Callable[[Path], Arguments]] | None = None


def npm(name: str, *args: str, **env: str) -> StdioEndpoint:
    script = package(f"@modelcontextprotocol/server-{name}")
    return StdioEndpoint(command=str(node()), args=(str(script), *args), env=env)


def repository(folder: Path) -> StdioEndpoint:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", *who, "-C", str(folder), "commit", "-q", "--allow-empty", "-m", "A beginning"], check=True)
    return StdioEndpoint(command=str(PROGRAMS / "mcp-server-git"), args=("--repository", str(folder)))


SERVERS = {
    "everything": Real(
        lambda folder: npm("everything"),
        "2025-11-25",
        frozenset({"echo", "get-sum", "get-tiny-image"}),
        ("echo", lambda folder: {"message": "good morning"}),
        "good morning",
        ("toggle-simulated-logging", lambda folder: {}),
    ),
    "filesystem": Real(
        lambda folder: npm("filesystem", str(folder)),
        "2025-11-25",
        frozenset({"read_text_file", "write_file", "move_file"}),
        ("list_directory", lambda folder: {"path": str(folder)}),
        "here.txt",
        ("move_file", lambda folder: {"source": str(folder / "here.txt"), "destination": str(folder / "there.txt")}),
    ),
    "memory": Real(
        lambda folder: npm("memory", MEMORY_FILE_PATH=str(folder / "memory.jsonl")),
        "2025-11-25",
        frozenset({"create_entities", "read_graph"}),
        ("read_graph", lambda folder: {}),
        "entities",
        (
            "create_entities",
            lambda folder: {"entities": [{"name": "Ada", "entityType": "person", "observations": ["counts"]}]},
        ),
    ),
    "time": Real(
        lambda folder: StdioEndpoint(command=str(PROGRAMS / "mcp-server-time"), args=("--local-timezone", "UTC")),
        "2026-07-28",
        frozenset({"get_current_time", "convert_time"}),
        ("get_current_time", lambda folder: {"timezone": "Europe/Lisbon"}),
        "Europe/Lisbon",
    ),
    "git": Real(
        repository,
        "2026-07-28",
        frozenset({"git_status", "git_log", "git_commit"}),
        ("git_log", lambda folder: {"repo_path": str(folder)}),
        "A beginning",
        ("git_commit", lambda folder: {"repo_path": str(folder), "message": "More"}),
    ),
}


@asynccontextmanager
async def opened(name: str, folder: Path) -> AsyncIterator[tuple[McpEnsemble, Executor, MemoryJournal]]:
    journal = MemoryJournal()
    ensemble = McpEnsemble(name, SERVERS[name].endpoint(folder), required=True)
    await ensemble.prepare()
    try:
        async with Executor([ensemble], policy=WILLING, journal=journal) as executor:
            yield ensemble, executor, journal
    finally:
        await ensemble.close()


async def call(executor: Executor, name: str, **arguments: Any) -> ToolResult:
    return await executor.invoke(ToolCall("", name, arguments))


def started() -> set[int]:
    return set(filter(is_running, children()))


def _is_stopped(pid: int) -> bool:
    return all(
        thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in Path(f"/proc/{pid}/task").glob("*/stat")
    )


async def killed_in_mid_call(executor: Executor, journal: MemoryJournal, pid: int, call: ToolCall) -> ToolResult:
    """The result of a call that was sent to a process which never read it, and was killed then."""
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: _is_stopped(pid))  # the signal is on its way when `kill` returns
    idle = unread(pid)
    task = asyncio.create_task(executor.invoke(call))
    await until(lambda: any(isinstance(event, CallIntended) and event.call_id == call.id for event in journal.events))
    await until(lambda: unread(pid) > idle)
    os.kill(pid, signal.SIGKILL)
    return await task


@pytest.mark.requirement("converser.mcp-client")
@pytest.mark.parametrize("name", SERVERS)
async def test_a_real_server_is_found_called_killed_in_mid_call_and_used_again(name: str, tmp_path: Path) -> None:
    real = SERVERS[name]
    (tmp_path / "here.txt").write_text("here")
    before = started()
    async with opened(name, tmp_path) as (ensemble, executor, journal):
        (first,) = started() - before
        assert ensemble.connection.facts.protocol == real.protocol
        assert real.some <= set(ensemble.all_tools)
        assert ensemble.held == {}

        tool, arguments = real.read
        reading = await call(executor, f"{name}:{tool}", **arguments(tmp_path))
        assert reading.outcome == "ok" and real.says in reading.text, reading.text

        again = await killed_in_mid_call(executor, journal, first, ToolCall("read", tool, arguments(tmp_path)))
        assert again.outcome == "ok" and real.says in again.text, again.text

        if real.write is not None:
            (second,) = started() - before
            changing, what = real.write
            lost = await killed_in_mid_call(executor, journal, second, ToolCall("w", changing, what(tmp_path)))
            assert lost.outcome == "in_doubt", lost.text
            assert (await call(executor, tool, **arguments(tmp_path))).outcome == "ok"
    assert started() <= before, "no process is left"


@pytest.mark.requirement("converser.mcp-client")
@pytest.mark.requirement("converser.mcp-more")
async def test_everything_that_the_reference_server_has_can_be_used(tmp_path: Path) -> None:
    told: list[Event] = []

    async def emit(event: Event) -> None:
        told.append(event)

    async with opened("everything", tmp_path) as (ensemble, executor, _):
        weather = await call(executor, "get-structured-content", location="Chicago")
        picture = await call(executor, "get-tiny-image")
        linked = await call(executor, "get-resource-links", count=2)
        embedded = await call(executor, "get-resource-reference", resourceType="Blob", resourceId=1)
        long = ToolCall("long", "trigger-long-running-operation", {"duration": 0.4, "steps": 4})
        worked = await executor.invoke(long, emit=emit)
        wrong = await call(executor, "get-sum", a="one", b=2)

        resources = await ensemble.resources()
        page = await ensemble.read("demo://resource/static/document/features.md")
        bytes_ = await ensemble.read("demo://resource/dynamic/blob/1")
        prompts = {prompt.name: prompt for prompt in await ensemble.prompts()}
        filled = await ensemble.prompt("args-prompt", {"city": "Lisbon"})
        with_resource = await ensemble.prompt("resource-prompt", {"resourceType": "Text", "resourceId": "1"})

    assert isinstance(weather.content, dict) and "temperature" in weather.content
    assert [each.media_type for each in picture.attachments] == ["image/png"]
    assert picture.attachments[0].data.startswith(b"\x89PNG")
    assert linked.text.count("[resource demo://resource/dynamic/") == 2
    assert [each.name for each in embedded.attachments] == ["demo://resource/dynamic/blob/1"]
    assert worked.outcome == "ok"
    progress = [event for event in told if isinstance(event, CallProgress)]
    assert [(each.current, each.total) for each in progress] == [(n, 4) for n in (1, 2, 3, 4)]
    assert wrong.outcome == "invalid_arguments"

    assert {each.template for each in resources} == {True, False}
    assert page[0].text and page[0].media_type == "text/markdown"
    assert bytes_[0].data is not None
    assert prompts["args-prompt"].arguments[0] == ("city", "Name of the city", True)
    assert isinstance(filled[0], UserMessage) and "Lisbon" in filled[0].text
    assert all(isinstance(message, UserMessage) for message in with_resource)
    assert {type(part) for message in with_resource for part in getattr(message, "content", ())} <= {Text, Media}


async def test_a_long_call_of_the_reference_server_is_killed_while_it_reports(tmp_path: Path) -> None:
    before = started()
    async with opened("everything", tmp_path) as (_, executor, _journal):
        (pid,) = children() - before
        reported = asyncio.Event()

        async def emit(event: Event) -> None:
            if isinstance(event, CallProgress):
                reported.set()

        long = ToolCall("long", "trigger-long-running-operation", {"duration": 1, "steps": 5})
        task = asyncio.create_task(executor.invoke(long, emit=emit))
        await reported.wait()
        os.kill(pid, signal.SIGKILL)
        assert (await task).outcome == "ok", "it only reads, so it was asked again"
