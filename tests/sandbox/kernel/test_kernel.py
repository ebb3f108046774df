"""What CPython has beyond other REPLs, how little of it the host believes, and that nothing is left of it."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from handrail.core.errors import SandboxUnavailable, UsageError
from handrail.sandbox.jail import Jail, unavailable
from handrail.sandbox.kernel import KernelSandbox, child_process
from handrail.sandbox.port import Cell, Repl, ReplLimits, create_sandbox
from tests.contracts.repl_contract import PATIENCE, echo, peak
from tests.processes import children, descendants, is_running

LIMITS = ReplLimits(memory_bytes=64 * 2**20, cell_seconds=10.0, output_chars=10_000, message_bytes=2**20)
SHORT = ReplLimits(memory_bytes=256 * 2**20, cell_seconds=0.15)

os_too = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
KINDS = ("process", pytest.param("os", marks=os_too))


def made(kind: str, limits: ReplLimits = LIMITS, **more: Any) -> KernelSandbox:
    jail = Jail.for_repl(limits) if kind == "os" else None
    return KernelSandbox(limits, jail=jail, **{"warm": 0, "grace": 0.2, **more})


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def repl(kind: str) -> AsyncIterator[Repl]:
    async with made(kind) as sandbox:
        yield await sandbox.repl()


@pytest.fixture
async def plain() -> AsyncIterator[Repl]:
    async with made("process") as sandbox:
        yield await sandbox.repl()


# ── output ──


async def test_what_is_written_below_python_comes_in_its_place(repl: Repl) -> None:
    cell = await repl.run("import os\nprint(1)\nos.write(1, b'2\\n')\nprint(3)\nos.write(1, b'\\xff\\xc3')")
    assert cell.stdout == "1\n2\n3\n\\xff\\xc3"


async def test_errors_have_a_stream_of_their_own(repl: Repl) -> None:
    code = "import os, sys, warnings\nprint('a', file=sys.stderr)\nos.write(2, b'b\\n')\nwarnings.warn('c')\nprint('d')"
    cell = await repl.run(code)
    assert cell.stdout == "d\n"
    assert cell.stderr.startswith("a\nb\n<cell 1>:4: UserWarning: c\n")


async def test_a_cell_that_breaks_its_streams_breaks_them_for_itself(repl: Repl) -> None:
    await repl.run("import sys, io\nsys.stdout.close()\nsys.stderr = None")
    await repl.run("sys.stdout = io.StringIO()")
    cell = await repl.run("print('still here')")
    assert (cell.ending, cell.stdout) == ("ok", "still here\n")


async def test_what_programs_print_that_a_cell_starts_is_captured(plain: Repl) -> None:
    cell = await plain.run("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(1 + 1)'])\nprint(3)")
    assert (cell.error, cell.stdout) == ("", "2\n3\n")


async def test_half_of_a_surrogate_pair_is_printed_as_an_escape(repl: Repl) -> None:
    assert (await repl.run("print('\\ud800')")).stdout == "\\ud800\n"


# ── endings ──


@pytest.mark.requirement("rlm.repl.sandbox")
async def test_what_python_cannot_interrupt_is_killed(kind: str) -> None:
    async with made(kind, SHORT) as sandbox:
        repl = await sandbox.repl()
        for _ in range(10):  # a busy machine may not come to its first line in so short a time
            cell = await asyncio.wait_for(repl.run("print('begun')\nany(iter(int, 1))"), PATIENCE)
            if cell.stdout:
                break
        assert (cell.ending, cell.state, cell.stdout) == ("timeout", "gone", "begun\n")
        assert (await repl.run("print('on')")).stdout == "on\n"


async def test_a_cell_that_is_blocked_in_a_thread_of_its_own_can_be_interrupted(kind: str) -> None:
    async with made(kind, SHORT) as sandbox:
        repl = await sandbox.repl()
        await repl.run(
            "import threading\none = threading.Thread(target=threading.Event().wait, daemon=True)\none.start()"
        )
        cell = await asyncio.wait_for(repl.run("one.join()"), PATIENCE)
        assert (cell.ending, cell.state) == ("timeout", "kept")


@pytest.mark.requirement("rlm.repl.sandbox")
async def test_a_cell_that_ends_its_own_process_is_lost(repl: Repl) -> None:
    cell = await repl.run("import os, sys\nprint('last words')\nos._exit(3)")
    assert (cell.ending, cell.state, cell.stdout) == ("lost", "gone", "last words\n")
    assert "exit code 3" in cell.error


async def test_leaving_python_is_an_error_like_others(repl: Repl) -> None:
    await repl.run("x = 1")
    for code in (
        "raise SystemExit('bye')",
        "raise KeyboardInterrupt",
        "import sys; sys.exit(1)",
        "raise GeneratorExit",
    ):
        assert (await repl.run(code)).ending == "error"
    assert (await repl.run("print(x)")).stdout == "1\n"


async def test_errors_within_errors_show_the_cells_own_lines_only(repl: Repl) -> None:
    code = "import json\ntry:\n    json.loads('')\nexcept ValueError as error:\n    both = [error, KeyError(1)]\n"
    cell = await repl.run(f"{code}    raise ExceptionGroup('g', both)")
    assert "JSONDecodeError" in cell.error
    assert "KeyError: 1" in cell.error
    assert "decoder.py" not in cell.error
    assert "<string>" not in cell.error


async def test_a_repr_that_never_ends_is_ended_too(kind: str) -> None:
    code = "class Slow:\n    def __repr__(self):\n        while True:\n            x = 1\nv = Slow()"
    async with made(kind, SHORT) as sandbox:
        cell = await asyncio.wait_for((await sandbox.repl()).run(code, peek=("v",)), PATIENCE)
        assert (cell.ending, cell.state) == ("timeout", "kept")


# ── threads ──


async def test_threads_of_a_cell_can_ask_the_host_one_after_the_other(repl: Repl) -> None:
    code = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool:\n    got = list(pool.map(lambda i: _host('x', i), range(50)))"
    )
    cell = await repl.run(code, echo, peek=("got",))
    assert cell.values == {"got": list(range(50))}


async def test_there_is_room_for_threads_and_for_deep_calls_in_them(repl: Repl) -> None:
    code = (
        "import threading\nmet, deep = threading.Barrier(17, timeout=10), []\n"
        "def down(n):\n    return 1 + max([n], key=lambda n: down(n - 1) if n else 0)\n"
        "def one():\n    met.wait()\n    deep.append(down(200))\n"
        "for i in range(16): threading.Thread(target=one).start()\n"
        "met.wait()"
    )
    assert (await repl.run(code)).error == ""
    after = "while threading.active_count() > 1: pass\nprint(len(deep))"
    assert (await repl.run(after)).stdout == "16\n"


async def test_a_thread_that_outlives_its_cell_cannot_ask_the_host(repl: Repl) -> None:
    code = (
        "import threading, time\nsaid = []\n"
        "def late():\n"
        "    while not said:\n"
        "        time.sleep(0.001)\n"
        "        if not _host.__self__._cell:\n"
        "            try:\n                _host('x')\n            except RuntimeError as error:\n"
        "                said.append(str(error))\n"
        "threading.Thread(target=late, daemon=True).start()"
    )
    assert (await repl.run(code)).error == ""
    async with asyncio.timeout(PATIENCE):
        while not (cell := await repl.run("", echo, peek=("said",))).values["said"]:  # it met no moment without a cell
            pass
    assert cell.values == {"said": ["the host can be asked only while a cell runs"]}


async def test_a_cell_that_forks_ends_once_and_its_child_cannot_ask_the_host(plain: Repl) -> None:
    code = (
        "import os\nread, write = os.pipe()\nif not os.fork():\n"
        "    try: _host('x')\n    except RuntimeError as error: os.write(write, str(error).encode())\n"
        "else:\n    said = os.read(read, 100).decode()\n    os.wait()"
    )
    cell = await plain.run(code, peek=("said",))
    assert (cell.error, "forked" in cell.values["said"]) == ("", True)
    assert (await plain.run("print('on')")).stdout == "on\n"


# ── what the host does not believe ──

FORGED = {
    "not json": b"hello",
    "not an object": b"[]",
    "no kind": b'{"cell":1}',
    "ready again": b'{"type":"ready"}',
    "an unknown kind": b'{"type":"exec","code":"1"}',
    "the end of another cell": b'{"type":"done","cell":7,"error":"","memory":false,"values":{},"names":{}}',
    "an end with more": b'{"type":"done","cell":1,"error":"","memory":false,"values":{},"names":{},"state":"kept"}',
    "an end with other things": b'{"type":"done","cell":1,"error":5,"memory":false,"values":[],"names":{}}',
    "a call of another cell": b'{"type":"call","cell":2,"call":1,"name":"x","value":1}',
    "a call out of turn": b'{"type":"call","cell":1,"call":2,"name":"x","value":1}',
    "a call without a name": b'{"type":"call","cell":1,"call":1,"name":null,"value":1}',
    "a variable that nobody put": b'{"type":"bound","cell":1,"error":""}',
    "a deep value": b'{"type":"call","cell":1,"call":1,"name":"x","value":' + b"[" * 500 + b"]" * 500 + b"}",
    "an endless number": b'{"type":"call","cell":1,"call":1,"name":"x","value":' + b"9" * 100_000 + b"}",
    "more values than anybody wants": b'{"type":"call","cell":1,"call":1,"name":"x","value":['
    + b"[]," * 300_000
    + b"1]}",
    "not unicode": b'{"type":"call","cell":1,"call":1,"name":"\xff","value":1}',
}


async def test_an_interpreter_that_says_what_makes_no_sense_is_ended(plain: Repl) -> None:
    async def host(name: str, value: Any) -> Any:
        raise NotImplementedError("this must not be asked")

    for what, said in FORGED.items():  # each to an interpreter of its own, since the one before is gone
        cell = await plain.run(f"_host.__self__._send({said!r})\nimport time\ntime.sleep(1000)", host)
        assert (cell.ending, cell.state) == ("lost", "gone"), what
    assert (await plain.run("print('on')")).stdout == "on\n"


async def test_a_frame_that_is_announced_too_large_is_not_waited_for(plain: Repl) -> None:
    with peak() as memory:
        cell = await plain.run("import os, time\nos.write(_host.__self__._sock, b'\\xff' * 4)\ntime.sleep(1000)")
    assert (cell.ending, cell.state) == ("lost", "gone")
    assert memory.grown < 20 * 2**20


async def test_a_flood_of_frames_is_ended_with_the_first(plain: Repl) -> None:
    with peak() as memory:
        cell = await plain.run('while True:\n    _host.__self__._send(b\'{"type":"ready"}\')')
    assert (cell.ending, cell.state) == ("lost", "gone")
    assert memory.grown < 20 * 2**20


async def test_an_end_that_was_forged_is_the_end_of_the_interpreter_a_cell_later(plain: Repl) -> None:
    forged = b'{"type":"done","cell":1,"error":"","memory":false,"values":{"other":1},"names":{}}'
    cell = await plain.run(f"_host.__self__._send({forged!r})", peek=("v",))
    assert (cell.ending, cell.values) == ("ok", {})
    assert (await plain.run("pass")).ending == "lost"


async def test_an_interpreter_that_hangs_up_and_goes_on_is_ended(plain: Repl) -> None:
    cell = await plain.run("import os\nos.close(_host.__self__._sock)\nwhile True: pass", peek=("v",))
    assert (cell.ending, cell.state) == ("lost", "gone")


async def test_an_interpreter_that_does_not_listen_is_ended_in_time() -> None:
    deaf = "import signal\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\nprint('deaf', flush=True)\nwhile True: pass"
    assert await _ended_after_it_began(deaf) == ("timeout", "deaf\n", "gone")


async def test_a_cell_that_stops_what_would_end_it_is_ended_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_process, "_SECONDS_TO_END", 0.2)
    stop = "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nprint('stopped', flush=True)\nany(iter(int, 1))"
    assert await _ended_after_it_began(stop) == ("timeout", "stopped\n", "gone")


async def _ended_after_it_began(code: str) -> tuple[str, str, str]:
    """How it ended, what it printed and what became of its state. A busy machine may not come so far in so short a
    time: then it is tried again."""
    async with made("process", SHORT) as sandbox:
        repl = await sandbox.repl()
        for _ in range(10):
            cell = await asyncio.wait_for(repl.run(code), PATIENCE)
            if cell.stdout:
                break
        return cell.ending, cell.stdout, cell.state


# ── its surroundings ──


async def test_the_environment_is_empty_but_for_what_python_needs(plain: Repl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "sk-canary")
    cell = await plain.run("import os\nnames = sorted(os.environ)", peek=("names",))
    assert set(cell.values["names"]) <= {"PATH", "LANG", "PYTHONHASHSEED", "LC_CTYPE", "MALLOC_ARENA_MAX"}


async def test_each_has_an_empty_directory_that_goes_with_it(kind: str) -> None:
    async with made(kind) as sandbox:
        first, second = await sandbox.repl(), await sandbox.repl()
        look = "import os\nwhere, had = os.getcwd(), os.listdir()\nopen('mine', 'w').close()"
        cells = [await repl.run(look, peek=("where", "had")) for repl in (first, second)]
        assert [cell.values["had"] for cell in cells] == [[], []]
    if kind == "process":
        assert len({cell.values["where"] for cell in cells}) == 2
        assert not any(is_there(cell.values["where"]) for cell in cells)


async def test_order_in_a_set_is_the_same_in_every_interpreter(kind: str) -> None:
    async with made(kind) as sandbox:
        seen = [(await (await sandbox.repl()).run("print({'a', 'b', 'c', 'd', 'e'}, hash('x'))")).stdout for _ in "ab"]
        assert seen[0] == seen[1]


# ── its end ──


def have_ended(pids: list[int]) -> bool:
    """Wait for it: these are not children of ours."""
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        with open(fd):
            if not select.select([fd], [], [], PATIENCE)[0]:
                return False
    return True


def is_there(path: str) -> bool:
    return os.path.lexists(path)


def held() -> tuple[set[int], int]:
    """Processes and descriptors."""
    return children(), len(os.listdir("/proc/self/fd"))


def nothing_more_than(before: tuple[set[int], int]) -> bool:
    """What others had and let go of meanwhile does not count."""
    processes, descriptors = held()
    return processes <= before[0] and descriptors <= before[1]


async def test_nothing_is_left_of_it(kind: str) -> None:
    async with made(kind):
        pass
    before = held()
    async with made(kind, SHORT, warm=1) as sandbox:
        repls = [await sandbox.repl() for _ in range(2)]
        await repls[0].run("import os\nos._exit(1)")
        await repls[0].run("x = 1")
        await repls[1].run("while True:\n    try:\n        x = [1 for _ in 'abc']\n    except BaseException: pass")
        await repls[0].restart()
        running = asyncio.create_task(repls[0].run("while True: pass"))
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
    assert nothing_more_than(before)


LINEAGE = """
import os, subprocess, sys
run = [sys.executable, '-c', 'import time; time.sleep(1000)']
pids = [subprocess.Popen(run).pid, subprocess.Popen(run, start_new_session=True).pid, os.getpid(), os.getppid()]
code = "import subprocess; print(subprocess.Popen([%r, *%r], start_new_session=True, stdout=2).pid)" % (run[0], run[1:])
pids.append(int(subprocess.run([sys.executable, '-c', code], stdout=subprocess.PIPE).stdout))
"""
"""A child, one in a session of its own, and one whose parent has ended."""


@pytest.mark.parametrize("end", ["closed", "lost", "killed"])
async def test_everything_that_it_started_ends_with_it(plain: Repl, end: str) -> None:
    cell = await plain.run(LINEAGE, peek=("pids",))
    assert cell.error == ""
    pids: list[int] = cell.values["pids"]
    assert all(map(is_running, pids))
    match end:
        case "closed":
            await plain.aclose()
        case "lost":
            assert (await plain.run("os._exit(0)")).state == "gone"
        case "killed":
            os.kill(pids[2], signal.SIGKILL)
            assert "SIGKILL" in (await plain.run("pass")).error
    assert await asyncio.to_thread(have_ended, pids)


HOST = """
import asyncio, sys
from handrail.sandbox.port import create_sandbox
async def main():
    async with create_sandbox(sys.argv[1]) as sandbox:
        repl = await sandbox.repl()
        async def host(name, value):
            print(name, *value, flush=True)
        await repl.run(sys.argv[2], host)
