"""Starts bubblewrap, with nothing of the host's environment and everything new that the kernel has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from handrail.sandbox.jail.filters import base_filter
from handrail.sandbox.jail.limits import JailLimits, apply_limits
from handrail.sandbox.jail.process import JailedProcess

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
        filter_fd = _held(base_filter())
        always.callback(os.close, filter_fd)
        args_fd, args = os.pipe()
        always.callback(os.close, args_fd)
        if_it_fails.callback(os.close, args)
        status, status_fd = _told()
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


def _told() -> tuple[int, int]:
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


def _held(data: bytes) -> int:
    descriptor = os.memfd_create("seccomp")
    os.pwrite(descriptor, data, 0)
    return descriptor
