"""Stands for a program that the host runs: its signals go there, and it ends as the program does."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(address: str, imports: str, arguments: list[str]) -> None:
    host = socket.socket(socket.AF_UNIX)
    host.connect(address)
    given = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    asked = json.dumps({"imports": [name for name in imports.split(",") if name], **given}).encode()
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)  # until there is somebody to pass them on to
    socket.send_fds(host, [len(asked).to_bytes(4, "big")], [0, 1, 2])
    host.sendall(asked)
    answers = host.makefile("rb")
    child = int(answers.readline())
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # the program alone holds them, so that their ends are seen
        os.dup2(nothing, stream)
    for passed in PASSED_ON:
        signal.signal(passed, lambda number, frame: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    status = int(answers.readline() or 9)
    if os.WIFSIGNALED(status):
        ended_by = os.WTERMSIG(status)
        if ended_by != signal.SIGKILL:
            signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
    os._exit(os.waitstatus_to_exitcode(status))


main(sys.argv[1], sys.argv[2], sys.argv[3:])
