"""`handrail mcp serve` with the official client on the other side: tools, the model as a tool, and what can be read."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import mcp_types
import pytest
from mcp import Client, StdioServerParameters

from handrail.journal.reader import JournalReader
from tests import prestarted
from tests.app.app_folder import AppFolder
from tests.approved import approve
from tests.cli.journal_fixtures import command, environment, run
from tests.mcp.servers.described_server import tool

READ: dict[str, Any] = {"annotations": {"readOnlyHint": True}}
SCRIPT = """
[[reply]]
when = "pay"
calls = [{ name = "look", arguments = { n = 1 } }, { name = "pay", arguments = { to = "ada" } }]
[[reply]]
when = "pay"
text = "Paid."
[[reply]]
when = "hello"
text = "Hello again!"
"""
SERVE = """
default_model = "demo"
[models.demo]
provider = "scripted"
model = "script.toml"
[serve]
converse = { system = "Be brief.", tools = ["pay"] }
tools = ["demo:look"]
conversations = true
proofs = true
corpora = { manual = "docs" }
instructions = "A node for tests."
[serve.prompts.greet]
text = "Greet {name}."
"""
Mode = Literal["auto", "legacy"]


class Person:
    """Who sits at the client."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.progress: list[str] = []

    async def elicit(self, context: Any, params: Any) -> mcp_types.ElicitResult:
        self.asked.append(params.message)
        action: Any = self.answers.pop(0)
        return mcp_types.ElicitResult(action=action, content={"allow": True} if action == "accept" else None)

    async def hear(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append(message or "")


@pytest.fixture
def place(tmp_path: Path) -> AppFolder:
    place = AppFolder(tmp_path)
    place.approvals = type(place.approvals)(tmp_path / "home" / "handrail")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "intro.md").write_text("# Intro")
    (tmp_path / "script.toml").write_text(SCRIPT)
    path = place.config(SERVE + place.server("demo", tool("look", "Look.", **READ), tool("pay", "Pay.")))
    from handrail.config.load import load_config

    place.approvals.approve(path, "demo", load_config(path).mcp["demo"].endpoint, by="ada")
    return place


@asynccontextmanager
async def client(place: AppFolder, person: Person, mode: Mode, hear: Any = None) -> AsyncIterator[Client]:
    python, *rest = prestarted.command()
    server = StdioServerParameters(
        command=python,
        args=[*rest, "-m", "handrail", "mcp", "serve"],
        cwd=place.folder,
        env={"XDG_STATE_HOME": str(place.folder / "home"), "PATH": os.environ["PATH"]},
    )
    async with Client(server, mode=mode, elicitation_callback=person.elicit, message_handler=hear) as connected:
        yield connected


def effects(place: AppFolder) -> list[str]:
    """What became of each call to `pay`, by the record."""
    with JournalReader(place.folder / ".handrail" / "journal.db") as reader:
        return [
            call.answer.outcome
            for summary in reader.runs()
            for call in reader.calls(summary.run)
            if call.tool == "demo:pay" and call.answer is not None
        ]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_model_with_its_tools_is_one_tool_and_its_effects_are_confirmed_in_the_client(
    place: AppFolder, mode: Mode
) -> None:
    person = Person("accept")
    async with client(place, person, mode) as connected:
        listed = (await connected.list_tools()).tools
        first = await connected.call_tool("converse", {"message": "please pay"}, progress_callback=person.hear)
        told: Any = first.structured_content
        again = await connected.call_tool("converse", {"message": "hello", "conversation": told["conversation"]})
        resources = [each.uri for each in (await connected.list_resources()).resources]
        saved = await connected.read_resource(f"conversation://{told['conversation']}")
        proof = await connected.read_resource(f"proof://{told['run']}")
        corpus = await connected.read_resource("corpus://manual/intro.md")
        prompt = await connected.get_prompt("greet", {"name": "Ada"})

    assert {each.name for each in listed} == {"look", "converse"}  # pay is not served by itself
    assert [each.annotations.read_only_hint for each in listed if each.annotations] == [True, False]
    assert told["text"] == "Paid."
    (asked,) = person.asked
    assert "'demo:pay'" in asked
    assert '"ada"' in asked
    assert "calls demo:pay" in person.progress
    assert again.structured_content is not None
    assert again.structured_content["text"] == "Hello again!"
    assert {f"conversation://{told['conversation']}", "corpus://manual/intro.md", f"proof://{told['run']}"} <= set(
        resources
    )
    assert "Hello again!" in saved.contents[0].text  # type: ignore[union-attr]
    assert '"demo:pay"' in proof.contents[0].text.replace('\\"', '"')  # type: ignore[union-attr]
    assert corpus.contents[0].text == "# Intro"  # type: ignore[union-attr]
    assert prompt.messages[0].content.text == "Greet Ada."  # type: ignore[union-attr]
    assert effects(place) == ["ok"]


