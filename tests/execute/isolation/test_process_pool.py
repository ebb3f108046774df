"""Tools in worker processes: real processes, killed in every way we know."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.errors import InvalidDefinition, TimedOut, ToolError, UsageError
from handrail.core.invocation import Invocation, Report
from handrail.execute.isolation.handler_target import target_of
from handrail.execute.isolation.process_pool import ProcessPool
from handrail.execute.isolation.sandbox_pool import SandboxPool
from handrail.execute.isolation.worker_limits import ProcessLimits
from handrail.tools.tool import Tool, tool
from tests.execute.isolation import light_tools, process_tools as tools
from tests.processes import children

ROOT = Path(__file__).parents[3]


@pytest.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    async with ProcessPool() as pool:
        yield pool


async def call(
    pool: ProcessPool | SandboxPool,
    tool: Tool,
    arguments: dict[str, Any] | None = None,
    *,
    timeout: float | None = 30,
    context: Context = Context(),
    report: Report | None = None,
) -> Any:
    arguments = arguments or {}
    invocation = Invocation(ToolCall("call-1", tool.name, arguments), arguments, context, "key-1", report=report)
    return (await pool.run(tool, invocation, arguments, timeout)).output


class Pipe:
    """A named pipe on which a tool says that it is running, and in which process."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    async def pids(self) -> tuple[int, int]:
        """The process of the tool and the one above it."""
        await readable(self._fd)
        pid, parent = os.read(self._fd, 100).split()
        return int(pid), int(parent)

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture
async def pipe(tmp_path: Path) -> AsyncIterator[Pipe]:
    pipe = Pipe(tmp_path / "pipe")
    yield pipe
    pipe.close()


async def readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    loop.add_reader(fd, event.set)
    try:
        async with asyncio.timeout(30):
            await event.wait()
    finally:
        loop.remove_reader(fd)


