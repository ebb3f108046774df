"""The worker processes of Monty: what they inherit, what they may do, and when they end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from handrail.core.errors import MissingExtra, SandboxUnavailable
from handrail.sandbox.monty import MontySandbox
from handrail.sandbox.monty.worker import MontyWorker
from handrail.sandbox.port import ReplLimits
from tests.polling import blocking_until
from tests.processes import children, is_running

PATIENCE = 30.0
WHAT = "the sandbox 'monty'"
HOST = """
import asyncio, sys
from handrail.sandbox.monty import MontySandbox
from handrail.sandbox.port import ReplLimits

async def started(name, value):
    print("running", flush=True)

async def main():
    async with MontySandbox(ReplLimits(cell_seconds=0.5), grace=0.1) as sandbox:
        await sandbox.repl()
        repl = await sandbox.repl()
        await repl.run(sys.argv[1], started)

asyncio.run(main())
"""


def workers(of: int | None = None) -> set[int]:
    """The processes that a process has started and that still run."""
    return set(filter(is_running, children(of)))


def gone(pids: set[int]) -> bool:
    return blocking_until(lambda: not any(map(is_running, pids)), seconds=PATIENCE)


async def test_a_worker_inherits_no_environment_and_may_open_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDRAIL_CANARY", "secret")
    before = workers()
    async with MontySandbox(ReplLimits(memory_bytes=64 * 2**20)) as sandbox:
        repl = await sandbox.repl()
        (pid,) = {pid for pid in workers() - before if "Max open files 0" in _limits(pid)}
        await repl.run("x = 1")

        assert _environment(pid) == b""
        limits = _limits(pid)
        for held in ("Max file size 0", "Max core file size 0", f"Max address space {64 * 2**20 * 4 + 2**30}"):
            assert held in limits
        assert "Max cpu time unlimited" not in limits


def _environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def _limits(pid: int) -> str:
    return " ".join(Path(f"/proc/{pid}/limits").read_text().split())


async def test_no_worker_is_left_when_the_sandbox_is_closed() -> None:
    before = workers()
    async with MontySandbox() as sandbox:
        repls = [await sandbox.repl() for _ in range(3)]
        await repls[0].aclose()
        mine = workers() - before
        assert len(mine) >= 2

    assert gone(mine)


async def test_each_interpreter_has_a_worker_that_served_nobody_before() -> None:
    async with MontySandbox() as sandbox:
        first = await sandbox.repl()
        await first.run("x = 1")
        before = workers()
        await first.restart()

        assert workers() - before
        assert "NameError" in (await first.run("x")).error


async def test_a_worker_that_is_killed_under_a_cell_is_lost_and_what_was_kept_aside_is_back() -> None:
    before = workers()
    async with MontySandbox() as sandbox:
        repl = await sandbox.repl()

        async def kill(name: str, value: Any) -> None:
            for pid in workers() - before:
                os.kill(pid, signal.SIGKILL)

        await repl.run("x = 1")
        cell = await repl.run("x = 2\n_host('kill')\nprint('on')", kill)
        after = await repl.run("print(x)")

    assert (cell.ending, cell.state, after.stdout) == ("lost", "kept", "1\n")


async def test_a_worker_that_is_killed_between_cells_is_said_to_be_lost_before_anything_runs() -> None:
    before = workers()
    async with MontySandbox() as sandbox:
        repl = await sandbox.repl()
        await repl.run("x = 1")
        for pid in workers() - before:
            os.kill(pid, signal.SIGKILL)
        cell = await repl.run("print('ran')")
        after = await repl.run("print('on')\nx")

    assert (cell.ending, cell.state, cell.stdout, cell.names) == ("lost", "gone", "", {})
    assert after.stdout == "on\n" and "NameError" in after.error


async def test_closing_a_sandbox_ends_a_cell_that_runs() -> None:
    sandbox = MontySandbox()
    repl = await sandbox.repl()
    begun = asyncio.Event()

    async def begin(name: str, value: Any) -> None:
        begun.set()

    running = asyncio.create_task(repl.run("_host('begun')\nwhile True: pass", begin))
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
        await sandbox.aclose()
        cell = await running

    assert (cell.ending, cell.state) == ("lost", "gone")


@pytest.mark.parametrize(
    "code",
    [
        "_host('x')\nwhile True: pass",
        "_host('x')\nx = pow(3, 3 * 10**7)",
        "_host('x')\n_host('x', 1)\nimport time\ntime.sleep(0.4)",
    ],
    ids=["loop", "arithmetic", "sleep"],
)
def test_workers_end_with_a_host_that_is_killed(code: str) -> None:
    with subprocess.Popen([sys.executable, "-c", HOST, code], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "running\n"
        mine = workers(host.pid)
        host.kill()

    assert len(mine) >= 2
    assert gone(mine)


def test_a_program_that_used_it_ends_as_programs_do() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOST, "import nothing"], capture_output=True, text=True, timeout=PATIENCE
    )

    assert (done.returncode, done.stderr) == (0, "")


FORGETFUL = """
import asyncio
from handrail.sandbox.monty import MontySandbox

async def main():
    global sandbox, running
    sandbox = MontySandbox()
    repl = await sandbox.repl()
    begun = asyncio.Event()
    async def begin(name, value): begun.set()
    running = asyncio.create_task(repl.run("_host('x')\\nwhile True: print('a')", begin))
    await begun.wait()
    raise SystemExit(3)

asyncio.run(main())
"""


def test_a_program_that_forgets_to_close_it_ends_as_it_wants_to() -> None:
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", FORGETFUL], capture_output=True, text=True, timeout=PATIENCE)
        assert (done.returncode, done.stderr) == (3, "")


def test_a_sandbox_that_is_not_installed_is_said_and_not_replaced() -> None:
    code = """
import sys
sys.modules["pydantic_monty"] = None
from handrail.sandbox.port import create_sandbox
try:
    create_sandbox("monty")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)

    assert done.stdout == f"MissingExtra {MissingExtra(WHAT, 'rlm')}\n"


async def test_a_program_without_the_binary_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MONTY_BIN", "/nonexistent/monty")

    with pytest.raises(SandboxUnavailable, match="\\[rlm\\]"):
        await MontySandbox().repl()


def test_importing_the_package_does_not_load_monty() -> None:
    code = "import sys, handrail, handrail.sandbox.monty as it; print('pydantic_monty' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)

    assert done.stdout == "False\n"


MAPPED = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    pages = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
print(sum(pages[::4096]), flush=True)
sys.stdin.read()
"""


def test_how_much_of_its_program_is_in_memory_is_no_matter_of_its_variables(tmp_path: Path) -> None:
    """That differs from one machine to the next, and with it differed whether variables were kept aside."""
    large = tmp_path / "large"
    large.write_bytes(bytes(64 * 2**20))
    command = [sys.executable, "-I", "-S", "-c", MAPPED, str(large)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        worker = MontyWorker(process.pid, 2**30)
        memory = worker.memory()
        worker.kill()

    assert memory is not None
    assert 2**20 < memory < 32 * 2**20
