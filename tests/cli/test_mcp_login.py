"""`handrail mcp login`: a person signs in with a browser, and every command after that is theirs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.cli.journal_fixtures import command, environment
from tests.mcp.client.authorization_server import AuthorizationServer, PersonWithBrowser, serving


class Guarded(AuthorizationServer):
    """An MCP server behind the authorization."""

    async def resource(self, request: Request) -> Response:
        refused = await super().resource(request)
        if refused.status_code != 200:
            return refused
        if request.method != "POST":
            return Response(status_code=405)
        message: dict[str, Any] = await request.json()
        info = {"name": "guarded", "version": "1"}
        answers: dict[str, Any] = {
            "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info},
            "tools/list": {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]},
        }
        if "id" not in message:
            return Response(status_code=202)
        if message["method"] not in answers:
            error = {"code": -32601, "message": "no such method"}
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": answers[message["method"]]})


async def _run(folder: Path, *words: str, person: PersonWithBrowser | None = None) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *command("mcp", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(XDG_STATE_HOME=str(folder / "home")),
        cwd=folder,
    )
    assert process.stderr is not None
    assert process.stdout is not None
    told = ""
    async with asyncio.timeout(60):
        while line := (await process.stderr.readline()).decode():
            told += line
            if person is not None and line.startswith("  http"):
                await person(line.strip())
        answered = (await process.stdout.read()).decode()
        return await process.wait(), answered, told


async def test_a_person_signs_in_and_later_commands_need_no_browser(tmp_path: Path) -> None:
    async with serving(Guarded()) as service:
        (tmp_path / "handrail.toml").write_text(f'[mcp.far]\nurl = "{service.url}"\noauth = true\n')

        unknown = await _run(tmp_path, "login", "far")
        approved = await _run(tmp_path, "approve", "far", "--yes")
        before = await _run(tmp_path, "list", "--json")
        person = PersonWithBrowser()
        signed = await _run(tmp_path, "login", "far", person=person)
        after = await _run(tmp_path, "list", "--json")
        revoked = await _run(tmp_path, "revoke", "far")

    assert (unknown[0], "handrail mcp approve far" in unknown[2]) == (1, True)
    assert "handrail mcp login far" in approved[2]
    assert json.loads(before[1])["state"] == "lost"
    assert "handrail mcp login far" in json.loads(before[1])["notes"][0]
    assert (signed[0], signed[1], person.pages) == (0, "Signed in to far\n", [200])
    assert (json.loads(after[1])["state"], json.loads(after[1])["tools"]) == ("ready", ["look"])
    assert (revoked[0], "signed out" in revoked[1]) == (0, True)


async def test_a_server_without_a_sign_in_is_told_apart(tmp_path: Path) -> None:
    (tmp_path / "handrail.toml").write_text('[mcp.near]\ncommand = "x"\n')

    code, _, told = await _run(tmp_path, "login", "near")

    assert (code, "has no sign-in" in told) == (1, True)
