"""Programs that we start end with whoever asked for them, on every system."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

from handrail.core.child_process import ask_program, kill_and_reap

HANGS = (sys.executable, "-c", "import os; os.read(os.pipe()[0], 1)")
"""It waits for ever for what nobody writes."""


@pytest.fixture(params=["groups", "no groups"])
def groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no groups of processes."""
    if request.param == "no groups":
        monkeypatch.delattr(os, "killpg")


class StartedProgram:
    """The program that asyncio was told to start last."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.pid = 0


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> StartedProgram:
    found = StartedProgram()
    start = asyncio.create_subprocess_exec

    async def remembered(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await start(*command, **options)
        found.pid = process.pid
        found.begun.set()
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", remembered)
    return found


def assert_gone(pid: int) -> None:
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.usefixtures("groups")
def test_a_program_is_ended_and_leaves_no_zombie() -> None:
    process = subprocess.Popen(HANGS, start_new_session=True)

    kill_and_reap(process)

    assert_gone(process.pid)


@pytest.mark.usefixtures("groups")
async def test_a_program_that_takes_too_long_is_ended(started: StartedProgram) -> None:
    with pytest.raises(TimeoutError):
        await ask_program(HANGS, b"", 0.05)

    assert_gone(started.pid)


@pytest.mark.usefixtures("groups")
async def test_a_program_that_nobody_waits_for_is_ended(started: StartedProgram) -> None:
    asking = asyncio.create_task(ask_program(HANGS, b"", 60))
    await started.begun.wait()

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert_gone(started.pid)


async def test_a_program_that_is_asked_gets_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    shown = (sys.executable, "-c", "import os; print(sorted(os.environ))")

    _, output = await ask_program(shown, b"", 60.0)

    assert b"PATH" in output and b"OPENAI_API_KEY" not in output
