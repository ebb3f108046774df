"""Clients that begin warm, to be quick: one process has everything loaded, and each client is a fork of it.

The suite starts this file as a program. It hands its words, its variables and its outputs to that process, waits for
the fork and ends as it ended.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

_AT_ONCE = 2
"""However many the suite starts: on a small machine they would take too long for their own patience."""
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
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        running = 0
        while True:
            door, _ = listener.accept()
            if running == _AT_ONCE:
                os.wait()
                running -= 1
            if os.fork() == 0:
                listener.close()
                _run(door, path)
            door.close()
            running += 1


def _run(door: socket.socket, path: str) -> None:
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
        with open(f"{path}.ended", "a") as ended:
            ended.write(f"{status} {os.environ.get('MCP_CONFORMANCE_SCENARIO', '')}\n")
        door.sendall(bytes([status]))
        os._exit(status)


@dataclass(frozen=True, slots=True)
class WarmClient:
    path: str

    @property
    def command(self) -> str:
        """What the suite is to start for a client."""
        return f"{sys.executable} -I -S {__file__} {self.path}"

    def ended(self) -> dict[str, int]:
        """How the client of each scenario ended: if there were several, the worst."""
        found: dict[str, int] = {}
        with open(f"{self.path}.ended") as file:
            for status, scenario in map(str.split, file):
                found[scenario] = max(int(status), found.get(scenario, 0))
        return found


@contextlib.contextmanager
def warm_client() -> Iterator[WarmClient]:
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        path = f"{folder}/door"
        words = f"from conformance.warm import wait_for_clients; wait_for_clients({path!r})"
        program = [sys.executable, "-c", words]
        with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True) as process:
            try:
                assert process.stdout is not None
                if process.stdout.readline() != b"ready\n":
                    raise RuntimeError("the process that clients are forked from did not start")
                yield WarmClient(path)
            finally:
                os.killpg(process.pid, 9)


if __name__ == "__main__":
    sys.exit(knock(*sys.argv[1:]))
