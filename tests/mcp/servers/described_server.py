"""A server whose tools, resources and prompts are a JSON file, read again for each listing: `described_server.py FILE`.

Each start is noted in `FILE.started`. It speaks the handshake era and uses nothing but the standard library, so that
it starts at once.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def tool(name: str, description: str = "", **facts: Any) -> dict[str, Any]:
    """A tool as a server lists one; its call is answered with its arguments."""
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **facts}


def command(file: Path) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), str(file)]


def describe(file: Path, *tools: dict[str, Any], **more: Any) -> Path:
    file.write_text(json.dumps({"tools": tools, **more}), encoding="utf-8")
    return file


def starts(file: Path) -> int:
    noted = Path(f"{file}.started")
    return len(noted.read_text(encoding="utf-8").splitlines()) if noted.exists() else 0


def _answer(file: Path, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    facts = json.loads(file.read_text(encoding="utf-8"))
    resources, prompts = facts.get("resources", {}), facts.get("prompts", {})
    match method:
        case "initialize":
            capabilities = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
            info = {"name": "described", "version": "1.2"}
            return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            return {"tools": facts["tools"]}
        case "tools/call":
            said = {"name": params["name"], "pid": os.getpid(), **(params.get("arguments") or {})}
            return {"content": [{"type": "text", "text": json.dumps(said)}]}
        case "resources/list":
            return {"resources": [{"uri": uri, "name": uri} for uri in resources]}
        case "resources/templates/list":
            return {"resourceTemplates": []}
        case "resources/read" if params["uri"] in resources:
            return {"contents": [{"uri": params["uri"], "text": resources[params["uri"]]}]}
        case "prompts/list":
            return {
                "prompts": [
                    {"name": name, "arguments": [{"name": "city", "required": True}] if "{city}" in text else []}
                    for name, text in prompts.items()
                ]
            }
        case "prompts/get" if params["name"] in prompts:
            words = prompts[params["name"]].replace("{city}", (params.get("arguments") or {}).get("city", ""))
            return {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}
    return None


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main(file: Path) -> None:
    with Path(f"{file}.started").open("a", encoding="utf-8") as noted:
        noted.write(f"{os.getpid()}\n")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer = _answer(file, message["method"], message.get("params") or {})
        if answer is None:
            _say({"id": message["id"], "error": {"code": -32602, "message": f"no {message['method']} of that"}})
        else:
            _say({"id": message["id"], "result": answer})
        if message["method"] == "tools/call" and message["params"]["name"] == "renew":
            _say({"method": "notifications/tools/list_changed"})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