@pytest.mark.parametrize(("mode", "answer", "outcome"), [("auto", "decline", ["denied"]), ("legacy", "cancel", [])])
async def test_what_the_person_at_the_client_does_not_allow_is_not_done(
    place: AppFolder, mode: Mode, answer: str, outcome: list[str]
) -> None:
    async with client(place, Person(answer), mode) as connected:
        answered = await connected.call_tool("converse", {"message": "please pay"})

    told: Any = answered.structured_content
    assert ["handrail confirm allow confirm_" in each for each in told.get("waiting", [])] == (
        [] if outcome else [True]
    )
    assert effects(place) == outcome


async def test_a_model_may_call_no_more_than_its_caller_unless_tools_are_lent_to_it(place: AppFolder) -> None:
    file = place.folder / "handrail.toml"
    file.write_text(file.read_text().replace(', tools = ["pay"]', ""))
    person = Person("accept")
    async with client(place, person, "auto") as connected:
        await connected.call_tool("converse", {"message": "please pay"})

    assert person.asked == []
    assert effects(place) == ["forbidden"]


async def test_a_tool_that_is_not_served_cannot_be_called_and_a_change_of_files_is_taken_up(place: AppFolder) -> None:
    changed = asyncio.Event()

    async def hear(message: Any) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            changed.set()

    async with client(place, Person(), "legacy", hear=hear) as connected:
        refused = await connected.call_tool("pay", {"to": "eve"})
        path = place.folder / "handrail.toml"
        path.write_text(path.read_text() + place.server("late", tool("look_later", **READ)) + "enabled = true\n")
        before = {each.name for each in (await connected.list_tools(cache_mode="bypass")).tools}
        (place.folder / "box.toml").write_text(
            '[ensemble]\nname = "box"\n[[invokers]]\nname = "dedent"\npython = "textwrap:dedent"\n'
            'side_effects = false\narguments = { text = { type = "string" } }\n'
        )
        path.write_text(
            'ensembles = ["box.toml"]\n' + path.read_text().replace('["demo:look"]', '["demo:look", "box:*"]')
        )
        approve(path, place.folder / "home")
        async with asyncio.timeout(30):
            await changed.wait()
        called = await connected.call_tool("dedent", {"text": "  hi"})

    assert refused.is_error
    assert before == {"look", "converse"}
    assert called.content[0].text == "hi"  # type: ignore[union-attr]
    assert effects(place) == ["forbidden"]


@pytest.mark.parametrize("wanted", ['token = "env:NODE_TOKEN"', 'tokens = { ada = "env:NODE_TOKEN" }'])
async def test_over_http_a_token_is_wanted_and_the_address_is_told(place: AppFolder, wanted: str) -> None:
    path = place.folder / "handrail.toml"
    path.write_text(path.read_text().replace("[serve]", f"[serve]\n{wanted}"))
    home = {"XDG_STATE_HOME": str(place.folder / "home"), "NODE_TOKEN": "opensesame"}
    process = await asyncio.create_subprocess_exec(
        *command("mcp", "serve", "--http", "127.0.0.1:0"),
        stderr=asyncio.subprocess.PIPE,
        env=environment(**home),
        cwd=place.folder,
    )
    try:
        assert process.stderr is not None
        told = ""
        while "Serving at" not in told:
            told = (await asyncio.wait_for(process.stderr.readline(), 30)).decode()
            assert told
        url = re.findall(r"http://\S+", told)[0]
        statuses = [await _status(url, token) for token in (None, "wrong", "opensesame")]
    finally:
        process.terminate()
        await process.wait()

    assert statuses == [401, 401, 200]
    assert process.returncode == 0


def test_one_token_for_all_does_not_silently_replace_the_token_of_each_caller(tmp_path: Path) -> None:
    config = tmp_path / "handrail.toml"
    config.write_text('[serve.tokens]\nada = "env:ADA_KEY"\n')

    refused = run("mcp", "serve", "--http", "127.0.0.1:0", "--token", "env:NODE_TOKEN", "--config", str(config))

    assert "the file has a token for each caller (serve.tokens)" in refused.stderr
    assert refused.exit_code == 1


async def _status(url: str, token: str | None) -> int:
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        }
    )
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(f"POST {parts.path} HTTP/1.1\r\n{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])
