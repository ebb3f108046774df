"""A program in a jail: what it is given, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from handrail.core.errors import UsageError
from handrail.sandbox.jail import Jail, JailedProcess, JailLimits, unavailable
from handrail.sandbox.port import ReplLimits
from tests.polling import blocking_until
from tests.sandbox.jail.jail_programs import SECONDS, run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

FAMILY = """
import os, sys, time
os.fork()
os.fork()
os.write(int(sys.argv[1]), b'.')
time.sleep(600)
"""
"""Four processes, each of which holds the descriptor for as long as it lives."""

HOST = f"""
import asyncio, sys
from handrail.sandbox.jail import Jail
async def host():
    jail = Jail()
    jailed = jail.spawn([jail.python, '-I', '-S', '-c', {FAMILY!r}, sys.argv[1]], pass_fds=[int(sys.argv[1])])
    await jailed.wait()
asyncio.run(host())
"""

PREFIX = """
import asyncio
from handrail.sandbox.jail import Jail
async def main():
    jail = Jail()
    await jail.spawn([jail.python, '-I', '-S', '-c', 'import sys; print(sys.prefix)'], stdout=1).wait()
asyncio.run(main())
"""

HOSTS = """
import os, signal, subprocess, sys, time
from handrail.sandbox.jail import Jail
jail = Jail()
held = int(sys.argv[1])
for moment in range(24):
    if not os.fork():
        jail.spawn([jail.python, '-I', '-S', '-c', 'input()'], stdin=os.pipe()[0], pass_fds=[held])
        time.sleep(moment / 2400)  # of some 10 ms that it takes
        os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
