"""A connection between two machines that is held: what is sent over it arrives when it is let go on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit


class HeldLink:
    """Passes connections on to a server. Once a client sends certain bytes nothing arrives any more; these do if
    `after` them."""

    def __init__(self, port: int, at: bytes, *, after: bool) -> None:
        self._after = after
        self.held: threading.Event = threading.Event()
        """Whether those bytes were sent."""
        self._port = port
        self._at = at
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, direct: str) -> str:
        """An address of the server, over this link."""
        parts = urlsplit(direct)
        return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{self._port}", f":{self.port}")))

    def let_go(self) -> None:
        self._open.set()

    def close(self) -> None:
        self._listener.close()
        self.let_go()

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                for ends in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, is_asking: bool) -> None:
        with suppress(OSError), source, target:
            while data := source.recv(65_536):
                if is_asking and self._at in data and not self.held.is_set():
                    self._open.clear()
                    if self._after:
                        target.sendall(data)
                        data = b""
                    self.held.set()
                self._open.wait()
                target.sendall(data)


@contextmanager
def held_link(port: int, at: bytes, *, after: bool) -> Iterator[HeldLink]:
    link = HeldLink(port, at, after=after)
    try:
        yield link
    finally:
        link.close()