asyncio.run(main())
"""


def another_host(kind: str, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", HOST, kind, code], stdout=subprocess.PIPE, text=True)


async def test_everything_ends_when_the_host_is_killed(kind: str) -> None:
    code = f"{LINEAGE if kind == 'process' else 'import os'}\n_host(os.getcwd(), pids if {kind == 'process'} else [])\n"
    with another_host(kind, f"{code}while True: pass") as host:
        assert host.stdout is not None
        where, *pids = (await asyncio.to_thread(host.stdout.readline)).split()
        below = descendants(host.pid)
        assert len(below) >= 2
        host.kill()
    assert await asyncio.to_thread(have_ended, [*below, *map(int, pids)])
    assert kind == "os" or not is_there(where)


# ── where they come from ──


async def test_one_that_waits_is_taken_and_another_one_is_started(kind: str) -> None:
    before = children()
    async with made(kind, warm=1) as sandbox:
        waiting = children() - before
        assert len(waiting) == 1
        repl = await sandbox.repl()
        assert len(children() - before) == 2
        assert waiting < children()
        assert (await repl.run("print(1)")).stdout == "1\n"


async def test_one_that_ended_while_it_waited_is_not_taken(kind: str) -> None:
    before = children()
    async with made(kind, warm=1) as sandbox:
        for pid in children() - before:
            os.kill(pid, signal.SIGKILL)
        assert (await (await sandbox.repl()).run("print(1)")).stdout == "1\n"


async def test_nothing_is_started_any_more_when_the_sandbox_is_closed_meanwhile(kind: str) -> None:
    before = held()
    sandbox = made(kind, warm=1)
    async with sandbox:
        taking = asyncio.create_task(sandbox.repl())
        await asyncio.sleep(0)
    with pytest.raises((UsageError, SandboxUnavailable)):
        await taking
    assert nothing_more_than(before)


async def test_nothing_is_left_of_one_that_was_asked_for_and_is_not_wanted_any_more(kind: str) -> None:
    before = held()
    async with made(kind) as sandbox:
        taking = asyncio.create_task(sandbox.repl())
        for _ in range(5):  # rounds of the loop, until it has been started and is waited for
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait({taking})
        (ending,) = {task for task in asyncio.all_tasks() if "_reap" in repr(task)}
        await asyncio.wait_for(ending, PATIENCE)
        assert nothing_more_than(before)


async def test_where_descriptors_run_out_there_is_no_interpreter_and_nothing_is_left(kind: str) -> None:
    """With each number of them that does not suffice, so that it fails at each place where it can."""
    async with made(kind) as sandbox:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        before, lowest = held(), os.dup(0)
        os.close(lowest)
        try:
            for most in range(lowest, lowest + 8):
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
                with pytest.raises(SandboxUnavailable):
                    await sandbox.repl()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert nothing_more_than(before)


@os_too
async def test_an_interpreter_that_does_not_start_says_why() -> None:
    class Broken(Jail):
        @property
        def python(self) -> str:
            return "/no/such/python"

    sandbox = KernelSandbox(LIMITS, jail=Broken(), warm=0)
    with pytest.raises(SandboxUnavailable, match="/no/such/python"):
        await sandbox.repl()
    await sandbox.aclose()


async def test_the_kinds_have_names(kind: str) -> None:
    async with create_sandbox(kind, LIMITS) as sandbox:
        assert sandbox.kind == kind
    with pytest.raises(UsageError, match="monty, os, process"):
        create_sandbox("none")


async def test_a_repl_of_a_sandbox_that_was_closed_stays_closed(kind: str) -> None:
    sandbox = made(kind)
    repl = await sandbox.repl()
    running = asyncio.create_task(repl.run("while True: pass"))
    await asyncio.sleep(0)
    await sandbox.aclose()
    cell: Cell = await asyncio.wait_for(running, PATIENCE)
    assert (cell.ending, cell.state) == ("lost", "gone")
    with pytest.raises(UsageError):
        await repl.run("pass")