class Watched:
    """A process, held by a pidfd so that its number cannot pass to another."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    @property
    def has_ended(self) -> bool:
        return bool(select.select([self._fd], [], [], 0)[0])

    async def end(self) -> None:
        await readable(self._fd)


async def ended(pid: int) -> None:
    try:
        with Watched(pid) as process:
            await process.end()
    except ProcessLookupError:
        return  # it has ended and was reaped


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def open_files() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


# What comes out beside the answer; the rest of what crosses is in `test_pools`.


async def test_what_a_tool_prints_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    async with ProcessPool() as pool:
        assert await call(pool, tools.speak) == "spoken"
    out, err = capfd.readouterr()
    assert out == ""
    assert "to stdout from the tool" in err
    assert "straight to fd 1" in err


async def test_an_output_over_the_limit_is_refused_with_both_sizes() -> None:
    async with ProcessPool(ProcessLimits(frame_bytes=20_000)) as pool:
        assert await call(pool, tools.long_text, {"length": 10_000}) == "x" * 10_000
        with pytest.raises(ToolError, match="at most 20000") as caught:
            await call(pool, tools.long_text, {"length": 30_000})
        assert caught.value.code == "invalid_output"
        with pytest.raises(ToolError, match="at most 20000") as caught:
            await call(pool, tools.echo, {"text": "x" * 30_000})
        assert caught.value.code == "cannot_cross"


# Warm workers.


async def test_a_warm_worker_is_used_again_and_imports_once(pool: ProcessPool) -> None:
    first = await call(pool, tools.whereabouts)
    second = await call(pool, tools.whereabouts)
    assert second == {**first, "calls": 2}
    assert first["imported_in"] == first["pid"]


async def test_a_worker_follows_the_working_directory_of_the_host(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await pool.warm()
    monkeypatch.chdir(tmp_path)
    assert (await call(pool, tools.whereabouts))["cwd"] == str(tmp_path)


async def test_only_so_many_workers_are_kept_idle() -> None:
    async with ProcessPool(idle=1) as pool:
        barrier = [asyncio.create_task(call(pool, tools.whereabouts)) for _ in range(4)]
        pids = {(await task)["pid"] for task in barrier}
        kept = (await call(pool, tools.whereabouts))["pid"]
        assert kept in pids
        for pid in pids - {kept}:
            await ended(pid)


# Workers that end by themselves.


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        (tools.leave, {"code": 3}, "exit code 3"),
        (tools.leave, {"code": 0}, "exit code 0"),
        (tools.segfault, {}, "SIGSEGV"),
        (tools.die_by, {"number": 9}, "SIGKILL"),
        (tools.close_everything, {}, "exit code 70"),
        (tools.write_garbage, {"text": "no frame at all"}, "unreadable"),
        (tools.write_garbage, {"text": "\0\0\0\2no"}, "unreadable"),
    ],
)
async def test_a_lost_worker_is_an_answer_with_the_reason_and_others_are_unharmed(
    pool: ProcessPool, pipe: Pipe, tool: Tool, arguments: dict[str, Any], words: str
) -> None:
    other = asyncio.create_task(call(pool, tools.wait_for_ever, {"path": pipe.path}))
    other_pid, _ = await pipe.pids()
    with pytest.raises(ToolError, match=words) as caught:
        await call(pool, tool, arguments)
    assert caught.value.code == "worker_lost"
    assert "may have taken effect" in caught.value.message
    assert await call(pool, tools.add, {"a": 1}) == 2
    assert not other.done()
    with Watched(other_pid) as neighbour:
        assert not neighbour.has_ended
        other.cancel()
        await asyncio.wait({other})
        assert neighbour.has_ended


async def test_an_idle_worker_that_was_killed_is_not_given_a_call(pool: ProcessPool) -> None:
    pid = (await call(pool, tools.whereabouts))["pid"]
    with Watched(pid) as worker:
        os.kill(pid, signal.SIGKILL)
        select.select([worker._fd], [], [], 30)  # the loop must not learn of it first
        assert (await call(pool, tools.whereabouts))["pid"] != pid


async def test_a_tool_that_forks_is_answered_once(pool: ProcessPool) -> None:
    assert await call(pool, tools.fork_and_return) == "one of two"
    assert await call(pool, tools.add, {"a": 1}) == 2


async def test_memory_over_the_limit_is_refused_and_named() -> None:
    async with ProcessPool(ProcessLimits(memory_bytes=200 * 2**20)) as pool:
        assert await call(pool, tools.allocate, {"mebibytes": 50}) == 50 * 2**20
        with pytest.raises(ToolError, match="limit of 200 MiB of memory") as caught:
            await call(pool, tools.allocate, {"mebibytes": 400})
        assert caught.value.code == "worker_lost"
        assert await call(pool, tools.add, {"a": 1}) == 2


@pytest.mark.slow
async def test_processor_time_over_the_limit_ends_the_worker_and_is_counted_per_call() -> None:
    async with ProcessPool(ProcessLimits(cpu_seconds=1)) as pool:
        first = await call(pool, tools.whereabouts)
        for _ in range(2):
            assert await call(pool, tools.burn, {"seconds": 0.7}) == "burnt"
        assert (await call(pool, tools.whereabouts))["pid"] == first["pid"]
        with pytest.raises(ToolError, match="limit of 1 s of processor time") as caught:
            await call(pool, tools.burn)
        assert caught.value.code == "worker_lost"


# Timeouts and cancellation.


@pytest.mark.requirement("abstractllm.timeout")
@pytest.mark.parametrize("tool", [tools.wait_for_ever, tools.hold_the_interpreter, tools.ignore_sigterm])
async def test_a_tool_over_its_timeout_is_answered_and_gone(pool: ProcessPool, pipe: Pipe, tool: Tool) -> None:
    await call(pool, tools.whereabouts)
    running = asyncio.create_task(call(pool, tool, {"path": pipe.path}, timeout=1))
    pid, _ = await pipe.pids()
    with Watched(pid) as worker:
        with pytest.raises(TimedOut, match=r"longer than 1 s and was stopped; what it had done") as caught:
            await running
        assert worker.has_ended
    assert caught.value.outcome == "timeout"
    assert await call(pool, tools.add, {"a": 1}) == 2


@pytest.mark.requirement("abstractllm.timeout")
async def test_what_a_timed_out_tool_has_started_ends_with_it(pool: ProcessPool, pipe: Pipe) -> None:
    await call(pool, tools.whereabouts)
    running = asyncio.create_task(call(pool, tools.with_grandchild, {"path": pipe.path}, timeout=3))
    grandchild, child = await pipe.pids()
    with Watched(grandchild) as below, Watched(child) as worker:
        with pytest.raises(TimedOut):
            await running
        assert worker.has_ended
        await below.end()


async def test_what_a_tool_left_behind_ends_with_its_worker(pool: ProcessPool, pipe: Pipe) -> None:
    running = asyncio.create_task(call(pool, tools.with_grandchild, {"path": pipe.path}))
    grandchild, child = await pipe.pids()
    with Watched(grandchild) as below:
        os.kill(child, signal.SIGKILL)
        with pytest.raises(ToolError, match="SIGKILL"):
            await running
        await below.end()


async def test_a_timeout_before_there_is_a_worker_says_that_nothing_ran(pool: ProcessPool) -> None:
    with pytest.raises(TimedOut, match="did not start"):
        await call(pool, tools.add, {"a": 1}, timeout=0)


@pytest.mark.parametrize("tool", [tools.clean_up_when_stopped, tools.clean_up_later])
async def test_a_stopped_tool_gets_to_clean_up(pipe: Pipe, tmp_path: Path, tool: Tool) -> None:
    trace = tmp_path / "trace"
    async with ProcessPool(ProcessLimits(grace_seconds=30)) as pool:
        running = asyncio.create_task(call(pool, tool, {"path": pipe.path, "trace": str(trace)}))
        await pipe.pids()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert trace.read_text() == "cleaned up"


@pytest.mark.parametrize("tool", [tools.wait_for_ever, tools.hold_the_interpreter])
async def test_cancelling_the_caller_ends_the_work(pool: ProcessPool, pipe: Pipe, tool: Tool) -> None:
    running = asyncio.create_task(call(pool, tool, {"path": pipe.path}))
    pid, _ = await pipe.pids()
    with Watched(pid) as worker:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert worker.has_ended


async def test_a_caller_cancelled_twice_need_not_wait_and_the_work_still_ends(pipe: Pipe) -> None:
    async with ProcessPool(ProcessLimits(grace_seconds=0.2)) as pool:
        running = asyncio.create_task(call(pool, tools.ignore_sigterm, {"path": pipe.path}))
        pid, _ = await pipe.pids()
        with Watched(pid) as worker:
            running.cancel()
            asyncio.get_running_loop().call_soon(running.cancel)
            with pytest.raises(asyncio.CancelledError):
                await running
            await worker.end()


@pytest.mark.slow
@pytest.mark.requirement("abstractllm.timeout")
async def test_a_thousand_timed_out_calls_leave_nothing_behind() -> None:
    before = open_files(), set(threading.enumerate())
    wait = Tool.from_function(light_tools.wait_for_ever, schema={"type": "object"})
    reached: list[str] = []

    async def time_out(pool: ProcessPool, times: int) -> None:
        for _ in range(times):
            with pytest.raises(TimedOut):
                await call(pool, wait, timeout=0.02, report=lambda current, total, stage: reached.append(stage))

    async with ProcessPool() as pool:
        await pool.warm()
        parent = (await call(pool, tools.whereabouts))["parent"]
        files, threads = len(open_files()), set(threading.enumerate())
        await asyncio.gather(*(time_out(pool, 250) for _ in range(4)))
        workers = children(parent)
        # Each of the four callers may have a worker on its way in and one on its way out.
        assert len(workers) <= 2 + 8
        assert len(open_files()) <= files + 8
        assert set(threading.enumerate()) <= threads
    assert reached
    assert not any(exists(pid) for pid in (parent, *workers))
    assert open_files() <= before[0] and set(threading.enumerate()) <= before[1]


# The pool's own life.


async def test_closing_ends_every_process_and_answers_every_call(pipe: Pipe) -> None:
    before = open_files(), set(threading.enumerate()), asyncio.all_tasks()
    pool = ProcessPool()
    running = asyncio.create_task(call(pool, tools.hold_the_interpreter, {"path": pipe.path}))
    pid, parent = await pipe.pids()
    with Watched(pid) as worker, Watched(parent) as zygote:
        await pool.aclose()
        assert worker.has_ended
        assert zygote.has_ended
    with pytest.raises(ToolError, match="the pool was closed"):
        await running
    assert open_files() <= before[0] and set(threading.enumerate()) <= before[1] and asyncio.all_tasks() <= before[2]
    with pytest.raises(UsageError, match="closed"):
        await call(pool, tools.add, {"a": 1})
    await pool.aclose()


async def test_the_pool_survives_the_death_of_its_fork_server(pool: ProcessPool, pipe: Pipe) -> None:
    running = asyncio.create_task(call(pool, tools.hold_the_interpreter, {"path": pipe.path}))
    pid, parent = await pipe.pids()
    with Watched(pid) as worker:
        os.kill(parent, signal.SIGKILL)
        with pytest.raises(ToolError, match="forked from is gone") as caught:
            await running
        assert caught.value.code == "worker_lost"
        await worker.end()
    after = await call(pool, tools.whereabouts)
    assert after["parent"] != parent


async def test_a_call_that_meets_the_fork_server_dying_is_run_by_the_next(pool: ProcessPool, pipe: Pipe) -> None:
    parent = (await call(pool, tools.whereabouts))["parent"]
    busy = asyncio.create_task(call(pool, tools.wait_for_ever, {"path": pipe.path}))
    await pipe.pids()
    os.kill(parent, signal.SIGKILL)
    assert (await call(pool, tools.whereabouts))["parent"] != parent
    with pytest.raises(ToolError):
        await busy


def test_a_pool_belongs_to_the_loop_that_first_used_it() -> None:
    pool = ProcessPool()
    with asyncio.Runner() as first, asyncio.Runner() as second:
        assert first.run(call(pool, tools.add, {"a": 1})) == 2
        with pytest.raises(UsageError, match="another event loop"):
            second.run(call(pool, tools.add, {"a": 1}))
        first.run(pool.aclose())


async def test_a_pool_that_was_never_used_starts_nothing_and_closes() -> None:
    before = open_files()
    async with ProcessPool():
        assert open_files() <= before


@pytest.fixture
def start_host(pipe: Pipe, tmp_path: Path) -> Iterator[Callable[[Tool], subprocess.Popen[bytes]]]:
    """Starts another program that runs one tool in a pool of its own."""
    hosts: list[subprocess.Popen[bytes]] = []

    def start(tool: Tool) -> subprocess.Popen[bytes]:
        script = tmp_path / "host.py"
        script.write_text(HOST + f"asyncio.run(main(tools.{tool.name}, {{'path': sys.argv[1]}}))\n")
        hosts.append(subprocess.Popen([sys.executable, str(script), pipe.path], cwd=ROOT, env=_env()))
        return hosts[-1]

    yield start
    for host in hosts:
        host.kill()
        host.wait()


async def test_workers_and_fork_server_go_when_the_host_is_killed(
    pipe: Pipe, start_host: Callable[[Tool], subprocess.Popen[bytes]]
) -> None:
    host = start_host(tools.hold_the_interpreter)
    pid, parent = await pipe.pids()
    with Watched(pid) as worker, Watched(parent) as zygote:
        host.kill()
        await zygote.end()
        await worker.end()


async def test_a_worker_goes_when_host_and_fork_server_are_killed_together(
    pipe: Pipe, start_host: Callable[[Tool], subprocess.Popen[bytes]]
) -> None:
    host = start_host(tools.wait_for_ever)
    pid, parent = await pipe.pids()
    with Watched(pid) as worker:
        os.kill(parent, signal.SIGSTOP)
        host.kill()
        os.kill(parent, signal.SIGKILL)
        await worker.end()


# Which handlers can run in a worker.


class Shop:
    @staticmethod
    def open(a: int) -> int:
        raise NotImplementedError

    @classmethod
    def shared(cls, a: int) -> int:
        raise NotImplementedError

    def sell(self, a: int) -> int:
        raise NotImplementedError


@pytest.mark.parametrize("handler", [Shop.open, Shop.shared, tools.describe_call])
def test_what_has_a_name_in_a_module_is_accepted(handler: Callable[..., Any]) -> None:
    target_of(Tool.from_function(handler, schema={"type": "object"}))


def _local() -> Callable[..., Any]:
    def inner(a: int) -> int:
        raise NotImplementedError

    return inner


@pytest.mark.parametrize(
    ("handler", "words"),
    [
        (lambda a: a, "lambda"),
        (_local(), "inside a function"),
        (Shop().sell, "bound to an instance"),
        (partial(Shop.open, 1), "unnamed arguments"),
        (partial(cast(Any, Shop.open), a=Shop()), "only JSON can cross, and its partial.a is a Shop"),
        (partial(_local(), a=1), "inside a function"),
    ],
)
async def test_a_handler_without_an_importable_name_is_refused_at_once(
    pool: ProcessPool, handler: Callable[..., Any], words: str
) -> None:
    unfit = Tool.from_function(handler, schema={"type": "object"}, name="unfit")
    with pytest.raises(InvalidDefinition, match=words) as caught:
        await call(pool, unfit)
    assert "top level of a module" in str(caught.value)


async def test_what_a_partial_has_fixed_crosses_with_its_function(pool: ProcessPool) -> None:
    add = tools.add.handler
    one, ten = tool(partial(add, b=1), name="one"), tool(partial(add, b=10), name="ten")
    assert [await call(pool, each, {"a": 5}) for each in (one, ten, one)] == [6, 15, 6]


def test_a_handler_whose_name_means_something_else_is_refused() -> None:
    @tool
    def stray(a: int) -> int:
        raise NotImplementedError

    stray.handler.__qualname__ = "call"
    with pytest.raises(InvalidDefinition, match="something else"):
        target_of(stray)


async def test_a_module_that_breaks_on_import_is_an_answer_that_says_so(
    pool: ProcessPool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "fragile_tools.py").write_text(FRAGILE)
    monkeypatch.syspath_prepend(tmp_path)
    import fragile_tools  # type: ignore[import-not-found]  # written a line above

    with pytest.raises(ToolError, match="RuntimeError: not in this process") as caught:
        await call(pool, fragile_tools.hello)
    assert caught.value.code == "not_importable"


def run_script(tmp_path: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(text)
    arguments = options or (str(script),)
    return subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, env=_env(), capture_output=True, text=True, timeout=60
    )


def test_a_tool_of_the_main_file_works(tmp_path: Path) -> None:
    done = run_script(tmp_path, PROGRAM + "if __name__ == '__main__':\n    asyncio.run(main())\n")
    assert (done.stdout, done.stderr) == ("7\n", "")


def test_a_tool_of_a_module_run_with_m_works(tmp_path: Path) -> None:
    done = run_script(tmp_path, PROGRAM + "if __name__ == '__main__':\n    asyncio.run(main())\n", "-m", "program")
    assert (done.stdout, done.stderr) == ("7\n", "")


def test_a_main_file_without_a_guard_is_told_to_have_one(tmp_path: Path) -> None:
    done = run_script(tmp_path, PROGRAM + "asyncio.run(main())\n")
    assert done.returncode == 1
    assert "if __name__ == '__main__'" in done.stderr.splitlines()[-1]


def test_a_tool_of_a_session_without_a_file_is_refused(tmp_path: Path) -> None:
    done = run_script(tmp_path, "", "-c", PROGRAM + "asyncio.run(main())\n")
    assert "session or notebook" in done.stderr.splitlines()[-1]


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}


HOST = """
import asyncio, sys
from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.invocation import Invocation
from handrail.execute.isolation.process_pool import ProcessPool
from tests.execute.isolation import light_tools
from tests.execute.isolation import process_tools as tools

async def main(tool, arguments):
    async with ProcessPool() as pool:
        await pool.run(tool, Invocation(ToolCall("c", tool.name), arguments, Context()), arguments)
"""

PROGRAM = """
from __future__ import annotations
import asyncio
from dataclasses import dataclass
from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.invocation import Invocation
from handrail.execute.isolation.process_pool import ProcessPool
from handrail.tools.tool import tool

@dataclass
class Pair:
    a: int
    b: int

@tool
def add(pair: Pair) -> int:
    return pair.a + pair.b

async def main() -> None:
    async with ProcessPool() as pool:
        arguments = {"pair": {"a": 3, "b": 4}}
        print((await pool.run(add, Invocation(ToolCall("c", "add"), arguments, Context()), arguments)).output)

"""

FRAGILE = f"""
import os
if os.getpid() != {os.getpid()}:
    raise RuntimeError("not in this process")
from handrail.tools.tool import tool

@tool
def hello() -> str:
    raise NotImplementedError
"""
