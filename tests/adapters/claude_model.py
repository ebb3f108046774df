"""A service that speaks Anthropic's Messages for Claude Code: its model makes the calls of a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

Calls = dict[str, dict[str, Any]]
"""The arguments of each call, by the name of its tool."""


class ScriptedClaude:
    """For each prompt it makes the next calls of the script, and says then what it was told."""

    def __init__(self, *script: Calls) -> None:
        self.script = list(script)
        self.told: list[Any] = []
        """The results of the last calls, as the service was sent them."""
        self.failed: list[bool] = []

    def reply(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        content = [each for each in request["messages"] if each["role"] == "user"][-1]["content"]
        results = [each for each in content if isinstance(each, dict) and each.get("type") == "tool_result"]
        if results and results[-1] is content[-1]:
            self.told = [each.get("content") for each in results]
            self.failed = [bool(each.get("is_error")) for each in results]
            return [{"type": "text", "text": "\n".join(map(_words, self.told)) or "Nothing."}]
        if not request.get("tools") or not self.script:
            return [{"type": "text", "text": "Done."}]
        calls = self.script.pop(0)
        return [
            {"type": "tool_use", "id": f"toolu_{uuid4().hex}", "name": name, "input": given}
            for name, given in calls.items()
        ]


def _words(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(each.get("text", "") for each in content)


@contextmanager
def serving(model: Any) -> Iterator[str]:
    """The address of the service."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self._send(b"", "text/plain")

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if request.get("stream"):
                self._send("".join(_events(model.reply(request))).encode(), "text/event-stream")
            else:
                self._send(json.dumps(_message(model.reply(request))).encode(), "application/json")

        def _send(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _message(content: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    calls = any(each["type"] == "tool_use" for each in content)
    head = {
        "id": f"msg_{uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": "claude-scripted",
        "usage": usage,
    }
    return {**head, "content": content, "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}


def _events(content: list[dict[str, Any]]) -> Iterator[str]:
    whole = _message(content)
    yield _event("message_start", message={**whole, "content": [], "stop_reason": None})
    for index, block in enumerate(content):
        if block["type"] == "text":
            begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            begun = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield _event("content_block_start", index=index, content_block=begun)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage={"output_tokens": 1})
    yield _event("message_stop")


def _event(kind: str, **facts: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **facts})}\n\n"


def environment(address: str, home: str) -> dict[str, str]:
    """The variables with which Claude Code asks this service and no other, and keeps all that it keeps in a folder."""
    return {
        "HOME": home,
        "CLAUDE_CONFIG_DIR": home,
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "NO_PROXY": "127.0.0.1",
    }
