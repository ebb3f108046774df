"""`handrail mcp serve --offer search`: two tools in place of hundreds, with the official client on the other side."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

import mcp_types
import pytest
from mcp import Client, StdioServerParameters

from handrail.config.load import load_config
from handrail.journal.reader import JournalReader
from tests import prestarted
from tests.app.app_folder import AppFolder
from tests.cli.journal_fixtures import run
from tests.mcp.servers.described_server import tool

READ: dict[str, Any] = {"annotations": {"readOnlyHint": True}}
TO = {"inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}}


WRONG: tuple[dict[str, Any], ...] = (
    {"name": "pay", "arguments": {"to": 3}},
    {"name": "no_such_tool"},
    {"name": "call_tool", "arguments": {"name": "pay"}},
    {"name": 3},
    {"arguments": {}},
    {"name": "pay", "arguments": "x"},
)


@pytest.fixture
def place(tmp_path: Path) -> AppFolder:
    place = AppFolder(tmp_path)
    place.approvals = type(place.approvals)(tmp_path / "home" / "handrail")
    many = (tool(f"lookup_{number}", f"Look up the record number {number}.", **READ) for number in range(500))
    path = place.config(place.server("demo", *many, tool("pay", "Pay a person some money.", **TO)))
    place.approvals.approve(path, "demo", load_config(path).mcp["demo"].endpoint, by="ada")
    return place


def text_of(result: Any) -> str:
    return "".join(each.text for each in result.content if isinstance(each, mcp_types.TextContent))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_call_through_call_tool_is_the_call_of_the_tool_that_it_names(
    place: AppFolder, mode: Literal["auto", "legacy"]
) -> None:
    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> mcp_types.ElicitResult:
        asked.append(params.message)
        return mcp_types.ElicitResult(action="accept", content={"allow": True})

    python, *rest = prestarted.command()
    server = StdioServerParameters(
        command=python,
        args=[*rest, "-m", "handrail", "mcp", "serve", "--offer", "search"],
        cwd=place.folder,
        env={"XDG_STATE_HOME": str(place.folder / "home"), "PATH": os.environ["PATH"]},
    )
    async with Client(server, mode=mode, elicitation_callback=elicit) as client:
        listed = (await client.list_tools()).tools
        found = json.loads(text_of(await client.call_tool("find_tools", {"query": "pay a person money", "count": 3})))
        paid = await client.call_tool("call_tool", {"name": "pay", "arguments": {"to": "ada"}})
        wrong = [await client.call_tool("call_tool", arguments) for arguments in WRONG]

    assert [each.name for each in listed] == ["find_tools", "call_tool"]
    assert found[0] == {
        "name": "pay",
        "description": "Pay a person some money.",
        "input_schema": TO["inputSchema"],
        "side_effects": True,
    }
    assert (paid.is_error, json.loads(text_of(paid))["to"]) == (False, "ada")
    assert (len(asked) == 1 and "demo:pay" in asked[0]) or "'pay'" in asked[0]
    assert [each.is_error for each in wrong] == [True] * len(wrong)
    assert "find_tools" in text_of(wrong[1])
    with JournalReader(place.folder / ".handrail" / "journal.db") as reader:
        calls = [call for summary in reader.runs() for call in reader.calls(summary.run)]
    assert [call.tool for call in calls if call.answer is not None and call.answer.outcome == "ok"] == [
        "find_tools",
        "demo:pay",
    ]


def test_a_tool_of_such_a_name_is_refused_at_the_start(place: AppFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(place.folder / "home"))
    (place.folder / "mine.py").write_text("from handrail import tool\n\n@tool\ndef call_tool() -> str:\n    'X.'\n")

    done = run("mcp", "serve", "--offer", "search", "--tools", "mine.py")

    assert (done.exit_code, "'call_tool'" in done.stderr) == (1, True)