"""
"""Each is killed at another moment. Its jail holds a descriptor, and would end of itself with its host."""

AS_ANYBODY = "from handrail.sandbox.jail import unavailable; raise SystemExit(unavailable())"


def family(jail: Jail) -> tuple[JailedProcess, int]:
    """A program with children of its own, and a pipe that ends when the last of them has."""
    alive, held = os.pipe()
    try:
        return jail.spawn([jail.python, "-I", "-S", "-c", FAMILY, str(held)], pass_fds=[held]), alive
    finally:
        os.close(held)


async def up(alive: int, processes: int = 4) -> None:
    async with asyncio.timeout(SECONDS):
        while processes:
            processes -= len(await asyncio.to_thread(os.read, alive, processes))


def nothing_is_left(alive: int) -> bool:
    os.set_blocking(alive, False)
    with open(alive, "rb", buffering=0) as pipe:
        return pipe.read() == b"" or pipe.read() == b""


def is_child(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def read(descriptor: int) -> bytes:
    """What comes next, or nothing at its end. It is not waited for for ever: a thread cannot be given up."""
    with open(descriptor, "rb", buffering=0) as file:
        if not select.select([file], [], [], SECONDS)[0]:
            raise TimeoutError("somebody still holds it")
        return file.read(1024) or b""


def holders(alive: int) -> list[tuple[int, str]]:
    """Who else has this pipe, and which program it is."""
    pipe, found = f"pipe:[{os.fstat(alive).st_ino}]", []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ends while we look
            if int(each.name) != os.getpid() and pipe in {os.readlink(fd) for fd in (each / "fd").iterdir()}:
                found.append((int(each.name), Path(os.readlink(each / "exe")).name))
    return found


def another_host(held: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", HOST, str(held)], pass_fds=[held])


async def test_killing_it_takes_everything_inside_along_and_leaves_no_zombie() -> None:
    jailed, alive = family(Jail())
    await up(alive)
    jailed.kill()
    async with asyncio.timeout(SECONDS):
        assert await jailed.wait() == 128 + signal.SIGKILL
    assert nothing_is_left(alive)
    assert not is_child(jailed.pid)


async def test_it_can_be_killed_while_it_is_being_built() -> None:
    jail = Jail()
    for moment in range(20):
        jailed, alive = family(jail)
        await asyncio.sleep(moment / 4000)  # of some 5 ms that it takes
        jailed.kill()
        async with asyncio.timeout(SECONDS):
            await jailed.wait()
        assert nothing_is_left(alive)


async def test_a_host_that_is_killed_leaves_nothing_running() -> None:
    alive, held = os.pipe()
    host = another_host(held)
    os.close(held)
    await up(alive)
    host.kill()
    async with asyncio.timeout(SECONDS):
        await asyncio.to_thread(host.wait)
        assert await asyncio.to_thread(read, alive) == b""


def no_program_is_left(alive: int) -> bool:
    """Soon: those of a host that was killed end by themselves."""
    return blocking_until(lambda: all(program == "bwrap" for _, program in holders(alive)), seconds=SECONDS / 2)


async def test_hosts_that_are_killed_while_a_jail_is_being_built_leave_no_program_running() -> None:
    """Bubblewrap itself, killed at a very bad moment, leaves a half of it that waits for the other: it runs nothing."""
    alive, held = os.pipe()
    hosts = await asyncio.create_subprocess_exec(sys.executable, "-c", HOSTS, str(held), pass_fds=[held])
    os.close(held)
    async with asyncio.timeout(SECONDS):
        assert await hosts.wait() == 0
        assert await asyncio.to_thread(no_program_is_left, alive)
    for half, _ in holders(alive):
        os.kill(half, signal.SIGKILL)
    os.close(alive)


async def test_killing_it_again_or_after_its_end_does_nothing() -> None:
    jail = Jail()
    jailed = jail.spawn([jail.python, "-I", "-S", "-c", "raise SystemExit(3)"])
    assert await jailed.wait() == 3
    jailed.kill()
    jailed.close()
    assert not jailed.send(signal.SIGINT)
    assert (await jailed.wait(), jailed.returncode) == (3, 3)


async def test_any_number_of_tasks_may_wait_and_one_may_give_up() -> None:
    jailed, alive = family(Jail())
    await up(alive)
    waiting = [asyncio.create_task(jailed.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    jailed.kill()
    async with asyncio.timeout(SECONDS):
        ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError, int, int]
    assert nothing_is_left(alive)


async def test_it_can_be_closed_under_a_task_that_waits() -> None:
    jailed, alive = family(Jail())
    await up(alive)
    waiting = asyncio.create_task(jailed.wait())
    await asyncio.sleep(0)
    jailed.close()
    async with asyncio.timeout(SECONDS):
        assert await waiting == 128 + signal.SIGKILL
    assert nothing_is_left(alive)


async def test_a_signal_that_it_has_a_handler_for_reaches_it() -> None:
    program = (
        "import os, time\ntry:\n os.write(1, b'up')\n time.sleep(600)\nexcept KeyboardInterrupt:\n raise SystemExit(7)"
    )
    jail = Jail()
    reader, writer = os.pipe()
    jailed = jail.spawn([jail.python, "-I", "-S", "-c", program], stdout=writer)
    os.close(writer)
    async with asyncio.timeout(SECONDS):
        assert await asyncio.to_thread(read, reader) == b"up"
        assert jailed.send(signal.SIGINT)
        assert await jailed.wait() == 7


async def test_it_reads_what_was_named_and_cannot_change_it(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    program = f"""
import os
print(open({str(folder / "a.txt")!r}).read(), os.listdir({str(tmp_path)!r}))
open({str(folder / "a.txt")!r}, 'w')
"""
    ran = await run(Jail(readable=(folder,)), program)
    assert ran.output == "a ['given']\n"
    assert "Read-only file system" in ran.errors
    assert (folder / "a.txt").read_text() == "a"


async def test_it_has_the_environment_that_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDRAIL_SECRET", "sk-1")
    ran = await run(Jail(), "import os; print(sorted(os.environ), os.environ['A'])", env={"A": "é"})
    assert ran.output == "['A', 'HOME', 'LANG', 'MALLOC_ARENA_MAX', 'PATH', 'PWD', 'TMPDIR'] é\n"


async def test_the_whole_standard_library_is_there() -> None:
    modules = "asyncio, bz2, ctypes, decimal, hashlib, lzma, sqlite3, ssl, unicodedata, zlib, zoneinfo"
    ran = await run(
        Jail(), f"import {modules}; print(hashlib.sha256(b'').hexdigest()[:4], open('/tmp/x', 'w').write('a'))"
    )
    assert (ran.output, ran.errors) == ("e3b0 1\n", "")


def test_a_python_that_is_reached_by_a_link_has_its_own_library(tmp_path: Path) -> None:
    real = Path(sys.base_prefix).resolve()
    link = tmp_path / "python"
    link.symlink_to(real)
    ran = subprocess.run(
        [str(link / "bin" / f"python3.{sys.version_info.minor}"), "-c", PREFIX],
        env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == (f"{real}\n", "")


async def test_the_interpreter_of_a_repl_has_the_memory_that_was_promised() -> None:
    ran = await run(Jail.for_repl(ReplLimits(memory_bytes=64 * 2**20)), "print(len(bytearray(60 * 2 ** 20)))")
    assert ran.output == f"{60 * 2**20}\n"
    ran = await run(Jail.for_repl(ReplLimits(memory_bytes=64 * 2**20)), "print(len(bytearray(130 * 2 ** 20)))")
    assert "MemoryError" in ran.errors


async def test_a_jail_without_python_has_none() -> None:
    ran = await run(Jail(JailLimits(), python=False), "")
    assert ran.code != 0
    assert "No such file" in ran.errors


def test_a_file_that_is_named_and_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing\.txt"):
        Jail(readable=(tmp_path / "missing.txt",))


def _plain_python() -> str | None:
    """A Python that a user without rights can start, with our packages. Root's own may lie where nobody else looks."""
    python = f"/usr/bin/python3.{sys.version_info.minor}"
    return python if os.geteuid() == 0 and os.path.exists(python) else None


@pytest.mark.skipif(_plain_python() is None, reason="needs root, who becomes another, and a Python of the system")
def test_a_plain_user_can_have_a_jail_too() -> None:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    tried = subprocess.run(
        [str(_plain_python()), "-c", AS_ANYBODY],
        env={"PYTHONPATH": path, "PATH": os.defpath + ":/usr/bin"},
        cwd="/",
        user=65534,
        group=65534,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if "ModuleNotFoundError" in tried.stderr or "Permission" in tried.stderr:
        pytest.skip("the packages are not readable for another user")
    assert (tried.returncode, tried.stderr) == (0, "")
