"""Starts bubblewrap within limits: the files that were named, nothing of the host's environment, and all else new."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from handrail.core.errors import SandboxUnavailable
from handrail.sandbox.jail.filters import base_filter
from handrail.sandbox.jail.process import JailedProcess

LIBRARIES = ("/usr/lib", "/usr/lib64", "/lib", "/lib64")
PUBLIC = ("/etc/ld.so.cache", "/usr/share/zoneinfo")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
HIDDEN = (
    *("cmdline", "config.gz", "interrupts", "kallsyms", "kcore", "keys", "key-users", "kmsg", "modules", "timer_list"),
    *("iomem", "ioports", "kpagecgroup", "kpagecount", "kpageflags", "slabinfo", "vmallocinfo"),
    *("buddyinfo", "pagetypeinfo", "zoneinfo", "latency_stats", "sched_debug"),
)
"""Of /proc: what tells of the host and not of the program. Much of it is for root, and a jail may be root's."""


def python() -> Path:
    """The interpreter in use, without the virtual environment that it may be in.

    Raises:
        SandboxUnavailable: There is none, as in a program that Python is only a part of.
    """
    found = getattr(sys, "_base_executable", "") or sys.executable
    if not found or getattr(sys, "frozen", False):
        raise SandboxUnavailable("this program has no Python to start again; run it by an installed one")
    return Path(found).resolve()


def python_files() -> Iterator[Path]:
    """The interpreter, and its library where it looks for it: beside the file that it really is."""
    for prefix in (Path(sys.base_prefix), Path(sys.base_exec_prefix)):
        for folder in ("lib", sys.platlibdir):
            yield from (prefix / folder, prefix.resolve() / folder)
    yield python()


def mounts(readable: Iterable[Path], disk_bytes: int) -> list[str]:
    """The mounts as arguments of bubblewrap, in the order in which they are to be made."""
    made = [*_read_only(Path(path) for path in (*LIBRARIES, *PUBLIC))]
    for device in DEVICES:
        made += ["--dev-bind", device, device]
    made += ["--symlink", "/proc/self/fd", "/dev/fd", "--proc", "/proc"]
    for name in HIDDEN:
        if os.path.exists(f"/proc/{name}"):
            made += ["--ro-bind", "/dev/null", f"/proc/{name}"]
    made += ["--perms", "1777", "--size", str(disk_bytes), "--tmpfs", "/tmp"]
    made += _read_only(readable)  # after its own /tmp, which would hide what is named of the host's
    # The root and /dev lie in memory as well, and without a bound: nothing may be written there.
    return [*made, "--remount-ro", "/proc", "--remount-ro", "/"]


def _read_only(paths: Iterable[Path]) -> Iterator[str]:
    """The shorter before the longer, so that none hides another."""
    for path in sorted(set(paths), key=lambda path: (len(path.parts), path)):
        if path.is_symlink() and str(path) in LIBRARIES:
            yield from ("--symlink", os.readlink(path), str(path))
        elif path.exists():
            yield from ("--ro-bind", str(path.resolve()), str(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class JailLimits:
    memory_bytes: int = 576 * 2**20
    """The most address space: what is mapped counts, used or not. The interpreter itself takes some 30 MB of it."""
    cpu_seconds: int | None = None
    """The most processor time over its whole life; then it is killed."""
    disk_bytes: int = 64 * 2**20
    """The most bytes in its /tmp, which lies in memory."""
    file_bytes: int = 64 * 2**20
    """The most bytes of one file."""
    open_files: int = 256
    processes: int = 64
    """Threads among them. It is set by `inside.lock`, since from outside it would count all of its user's processes;
    where root runs the jail the kernel does not count at all. There, nothing forks after `lock`, and memory is what
    bounds threads: some 13 to a megabyte of address space, at the smallest stack."""


def apply_limits(pid: int, limits: JailLimits) -> None:
    """Put the limits on a process and on everything that it will start. None of them can be raised again."""
    wanted = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        # Not 0: a kernel that hands its core dumps to a program does so at 0 as well, and does not at 1.
        resource.RLIMIT_CORE: 1,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for which, value in wanted.items():
        if value is not None:
            _, hard = resource.prlimit(pid, which)
            allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.prlimit(pid, which, (allowed, allowed))


SEALED = (
    *("--unshare-all", "--unshare-user", "--disable-userns"),
    *("--die-with-parent", "--new-session", "--as-pid-1"),
    *("--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "jail"),
)
"""`--as-pid-1`: no second process inside, whose memory the program could write to be rid of its own filter."""

ENVIRONMENT = {"HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "PATH": "/usr/bin", "MALLOC_ARENA_MAX": "1"}


def launch(
    bwrap: str,
    argv: Sequence[str],
    mounts: Sequence[str],
    limits: JailLimits,
    *,
    env: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    stderr: int = subprocess.DEVNULL,
) -> JailedProcess:
    """The program dies with the thread that calls this."""
    with ExitStack() as if_it_fails, ExitStack() as always:
        filter_fd = _memory_file(base_filter())
        always.callback(os.close, filter_fd)
        args_fd, args = os.pipe()
        always.callback(os.close, args_fd)
        if_it_fails.callback(os.close, args)
        status, status_fd = _status_pipe()
        always.callback(os.close, status_fd)
        if_it_fails.callback(os.close, status)
        outer = subprocess.Popen(
            [bwrap, "--args", str(args_fd), "--", *argv],
            env={},
            cwd="/",
            pass_fds=(*pass_fds, filter_fd, args_fd, status_fd),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
        if_it_fails.callback(outer.wait)
        if_it_fails.callback(outer.kill)
        jailed = JailedProcess(outer, status)
        if_it_fails.pop_all()
    words = [*SEALED, *mounts, "--chdir", "/tmp", "--seccomp", str(filter_fd), "--json-status-fd", str(status_fd)]
    for name, value in {**ENVIRONMENT, **env}.items():
        words += ["--setenv", name, value]
    try:
        # It does nothing before it has read its arguments to their end: so the limits are there first, and no code
        # of ours has to run between fork and exec.
        with open(args, "wb") as pipe:
            apply_limits(outer.pid, limits)
            pipe.write(b"".join(os.fsencode(word) + b"\0" for word in words))
    except BrokenPipeError:
        pass  # it has ended already, and its status says so
    except BaseException:
        jailed.close()
        raise
    return jailed


def _status_pipe() -> tuple[int, int]:
    """A pipe for what bubblewrap tells. Its end can be read from as well, so that it is never cut off: killed by that
    in the middle of its work, with the host gone, it would leave half a jail that waits for ever."""
    reader, writer = os.pipe()
    try:
        return reader, os.open(f"/proc/self/fd/{writer}", os.O_RDWR | os.O_CLOEXEC)
    except BaseException:
        os.close(reader)
        raise
    finally:
        os.close(writer)


def _memory_file(data: bytes) -> int:
    descriptor = os.memfd_create("seccomp")
    os.pwrite(descriptor, data, 0)
    return descriptor
