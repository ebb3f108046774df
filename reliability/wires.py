"""Stands between two processes, passes on what they say, and may have one of them killed before a message arrives."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from reliability.moments import Moment

STDIO_END = Path(__file__).with_name("stdio_end.py")
Kill = Callable[[str, Moment], None]


class Wire:
    """Counts the messages between two processes, in both directions together."""

    def __init__(self, near: str, far: str, kill: Kill, death: Moment | None) -> None:
        """`near` is who opens it."""
        self.name = f"{near} ⇄ {far}"
        self.seen: list[Moment] = []
        """The moments of this wire that have passed: two for each message, one for each of its ends."""
        self._ends = near, far
        self._kill = kill
        self._death = death if death is not None and death.place == self.name else None
        self._lock = threading.Lock()

    def passes(self, data: bytes, *, out: bool) -> None:
        """A message is on its way, from the near end if `out`; it is delivered when this returns."""
        sender, receiver = self._ends if out else reversed(self._ends)
        with self._lock:
            for victim in (receiver, sender):
                moment = Moment(victim, self.name, len(self.seen), f"{sender} → {receiver}: {_gist(data)}")
                self.seen.append(moment)
                if self._death is not None and self._death.number == moment.number:
                    self._kill(victim, moment)

    def spare(self) -> None:
        """Let nobody be killed from here on."""
        self._death = None

    def pump(self, source: int, sink: int, *, out: bool, lines: bool) -> None:
        """Pass on until either end is gone; whole lines, or whatever comes at once."""
        rest = b""
        with suppress(OSError):
            while data := os.read(source, 1 << 16):
                *whole, rest = (rest + data).split(b"\n") if lines else (data, b"")
                for message in whole:
                    self.passes(message, out=out)
                    _write(sink, message + b"\n" if lines else message)


def _write(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


def _gist(data: bytes) -> str:
    """A message in a few words, for whoever reads which moment it was."""
    for word in (b'"method":"', b'"method": "'):
        if word in data:
            return data.partition(word)[2].partition(b'"')[0].decode()
    head = data.partition(b"\r\n")[0]
    if b" HTTP/1.1" in head or head.startswith(b"HTTP/1.1 "):
        return head[:60].decode(errors="replace")
    return "result" if b'"result"' in data else "error" if b'"error"' in data else f"{len(data)} bytes"


class StdioWire(Wire):
    """For a client that starts its server by a command: `command` is what it starts, and `begin` starts the server."""

    def __init__(
        self,
        near: str,
        far: str,
        kill: Kill,
        death: Moment | None,
        path: Path,
        begin: Callable[[socket.socket], Callable[[], None]],
    ) -> None:
        """`begin` gets what becomes the server's input and output, and gives what ends the server."""
        super().__init__(near, far, kill, death)
        self.command = [sys.executable, "-IS", str(STDIO_END), str(path)]
        self._begin = begin
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind(str(path))
        self._door.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                end, _ = self._door.accept()
                threading.Thread(target=self._serve, args=(end,), daemon=True).start()

    def _serve(self, end: socket.socket) -> None:
        _, (source, sink), _, _ = socket.recv_fds(end, 1, 2)
        ours, theirs = socket.socketpair()
        stop = self._begin(theirs)
        theirs.close()
        there = threading.Thread(target=self._to_server, args=(source, ours), daemon=True)
        there.start()
        threading.Thread(target=self._watch, args=(end, stop), daemon=True).start()
        self.pump(ours.fileno(), sink, out=False, lines=True)
        os.close(sink)
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)  # the server is gone, so what was started in its place ends
        there.join()
        ours.close()

    def _to_server(self, source: int, ours: socket.socket) -> None:
        self.pump(source, ours.fileno(), out=True, lines=True)
        os.close(source)
        with suppress(OSError):
            ours.shutdown(socket.SHUT_WR)

    def _watch(self, end: socket.socket, stop: Callable[[], None]) -> None:
        """What the client started may be ended by it with a signal; then the server is, too."""
        with suppress(OSError):
            end.recv(1)
        stop()
        end.close()

    def close(self) -> None:
        self._door.close()


class TcpWire(Wire):
    """For a client that connects: what comes to `port` goes to `target`, where the server listens."""

    def __init__(self, near: str, far: str, kill: Kill, death: Moment | None, target: int) -> None:
        super().__init__(near, far, kill, death)
        self._target = target
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._door.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            near.close()
            return
        for one, other, out in ((near, far, True), (far, near, False)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._pass, args=(one, other, out), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, out: bool) -> None:
        self.pump(one.fileno(), other.fileno(), out=out, lines=False)
        for each, how in ((other, socket.SHUT_WR), (one, socket.SHUT_RD)):
            with suppress(OSError):
                each.shutdown(how)

    def close(self) -> None:
        self._door.close()
