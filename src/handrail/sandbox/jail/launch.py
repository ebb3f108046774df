"""Starts bubblewrap, with nothing of the host's environment and everything new that the kernel has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from handrail.sandbox.jail.filters import refused
from handrail.sandbox.jail.jailed import Jailed
from handrail.sandbox.jail.limits import JailLimits, bound

SEALED = (
    *("--unshare-all", "--unshare-user", "--disable-userns"),
    *("--die-with-parent", "--new-session", "--as-pid-1"),
    *("--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", "jail"),
)
"""`--as-pid-1`: no second process inside, whose memory the program could write to be rid of its own filter."""

ENVIRONMENT = {"HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "PATH": "/usr/bin", "MALLOC_ARENA_MAX": "2"}


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
) -> Jailed:
    """The program dies with the thread that calls this."""
    filter_fd = _held(refused())
    args_fd, args = os.pipe()
    status, status_fd = os.pipe()
    try:
        outer = subprocess.Popen(
            [bwrap, "--args", str(args_fd), "--", *argv],
            env={},
            cwd="/",
            pass_fds=(*pass_fds, filter_fd, args_fd, status_fd),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
    except BaseException:
        os.close(args)
        os.close(status)
        raise
    finally:
        for descriptor in (filter_fd, args_fd, status_fd):
            os.close(descriptor)
    jailed = Jailed(outer, status)
    words = [*SEALED, *mounts, "--chdir", "/tmp", "--seccomp", str(filter_fd), "--json-status-fd", str(status_fd)]
    for name, value in {**ENVIRONMENT, **env}.items():
        words += ["--setenv", name, value]
    try:
        # It does nothing before it has read its arguments to their end: so the limits are there first, and no code
        # of ours has to run between fork and exec.
        with open(args, "wb") as pipe:
            bound(outer.pid, limits)
            pipe.write(b"".join(os.fsencode(word) + b"\0" for word in words))
    except BrokenPipeError:
        pass  # it has ended already, and its status says so
    except BaseException:
        jailed.close()
        raise
    return jailed


def _held(data: bytes) -> int:
    descriptor = os.memfd_create("seccomp")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
