"""A server in JSON lines that does whatever a test wants of it: run as a program, with how to begin as arguments.

`raw.py modern|legacy [mute | dies | slow_start] [--log FILE]`. Tools are named after what they do. It uses nothing
but the standard library, so that it starts at once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
BIG = 30 * 1024 * 1024

TOOLS = [
    {"name": "echo", "inputSchema": {"type": "object"}},
    {
        "name": "pattern",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}},
    },
    {
        "name": "elsewhere",
        "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "$ref": "http://127.0.0.1:1/schema.json"},
    },
]


class RawStdioServer:
    def __init__(self, era: str, begin: str, log: str | None) -> None:
        self.modern = era == "modern"
        self.begin = begin
        self.log = log
        self.cancelled: list[Any] = []
        self.listening: Any = None

    def run(self) -> None:
        if self.begin == "dies":
            sys.exit("no database at the given address")
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if self.begin != "mute":
                self.hear(message.get("method"), message.get("id"), message.get("params") or {})

    def hear(self, method: str, id: Any, params: dict[str, Any]) -> None:
        match method:
            case "server/discover" if self.modern:
                self.answer(id, {"supportedVersions": [MODERN], "capabilities": self.abilities(), **self.cached()})
            case "initialize" if not self.modern:
                info = {"name": "raw", "version": "1"}
                capabilities = self.abilities()
                self.answer(id, {"protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": info})
            case "tools/list":
                self.listed(id, params)
            case "tools/call":
                self.note(params["name"])
                getattr(self, params["name"])(id, params.get("arguments") or {})
            case "notifications/cancelled":
                self.cancelled.append(params["requestId"])
            case "resources/list":
                self.answer(id, {"resources": [{"uri": "file:///a", "name": "a"}], **self.cached()})
            case "resources/subscribe":
                self.answer(id, {})
                self.say({"method": "notifications/resources/updated", "params": {"uri": params["uri"]}})
            case "subscriptions/listen":
                self.listening = id
                asked = params["notifications"]
                self.tell("notifications/subscriptions/acknowledged", notifications=asked)
                for uri in asked.get("resourceSubscriptions") or ():
                    self.tell("notifications/resources/updated", uri=uri)
            case _ if id is not None:
                self.say({"id": id, "error": {"code": -32601, "message": f"no {method}"}})

    # ── how it speaks ────────────────────────────────────────────────────────────────

    def abilities(self) -> dict[str, Any]:
        return {"tools": {"listChanged": True}, "resources": {"subscribe": True}}

    def cached(self) -> dict[str, Any]:
        return {"ttlMs": 0, "cacheScope": "private"} if self.modern else {}

    def raw(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def say(self, message: dict[str, Any]) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def tell(self, method: str, **params: Any) -> None:
        meta = {"io.modelcontextprotocol/subscriptionId": self.listening}
        self.say({"method": method, "params": {**params, **({"_meta": meta} if self.modern else {})}})

    def answer(self, id: Any, result: dict[str, Any]) -> None:
        self.say({"id": id, "result": {**({"resultType": "complete"} if self.modern else {}), **result}})

    def text(self, id: Any, text: str) -> None:
        self.answer(id, {"content": [{"type": "text", "text": text}]})

    def note(self, what: str) -> None:
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(f"{what}\n")

    def listed(self, id: Any, params: dict[str, Any]) -> None:
        self.note("tools/list")
        if self.begin == "long_list":
            tools = [{**TOOLS[0], "description": "x" * BIG}]
        elif self.begin == "many":
            tools = [{**TOOLS[0], "name": f"tool{number}"} for number in range(20_000)]
        elif self.begin == "twins":
            tools = [TOOLS[0], TOOLS[0]]
        else:
            tools = TOOLS
        self.answer(id, {"tools": tools, **self.cached()})

    # ── what it does ─────────────────────────────────────────────────────────────────

    def echo(self, id: Any, given: dict[str, Any]) -> None:
        self.text(id, json.dumps(given))

    def pid(self, id: Any, given: dict[str, Any]) -> None:
        self.text(id, str(os.getpid()))

    def environment(self, id: Any, given: dict[str, Any]) -> None:
        self.text(id, json.dumps(dict(os.environ)))

    def die(self, id: Any, given: dict[str, Any]) -> None:
        os._exit(3)

    def die_once(self, id: Any, given: dict[str, Any]) -> None:
        """Dies when it is asked for the first time, and answers whoever asks again."""
        if os.path.exists(given["mark"]):
            return self.text(id, "alive")
        open(given["mark"], "w").close()
        os._exit(3)

    def hush(self, id: Any, given: dict[str, Any]) -> None:
        """Closes its output and lives on."""
        os.close(1)
        if "ignore" in given:
            import signal

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(60)

    def fork(self, id: Any, given: dict[str, Any]) -> None:
        """Leaves a child behind that ignores what it is told."""
        child = os.fork()
        if child == 0:
            import signal

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(60)
        self.text(id, str(child))

    def silent(self, id: Any, given: dict[str, Any]) -> None:
        """Never answers."""

    def deaf(self, id: Any, given: dict[str, Any]) -> None:
        """Never reads again."""
        while True:
            time.sleep(60)

    def given_up(self, id: Any, given: dict[str, Any]) -> None:
        self.text(id, json.dumps(self.cancelled))

    def big(self, id: Any, given: dict[str, Any]) -> None:
        self.text(id, "x" * given["size"])

    def big_backwards(self, id: Any, given: dict[str, Any]) -> None:
        """As servers in JavaScript write it: the id comes last."""
        head = b'{"result":{"resultType":"complete","content":[{"type":"text","text":"'
        self.raw(head + b"x" * given["size"] + b'"}]},"jsonrpc":"2.0","id":' + json.dumps(id).encode() + b"}\n")

    def big_nameless(self, id: Any, given: dict[str, Any]) -> None:
        self.raw(b'{"jsonrpc":"2.0","result":"' + b"x" * given["size"] + b'"}\n')

    def endless(self, id: Any, given: dict[str, Any]) -> None:
        while True:
            self.raw(b"x" * 65536)

    def dense(self, id: Any, given: dict[str, Any]) -> None:
        self.answer(id, {"content": [], "structuredContent": {"a": [[]] * given["count"]}})

    def crowded(self, id: Any, given: dict[str, Any]) -> None:
        self.answer(id, {"content": [{"type": "text", "text": "x"}] * given["count"]})

    def half(self, id: Any, given: dict[str, Any]) -> None:
        """Half of a surrogate pair, as JSON."""
        content = b'"content":[{"type":"text","text":"a\\ud83db"}]'
        kind = b'"resultType":"complete",' if self.modern else b""
        self.raw(b'{"jsonrpc":"2.0","id":' + json.dumps(id).encode() + b',"result":{' + kind + content + b"}}\n")

    def broken(self, id: Any, given: dict[str, Any]) -> None:
        """Bytes that are no UTF-8, in a line that is no JSON either."""
        self.raw(b'{"jsonrpc":"2.0","id":' + json.dumps(id).encode() + b',"result":{"content":[\xff\xfe\n')

    def latin(self, id: Any, given: dict[str, Any]) -> None:
        """Bytes that are no UTF-8, in what is JSON otherwise."""
        kind = b'"resultType":"complete",' if self.modern else b""
        content = b'"content":[{"type":"text","text":"gr\xfc\xdfe"}]'
        self.raw(b'{"jsonrpc":"2.0","id":' + json.dumps(id).encode() + b',"result":{' + kind + content + b"}}\n")

    def chatty(self, id: Any, given: dict[str, Any]) -> None:
        """Prints where it should not, then answers."""
        self.raw(b"loading the model ...\n[1, 2, 3]\n\n{}\n" + b"\x00\x01\xff\n")
        self.text(id, "done")

    def odd(self, id: Any, given: dict[str, Any]) -> None:
        """An answer that is no result of a call."""
        self.answer(id, {"content": "text"})

    def plain(self, id: Any, given: dict[str, Any]) -> None:
        """A result without its `resultType`."""
        self.say({"id": id, "result": {"content": [{"type": "text", "text": "plain"}]}})

    def refuse(self, id: Any, given: dict[str, Any]) -> None:
        self.say({"id": id, "error": {"code": given["code"], "message": given["message"]}})

    def pattern(self, id: Any, given: dict[str, Any]) -> None:
        self.answer(id, {"content": [], "structuredContent": {"a": "a" * 60 + "!"}})

    def elsewhere(self, id: Any, given: dict[str, Any]) -> None:
        self.answer(id, {"content": [], "structuredContent": {"a": 1}})

    def storm(self, id: Any, given: dict[str, Any]) -> None:
        for _ in range(given["count"]):
            self.tell("notifications/tools/list_changed")
        self.text(id, "calm")

    def stop_listening(self, id: Any, given: dict[str, Any]) -> None:
        """Ends the stream of notices in order."""
        self.answer(self.listening, {})
        self.text(id, "stopped")


def main() -> None:
    era, *rest = sys.argv[1:]
    log = rest.pop(rest.index("--log") + 1) if "--log" in rest else None
    begin = next((each for each in rest if not each.startswith("--")), "")
    RawStdioServer(era, begin, log).run()


if __name__ == "__main__":
    main()
