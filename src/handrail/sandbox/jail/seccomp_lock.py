"""What a jailed program does to itself before it runs anything that it was sent. The standard library only.

A program that cannot import this package takes `SOURCE`, which is the text of this file.
"""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path

_SECCOMP = {"x86_64": 317, "aarch64": 277, "riscv64": 277, "ppc64le": 358, "s390x": 348}
_SET_MODE_FILTER = 1
_ALL_THREADS = 1
_PR_SET_NO_NEW_PRIVS = 38


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def lock(program: bytes, processes: int = 64) -> None:
    """Give up for good what the program refuses, in every thread, and bound the number of threads.

    Raises:
        OSError: The kernel did not take it. Nothing that was sent may run then.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = processes if hard == resource.RLIM_INFINITY else min(processes, hard)
    if _counts_by_namespace(os.uname().release):
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    filling = _FilterProgram(len(program) // 8, program)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    machine = os.uname().machine
    if machine not in _SECCOMP:
        raise OSError(f"how to install a filter is not known on {machine}")
    if libc.syscall(_SECCOMP[machine], _SET_MODE_FILTER, _ALL_THREADS, ctypes.byref(filling)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the filter was not installed: {os.strerror(number)}")


def _counts_by_namespace(release: str) -> bool:
    """An older kernel counts every process of the user, and a small limit would leave no thread at all."""
    major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in release.split(".")[:2])
    return (major, minor) >= (5, 14)


try:
    SOURCE = Path(__file__).read_text()
except (NameError, OSError):  # this is that text, without its file
    SOURCE = ""
