"""What a jailed program may use, as the kernel counts it."""

from __future__ import annotations

import resource
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JailLimits:
    memory_bytes: int = 576 * 2**20
    """Of address space: what is mapped counts, used or not. The interpreter itself takes some 30 MB of it."""
    cpu_seconds: int | None = None
    """Of processor time over its whole life; then it is killed."""
    disk_bytes: int = 64 * 2**20
    """Of everything in its /tmp, which lies in memory."""
    file_bytes: int = 64 * 2**20
    """Of one file."""
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
