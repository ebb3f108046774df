"""A client speaks to a server directly, and through `handrail mcp serve`: what differs is what docs/mcp.md says."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters

from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from tests import prestarted
from tests.mcp.recorded_client import Message, Record, differences, play, recorded_client
from tests.npm_packages import node, package

REFERENCE = str(Path(__file__).parent / "servers" / "reference_server.py")
PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"
_ROW = re.compile(r"^\| `([^`]+)` \| `([^`]+)` \|", re.MULTILINE)

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


class Desk:
    """A folder with a configuration that names one server, approved."""

    def __init__(self, folder: Path, server: str, more: str = "") -> None:
        self.folder = folder
        file = folder / "handrail.toml"
        file.write_text(f'[proof]\njournal = "journal.db"\n{more}\n[mcp.reference]\n{server}')
        self.env = {"XDG_STATE_HOME": str(folder / "home"), "PATH": os.environ["PATH"]}
        self.approve("reference")

    def approve(self, server: str) -> None:
        file = self.folder / "handrail.toml"
        Approvals.here(self.env).approve(file, server, load_config(file).mcp[server].endpoint, by="ada")

    def program(self, *options: str) -> StdioServerParameters:
        python, *rest = prestarted.command()
        arguments = [*rest, "-m", "handrail", "mcp", "serve", "--rule", "allow *", *options]
        return StdioServerParameters(command=python, args=arguments, cwd=self.folder, env=self.env)


def reference() -> str:
    """The line of a configuration that starts the server which offers everything."""
    return f"command = {json.dumps([*prestarted.command(), REFERENCE, 'stdio'])}\n"


@asynccontextmanager
async def printed_port(*command: str, env: dict[str, str], cwd: Path) -> AsyncIterator[str]:
    """A program that says where it serves, in the first line of what it prints or tells."""
    process = await asyncio.create_subprocess_exec(
        *command, env={**os.environ, **env}, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            async for told in process.stdout:
                line = told.decode().strip()
                if line.isdigit() or line.startswith("Serving at "):
                    break
        yield f"http://127.0.0.1:{line}/mcp" if line.isdigit() else line.removeprefix("Serving at ")
    finally:
        process.terminate()
        await process.wait()


async def played(where: str | StdioServerParameters, era: str) -> Record:
    async with asyncio.timeout(120), recorded_client(where, era) as record:
        await play(record)
    return record


async def over_stdio(folder: Path, era: str) -> tuple[Record, Record]:
    desk = Desk(folder, f'{reference()}env = {{ REFERENCE_HEARD = "{folder}/through" }}\n')
    heard = {"REFERENCE_HEARD": str(folder / "direct")}
    python, *rest = prestarted.command()
    direct = StdioServerParameters(command=python, args=[*rest, REFERENCE, "stdio"], env=heard)
    one, two = await asyncio.gather(played(direct, era), played(desk.program(), era))
    return one, two


async def over_http(folder: Path, era: str) -> tuple[Record, Record]:
    async with AsyncExitStack() as stack:

        async def server(name: str) -> str:
            heard = {"REFERENCE_HEARD": str(folder / name)}
            return await stack.enter_async_context(
                printed_port(*prestarted.command(), REFERENCE, "http", env=heard, cwd=folder)
            )

        direct, behind = await server("direct"), await server("through")
        # Many clients may share it, so it is not spoken to in the era of one of them, unless it is said.
        desk = Desk(folder, f'url = "{behind}"\nera = "{era}"\n')
        serve = ("-m", "handrail", "mcp", "serve", "--http", "127.0.0.1:0", "--rule", "allow *")
        command = (*prestarted.command(), *serve)
        through = await stack.enter_async_context(printed_port(*command, env=desk.env, cwd=folder))
        one, two = await asyncio.gather(played(direct, era), played(through, era))
        return one, two


def of_client(direct: Record, through: Record) -> set[tuple[str, str]]:
    """What the client hears differently, step by step."""
    return {
        (step, path)
        for step in {**direct.steps, **through.steps}
        for path in differences(_heard(direct, step), _heard(through, step))
    }


def _heard(record: Record, step: str) -> list[Message]:
    return [message for way, message in record.steps.get(step, ()) if way == "heard"]


def of_server(folder: Path) -> set[tuple[str, str]]:
    """What the server is asked differently: the same requests with the same parameters, whatever was said between."""
    direct, through = (_asked((folder / name).read_text()) for name in ("direct", "through"))
    found: set[tuple[str, str]] = set()
    for key in direct:
        if key not in through:
            found.add((f"server, {key}", "not asked"))
        else:
            found |= {(f"server: {key}", path) for path in differences(direct[key], through[key])}
    return found


def _asked(lines: str) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = {}
    for line in lines.splitlines():
        method, params = json.loads(line)
        if method in ("notifications/cancelled", "notifications/initialized", "subscriptions/listen", "tools/list"):
            continue  # each end has its own
        called = (params or {}).get("name"), (params or {}).get("arguments")
        key = f"{method} {json.dumps(called)}" if method == "tools/call" else method
        found.setdefault(key, []).append({"params": params or {}})
    return found


def listed() -> dict[tuple[str, str], str]:
    """The rows of the table: where, and what; and the line itself."""
    section = PAGE.read_text().partition("### What differs through the proxy")[2].partition("\n## ")[0]
    return {(match[1], match[2]): match[0] for match in _ROW.finditer(section)}


def summed_up(found: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Steps of one kind as one: what is true of every call stands in the table once."""
    return {(_kind(step), path) for step, path in found}


def _kind(step: str) -> str:
    match step.split():
        case ["call", name] if name.startswith("asks_"):
            return "a call that asks"
        case ["server,", method, *_]:
            return f"server, {method}"
        case ["server:", *_]:
            return "server, any request"
    return step


