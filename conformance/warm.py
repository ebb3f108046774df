"""Clients that begin warm, to be quick: one process has everything loaded, and each client is a fork of it.

The suite starts this file as a program. It hands its words, its variables and its outputs to that process, waits for
the fork and ends as it ended.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator

_LENGTH = 8
_LOADED = ("conformance.client", "handrail.mcp.client.connection", "handrail.mcp.client.oauth")
"""Not by who knocks: that must be quick."""
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def knock(path: str, *words: str) -> int:
    """Have a client run. Its status; 1 if it ended without one."""
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
        said = json.dumps({"words": words, "variables": dict(os.environ)}).encode()
        socket.send_fds(door, [len(said).to_bytes(_LENGTH)], [1, 2])
        door.sendall(said)
        return (door.recv(1) or b"\1")[0]


def wait_for_clients(path: str) -> None:
    """Until this process is ended."""
    for each in _LOADED:
        importlib.import_module(each)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            door, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _run(door)
            door.close()


def _run(door: socket.socket) -> None:
    status = 1
    try:
        length, outputs, _, _ = socket.recv_fds(door, _LENGTH, 2)
        asked = json.loads(door.recv(int.from_bytes(length), socket.MSG_WAITALL))
        for fd, output in enumerate(outputs, start=1):
            os.dup2(output, fd)
        os.environ.clear()
        os.environ.update(asked["variables"])
        client = importlib.import_module("conformance.client")
        status = client.asyncio.run(client.main(asked["words"][-1]))
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        door.sendall(bytes([status]))
        os._exit(status)


@contextlib.contextmanager
def warm_client() -> Iterator[str]:
    """The command that the suite is to start for a client."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        path = f"{folder}/door"
        words = f"from conformance.warm import wait_for_clients; wait_for_clients({path!r})"
        program = [sys.executable, "-c", words]
        with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as process:
            try:
                assert process.stdout is not None
                if process.stdout.readline() != b"ready\n":
                    raise RuntimeError("the process that clients are forked from did not start")
                yield f"{sys.executable} -I -S {__file__} {path}"
            finally:
                os.killpg(process.pid, 9)


if __name__ == "__main__":
    sys.exit(knock(*sys.argv[1:]))
