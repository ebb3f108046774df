"""A model service on this machine, for pages and programs that name a real one.

A clerk answers there: it calls the tool whose name the request is about, with the numbers and names
that it finds in it, and then tells what the tool said. It speaks every wire of `tests.wires`, and is
put in the place of a service by its address alone, so that a page shows what a reader would type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import Any

import pytest
from msgspec.structs import replace

from handrail.models.api_keys import key_variables
from handrail.models.services import SERVICES
from tests.docs.pages import Page
from tests.wires.scripted_service import KINDS, frame
from tests.wires.wire_dialogue import (
    OfferedTool,
    ScriptedReply,
    UnderstoodRequest,
    WireCall,
    WireCase,
    WireHttpRequest,
)
from tests.wires.wire_table import WIRES

_NAMED = re.compile(r"<!-- service: (?P<name>[\w-]+) -->")
_NUMBER = re.compile(r"\d+")
_NAME = re.compile(r"(?<=\w )[A-Z]\w+")
Answer = Callable[[UnderstoodRequest, str], ScriptedReply]
"""What is said to a request; the text is an id for the next call."""
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing", "AWS_REGION": "eu-central-1"}


@contextmanager
def service_of(page: Page, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have the service that a page names be the clerk, if it names one."""
    name = service_named(page)
    if name is None:
        yield
        return
    with local_model_service() as url:
        point_service_at(name, url, patch)
        yield


def service_named(page: Page) -> str | None:
    found = _NAMED.search(page.prose)
    return found["name"] if found else None


def point_service_at(name: str, url: str, patch: pytest.MonkeyPatch) -> None:
    """From now on, the address of a service is the clerk's, and there is a key for it."""
    service, wire = SERVICES[name], WIRES[name]
    patch.setitem(SERVICES, name, replace(service, base_url=f"{url}/{wire.name}{wire.root}"))
    for variable in key_variables(service.key_of or name):
        patch.setenv(variable, wire.key) if wire.key else patch.delenv(variable, raising=False)
    for variable, value in CREDENTIALS.items():
        patch.setenv(variable, value)


@contextmanager
def local_model_service(answer: Answer | None = None, midway: Callable[[], object] | None = None) -> Iterator[str]:
    """The address of a clerk, with the name of a wire as the first part of each path.

    Args:
        answer: What is said to a request, in place of what the clerk says.
        midway: Called when half of a streamed text has been sent; the other half waits for its return.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer or reply, midway))
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def reply(heard: UnderstoodRequest, id: str) -> ScriptedReply:
    """What the clerk says to a request."""
    if heard.results:
        return ScriptedReply(" ".join(_words(result.content) for result in heard.results))
    if not heard.offers:
        return ScriptedReply("Hello!")
    asked = heard.words.splitlines()[-1]
    offer = max(heard.offers, key=lambda each: _fits(each, asked))
    return ScriptedReply(calls=(WireCall(id, offer.name, _arguments(offer, asked)),))


def _words(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)


def _fits(offer: OfferedTool, asked: str) -> int:
    words = set(re.findall(r"[a-z]+", asked.lower()))
    return len(words.intersection(re.split(r"[^a-z]+", offer.name.lower())))


def _arguments(offer: OfferedTool, asked: str) -> dict[str, Any]:
    numbers, names = iter(_NUMBER.findall(asked)), iter(_NAME.findall(asked))
    found: dict[str, Any] = {}
    for name, schema in offer.schema["properties"].items():
        if name in offer.schema.get("required", ()):
            found[name] = int(next(numbers)) if schema.get("type") == "integer" else next(names, None) or next(numbers)
    return found


def _handler(answer: Answer, midway: Callable[[], object] | None) -> type[BaseHTTPRequestHandler]:
    numbers = count(1)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            wire = WIRES[self.path.split("/")[1]]
            data = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            try:
                heard = wire.hear(
                    WireHttpRequest(self.path.removeprefix(f"/{wire.name}{wire.root}"), headers, json.loads(data))
                )
                said = answer(heard, wire.gives_ids.format(next(numbers)))
            except Exception as wrong:  # the program that asked shows it
                self._send(400, "application/json", json.dumps({"error": {"message": repr(wrong)}}).encode())
                return
            wait = midway if heard.streams and said.text and not said.calls else None
            self._send(200, *_written(wire, said, heard.streams), wait)

        def _send(self, status: int, kind: str, data: bytes, wait: Callable[[], object] | None = None) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            half = data.index(b"\n\n", len(data) // 2) if wait else 0
            self.wfile.write(data[:half])
            if wait:
                wait()
            self.wfile.write(data[half:])

        def log_message(self, format: str, *arguments: object) -> None: ...

    return Handler


def _written(wire: WireCase, said: ScriptedReply, stream: bool) -> tuple[str, bytes]:
    events = wire.write(said, stream)
    if not stream:
        return "application/json", json.dumps(events[0]).encode()
    end = b"data: [DONE]\n\n" if wire.framing == "done-sse" else b""
    return KINDS.get(wire.framing, "text/event-stream"), b"".join(frame(wire.framing, each) for each in events) + end
