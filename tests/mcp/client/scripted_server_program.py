"""A server written by hand, so that it starts at once and can say what no decent server would.

    python stall.py FOLDER

`FOLDER/pages.json` has its tools: a list of pages, read anew for each listing.
`FOLDER/log` gets a line for what it is told. It speaks the protocol of 2025-11-25.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def note(*words: object) -> None:
    with (FOLDER / "log").open("a", encoding="utf-8") as log:
        log.write(" ".join(map(str, words)) + "\n")


def listing(cursor: str | None) -> dict[str, Any]:
    note("list", cursor)
    pages = json.loads((FOLDER / "pages.json").read_text(encoding="utf-8"))
    if pages == "endless":
        return {"tools": [], "nextCursor": "again"}
    number = int(cursor or 0)
    more = {"nextCursor": str(number + 1)} if number + 1 < len(pages) else {}
    return {"tools": pages[number] if pages else [], **more}


def call(id: int, params: dict[str, Any]) -> dict[str, Any] | None:
    """The answer to a call, or none."""
    arguments = params.get("arguments") or {}
    meta = params.get("_meta", {})
    note("call", params["name"], meta.get("dev.handrail/idempotency-key"))
    match arguments.get("do"):
        case "hang":
            token = {"progressToken": meta["progressToken"], "progress": 1, "total": 4, "message": "cutting"}
            say({"method": "notifications/progress", "params": token})
            return None
        case "die":
            os._exit(3)
        case "die once" if not (FOLDER / "died").exists():
            (FOLDER / "died").touch()
            os._exit(3)
        case "change":
            (FOLDER / "pages.json").write_text(json.dumps(arguments["pages"]), encoding="utf-8")
            for _ in range(arguments.get("times", 1)):
                say({"method": "notifications/tools/list_changed"})
        case "refuse":
            return {"error": {"code": arguments["code"], "message": "not this way"}}
        case "give":
            return {"result": arguments["result"]}
    return {"result": {"content": [{"type": "text", "text": f"done by {os.getpid()}"}]}}


def answer(id: int, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "result": {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "stall", "version": "1"},
                }
            }
        case "ping":
            return {"result": {}}
        case "tools/list":
            return {"result": listing(params.get("cursor"))}
        case "tools/call":
            return call(id, params)
    return {"error": {"code": -32601, "message": f"no {method} here"}}


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            note(message["method"])
        elif "method" in message:
            said = answer(message["id"], message["method"], message.get("params") or {})
            if said is not None:
                say({"id": message["id"], **said})


main()