async def test_what_differs_through_the_proxy_is_what_the_page_says(tmp_path: Path) -> None:
    found: dict[tuple[str, str], set[str]] = {}
    for wire, play_over in (("stdio", over_stdio), ("HTTP", over_http)):
        for era in ("legacy", "auto"):
            folder = tmp_path / f"{wire}-{era}"
            folder.mkdir()
            direct, through = await play_over(folder, era)
            for each in summed_up(of_client(direct, through) | of_server(folder)):
                found.setdefault(each, set()).add(f"{wire} {era}")
    table = listed()
    unlisted = {key: sorted(where) for key, where in found.items() if key not in table}
    assert not unlisted, f"differs, and the page does not say so: {unlisted}"
    assert not table.keys() - found.keys(), "the page says that this differs, and it does not"


EVERYTHING: dict[str, dict[str, Any]] = {
    "echo": {"message": "good morning"},
    "get-sum": {"a": 2, "b": 3},
    "get-tiny-image": {},
    "get-annotated-message": {"messageType": "error", "includeImage": True},
    "get-structured-content": {"location": "Chicago"},
    "get-resource-links": {"count": 2},
}


async def test_a_server_that_others_wrote_is_the_same_through_the_proxy(tmp_path: Path) -> None:
    program = [str(node()), str(package("@modelcontextprotocol/server-everything"))]
    desk = Desk(tmp_path, f"command = {json.dumps(program)}\n")

    async def asked(where: StdioServerParameters) -> list[Message]:
        async with asyncio.timeout(120), recorded_client(where, "legacy") as record:
            assert record.client is not None
            with record.step("everything"):
                await record.client.list_tools()
                await record.client.list_prompts()
                await record.client.list_resource_templates()
                resources = await record.client.list_resources()
                await record.client.read_resource(resources.resources[0].uri)
                await record.client.get_prompt("simple-prompt")
                for name, arguments in EVERYTHING.items():
                    await record.client.call_tool(name, arguments)
            return [message for message in _heard(record, "everything") if "result" in message]

    direct, through = await asyncio.gather(
        asked(StdioServerParameters(command=program[0], args=program[1:])), asked(desk.program())
    )

    offered = [tool for tool in direct[0]["result"]["tools"] if tool["name"] in _names(through[0])]
    for tool in offered:
        tool.pop("execution", None)  # tasks of 2025-11-25
    assert through[0]["result"]["tools"] == offered
    assert differences(direct[1:], through[1:]) == set()


def _names(listing: Message) -> set[str]:
    return {tool["name"] for tool in listing["result"]["tools"]}


async def test_two_servers_keep_their_addresses_and_the_first_has_what_both_give(tmp_path: Path) -> None:
    one = reference()
    desk = Desk(tmp_path, f'{one}prefix = "a_"\n[mcp.second]\n{one}prefix = "b_"\n')
    desk.approve("second")

    async with asyncio.timeout(120), recorded_client(desk.program(), "legacy") as record:
        client = record.client
        assert client is not None
        tools = [tool.name for tool in (await client.list_tools()).tools]
        prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
        resources = [str(each.uri) for each in (await client.list_resources()).resources]
        read = await client.read_resource("note://1")
        greeting = await client.get_prompt("b_greet", {"style": "warmly"})
        unlisted = await client.read_resource("skill://sums/SKILL.md")
        instructions = client.instructions

    assert {"a_plain", "b_plain"} <= set(tools)
    assert prompts == ["a_greet", "a_asks", "b_greet", "b_asks"]
    assert resources == ["note://1", "note://picture", "ui://shop/sum.html"]
    assert read.model_dump()["contents"][0]["text"] == "# One"
    assert greeting.description == "A greeting"
    assert "name: sums" in unlisted.model_dump()["contents"][0]["text"]
    assert instructions == "reference: Ask for sums.\n\nsecond: Ask for sums."


async def test_a_healthy_proxy_says_nothing_but_the_protocol(tmp_path: Path) -> None:
    desk = Desk(tmp_path, reference())
    async with recorded_client(desk.program(), "legacy"):
        pass  # its tools are taken now, which is said once

    lines: list[Message] = [
        {"method": "initialize", "id": 1, "params": {"protocolVersion": "2025-11-25", "capabilities": {}}},
        {"method": "notifications/initialized"},
        {"method": "tools/call", "id": 2, "params": {"name": "plain", "arguments": {}}},
        {"method": "resources/read", "id": 3, "params": {"uri": "note://1"}},
    ]
    lines[0]["params"] |= {"clientInfo": {"name": "judge", "version": "1"}}
    program = desk.program()
    process = await asyncio.create_subprocess_exec(
        *(program.command, *program.args),
        cwd=tmp_path,
        env={**os.environ, **desk.env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for line in lines:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
    async with asyncio.timeout(120):
        said = [json.loads(await process.stdout.readline()) for _ in range(3)]
        process.stdin.close()
        rest, errors = await process.communicate()

    assert sorted(each["id"] for each in said) == [1, 2, 3]
    assert (rest, errors) == (b"", b"")


async def test_a_rule_denies_what_a_server_may_ask_of_the_client(tmp_path: Path) -> None:
    desk = Desk(tmp_path, reference())

    async with (
        asyncio.timeout(120),
        recorded_client(desk.program("--rule", "deny reference:elicit"), "legacy") as record,
    ):
        assert record.client is not None
        with record.step("denied"):
            answer = await record.client.call_tool("asks_elicit", {})
            assert not record.heard("elicitation/create")

    assert json.loads(answer.model_dump()["content"][0]["text"]) == {"action": "decline"}
