"""A model on this machine that says what a script says, over OpenAI's Chat Completions, and keeps what it was asked.

The programs beside this one put the same replies to each framework. It needs nothing but Python.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Thread
from typing import Any

MODEL = "scripted"
Call = tuple[str, dict[str, Any]]
_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


class Service:
    """Where it is, and the messages of each request."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[list[dict[str, Any]]] = []

    @property
    def results(self) -> list[str]:
        """What the model read in the last request as results of its calls."""
        return [_text(message["content"]) for message in self.asked[-1] if message["role"] == "tool"]

    @property
    def unanswered(self) -> int:
        """Calls of the last request that have no result. A real service answers such a request with 400."""
        last = self.asked[-1]
        calls = [call["id"] for message in last for call in message.get("tool_calls") or ()]
        return len(calls) - len([message for message in last if message["role"] == "tool"])


@contextmanager
def model(
    *replies: list[Call], same_id: bool = False, for_ever: bool = False, answers: Sequence[dict[str, Any]] = ()
) -> Generator[Service]:
    """One reply a request: some calls. Then, or if no tools are offered, it says "done".

    Of `answers`, which are values, each request gets one, in the way that it asks for: by a schema for the reply, or by
    a tool that takes the answer.
    """
    service, left, numbers = Service(), list(replies), count(1)

    def message(body: dict[str, Any]) -> dict[str, Any]:
        service.asked.append(body["messages"])
        if answers:
            answer = answers[min(len(service.asked), len(answers)) - 1]
            if "response_format" in body:
                return {"role": "assistant", "content": json.dumps(answer)}
            takes = body["tools"][-1]["function"]["name"]
            return {"role": "assistant", "content": None, "tool_calls": [_call(f"call_{next(numbers)}", takes, answer)]}
        if not left or not body.get("tools") or body.get("tool_choice") == "none":
            return {"role": "assistant", "content": "done"}
        calls = left[0] if for_ever else left.pop(0)
        made = [_call("call_1" if same_id else f"call_{next(numbers)}", *call) for call in calls]
        return {"role": "assistant", "content": None, "tool_calls": made}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            choice = {"index": 0, "message": message(body), "finish_reason": "stop"}
            reply = {"id": "1", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice]}
            data = json.dumps(reply | {"usage": _USAGE}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    service.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()


def _call(id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
