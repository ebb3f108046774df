"""A model's service that says a reply piece by piece, as a test lets it: to see what is shown while it writes."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.desk.page.page_node import PATIENCE

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
_BUSY = b"HTTP/1.1 503 Busy\r\nRetry-After-Ms: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class ScriptedModelService:
    """As OpenAI's chat completions, one request after the other. What it was asked is in `asked`."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._said: queue.Queue[bytes | None] = queue.Queue()
        self.asked: queue.Queue[dict[str, Any]] = queue.Queue()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._serve, name="service")
        self._thread.start()

    def refuse(self) -> None:
        """The next request is told to come again."""
        self._said.put(_BUSY)
        self._said.put(None)

    def begin(self) -> None:
        self._said.put(_HEAD)

    def say(self, **delta: Any) -> None:
        """One piece of the reply, at once."""
        self._event({"choices": [{"index": 0, "delta": delta}]})

    def call(self, arguments: str, name: str = "") -> None:
        """A piece of a call: with its name it begins."""
        begun = {"id": "call_1", "type": "function"} if name else {}
        function = {"arguments": arguments, **({"name": name} if name else {})}
        self.say(tool_calls=[{"index": 0, "function": function, **begun}])

    def end(self, why: str = "stop") -> None:
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": why}]})
        self._said.put(b"data: [DONE]\n\n")
        self._said.put(None)

    def answer(self, text: str) -> None:
        self.begin()
        self.say(content=text)
        self.end()

    def _event(self, event: dict[str, Any]) -> None:
        self._said.put(b"data: " + json.dumps({"id": "r", "model": "slow", **event}).encode() + b"\n\n")

    def close(self) -> None:
        self._said.put(None)
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(PATIENCE)

    def _serve(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError:  # closed
                return
            with line, line.makefile("rb") as reader:
                line.settimeout(PATIENCE)
                head = dict(_header(each) for each in iter(reader.readline, b"\r\n"))
                self.asked.put(json.loads(reader.read(int(head["content-length"]))))
                while (piece := self._said.get(timeout=PATIENCE)) is not None:
                    line.sendall(piece)


def _header(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode().partition(":")
    return name.lower(), value.strip()


@contextmanager
def service() -> Iterator[ScriptedModelService]:
    found = ScriptedModelService()
    try:
        yield found
    finally:
        found.close()
