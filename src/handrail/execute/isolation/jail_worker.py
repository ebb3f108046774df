"""What runs inside a jail for tools: the same worker as outside, with its last doors shut before it sees any tool.

The order is the point: our own imports, then the limits, then no more processes and
no more programs, and only then the first job, whose tool's module is imported with
all of that in place.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
from typing import NoReturn

from handrail.execute.isolation.worker import address_space, serve_jobs
from handrail.sandbox.jail.seccomp_lock import lock


def main(fd: str, memory_bytes: str, processes: str, lockdown: str) -> NoReturn:
    """Serve the jobs that come over a socket."""
    sock = socket.socket(fileno=int(fd))
    sock.set_inheritable(False)
    most = address_space() + int(memory_bytes)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    lock(bytes.fromhex(lockdown), int(processes))
    _silence()
    serve_jobs(sock, leave_when_spent)


def leave_when_spent() -> None:
    """Let the C library end the process when its processor time is up, whoever holds the interpreter.

    The first process of a namespace gets no signal that it has no handler for, and Python's own handlers wait for
    the main thread.
    """
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)
    libc.signal(signal.SIGXCPU, ctypes.cast(libc._exit, ctypes.c_void_p))


def _silence() -> None:
    """From here on nobody reads what is printed: it comes from a tool, and could be anything and any amount.

    The last thing that is read says that this worker is up.
    """
    os.write(2, b"\n")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
