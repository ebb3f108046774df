"""`handrail acp`, driven by the official client of the Agent Client Protocol."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, spawn_agent_process
from acp.client.connection import ClientSideConnection
from acp.helpers import embedded_text_resource, resource_block, resource_link_block, text_block
from acp.interfaces import Client
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    EnvVariable,
    McpServerStdio,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from tests import prestarted
from tests.approved import approve
from tests.docs.pages import ROOT, read_page
from tests.polling import until

CONFIG = """
default_model = "first"
ensembles = ["bank.toml"]
[models.first]
provider = "scripted"
model = "first.toml"
[models.second]
provider = "scripted"
model = "second.toml"
"""
BANK = """
[ensemble]
name = "bank"
[[invokers]]
name = "add"
python = "bank_tools:add"
[[invokers]]
name = "pay"
python = "bank_tools:pay"
"""
TOOLS = '''
import os, threading
from pathlib import Path
from handrail import tool

@tool(side_effects=False)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

@tool(side_effects=True)
def pay(to: str, amount: int) -> str:
    """Pay someone."""
    with Path(__file__).with_name("paid.txt").open("a") as file:
        file.write(f"{to} {amount}\\n")
    if os.environ.get("HOLD"):
        threading.Event().wait()
    return f"paid {amount} to {to}"
'''
FIRST = """
[[reply]]
when = "add"
text = "Let me see. "
calls = [{ name = "add", arguments = { a = 1, b = 2 } }]
[[reply]]
when = "add"
text = "It is 3."
[[reply]]
when = "pay"
calls = [{ name = "pay", arguments = { to = "Ada", amount = 7 } }]
[[reply]]
when = "pay"
text = "Done."
[[reply]]
when = "time"
calls = [{ name = "clock_get_current_time", arguments = { timezone = "UTC" } }]
[[reply]]
when = "time"
text = "Noon."
[[reply]]
when = "look"
calls = [{ name = "second-one_look", arguments = {} }]
[[reply]]
when = "look"
text = "Seen."
[[reply]]
when = "break"
error = "model_unavailable"
[[reply]]
text = "Hello."
"""

Choose = Callable[[list[PermissionOption]], str | None]


class Editor:
    """What an editor hears, and what its person chooses."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked: list[tuple[ToolCallUpdate, list[PermissionOption]]] = []
        self.choose: Choose = lambda options: "allow"
        self.answer: Any = None
        """In place of what the person chooses."""
        self.asked_now = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update)

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **kwargs: Any
    ) -> Any:
        self.asked.append((tool_call, options))
        self.asked_now.set()
        await self.may_answer.wait()
        if self.answer is not None:
            return self.answer
        chosen = self.choose(options)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=chosen))

    def on_connect(self, conn: Any) -> None:
        pass

    def said(self, kind: str = "agent_message_chunk") -> str:
        return "".join(each.content.text for each in self.updates if each.session_update == kind)

    def calls(self) -> list[tuple[str, str | None]]:
        """What was told of calls: the title or id, and the status."""
        told = (each for each in self.updates if each.session_update in ("tool_call", "tool_call_update"))
        return [(each.session_update, each.status) for each in told]


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    state = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    written = {"handrail.toml": CONFIG, "bank.toml": BANK, "bank_tools.py": TOOLS, "first.toml": FIRST}
    for name, text in (written | {"second.toml": '[[reply]]\nwhen = "now"\ntext = "The second."\n'}).items():
        (tmp_path / name).write_text(text)
    approve(tmp_path / "handrail.toml", state)
    return tmp_path


@asynccontextmanager
async def agent(folder: Path, editor: Editor, **variables: str) -> AsyncIterator[tuple[ClientSideConnection, Any]]:
    command = (*prestarted.command(*prestarted.AGENT), "-W", "error", "-m", "handrail", "acp")
    environ = {**os.environ, **variables}
    as_client: Client = editor  # type: ignore[assignment]
    async with spawn_agent_process(as_client, *command, env=environ, cwd=folder) as (connection, process):
        begun = await connection.initialize(protocol_version=1, client_capabilities=ClientCapabilities())
        assert begun.protocol_version == 1
        yield connection, process


async def begun(connection: ClientSideConnection, folder: Path, **more: Any) -> str:
    return (await connection.new_session(cwd=str(folder), mcp_servers=more.get("servers", []))).session_id


def test_the_settings_on_the_page_are_those_of_an_agent_that_there_is() -> None:
    block = next(each for each in read_page(ROOT / "docs/howto/editors.md").blocks if each.language == "json")
    settings = json.loads(block.text)["agent_servers"]["handrail"]

    assert settings == {"command": "handrail", "args": ["acp"]}


async def test_a_turn_is_told_as_it_happens_and_a_payment_waits_for_permission(folder: Path) -> None:
    editor = Editor()
    async with agent(folder, editor) as (connection, _):
        id = await begun(connection, folder)

        read = await connection.prompt(session_id=id, prompt=[text_block("add one and two")])
        assert (read.stop_reason, editor.said(), editor.asked) == ("end_turn", "Let me see. It is 3.", [])
        assert editor.calls()[0] == ("tool_call", "pending")
        assert editor.calls()[-1] == ("tool_call_update", "completed")
        titles = [each.title for each in editor.updates if each.session_update == "session_info_update"]
        assert titles == ["add one and two"]

        paid = await connection.prompt(session_id=id, prompt=[text_block("pay Ada")])
        (asked, options), *others = editor.asked
        assert (paid.stop_reason, others) == ("end_turn", [])
        assert (asked.title, asked.raw_input) == ("bank:pay", {"to": "Ada", "amount": 7})
        assert '"amount": 7' in str(asked.content)
        assert options[0].kind == "allow_once"
        assert options[-1].kind == "reject_once"
        assert (folder / "paid.txt").read_text() == "Ada 7\n"


async def test_a_person_may_deny_always_allow_or_leave_a_call_waiting(folder: Path) -> None:
    editor = Editor()
    async with agent(folder, editor) as (connection, _):
        editor.choose = lambda options: "deny"
        id = await begun(connection, folder)
        denied = await connection.prompt(session_id=id, prompt=[text_block("pay")])
        assert (denied.stop_reason, editor.calls()[-1]) == ("end_turn", ("tool_call_update", "failed"))

        editor.choose = lambda options: None
        id = await begun(connection, folder)
        left = await connection.prompt(session_id=id, prompt=[text_block("pay")])
        assert left.stop_reason == "end_turn"
        assert "handrail confirm" in editor.said() and f"handrail resume {id}" in editor.said()
        assert not (folder / "paid.txt").exists()

        editor.answer = {"outcome": {"outcome": "no such outcome"}}
        id = await begun(connection, folder)
        unknown = await connection.prompt(session_id=id, prompt=[text_block("pay")])
        assert (unknown.stop_reason, f"handrail resume {id}" in editor.said()) == ("end_turn", True)
        editor.answer = None

        editor.choose = lambda options: "no such option"
        await connection.prompt(session_id=await begun(connection, folder), prompt=[text_block("pay")])
        assert (editor.calls()[-1], (folder / "paid.txt").exists()) == (("tool_call_update", "failed"), False)

        editor.choose = lambda options: next(each.option_id for each in options if each.kind == "allow_always")
        id = await begun(connection, folder)
        asked = len(editor.asked)
        for _ in range(2):
            await connection.prompt(session_id=await begun(connection, folder), prompt=[text_block("pay")])
        assert (len(editor.asked) - asked, (folder / "paid.txt").read_text()) == (1, "Ada 7\n" * 2)


async def test_a_session_is_opened_again_by_another_process_with_all_that_was_said(folder: Path) -> None:
    editor, later = Editor(), Editor()
    async with agent(folder, editor) as (connection, _):
        id = await begun(connection, folder)
        await connection.prompt(session_id=id, prompt=[text_block("add one and two")])
    async with agent(folder, later) as (connection, _):
        (listed,) = (await connection.list_sessions()).sessions
        (folder / "below").mkdir()
        (folder / "linked").symlink_to(folder)
        for cwd, count in ((folder, 1), (folder / "linked", 1), (folder / "below", 1), (folder.parent, 0)):
            found = (await connection.list_sessions(cwd=str(cwd))).sessions
            assert [each.cwd for each in found] == [str(cwd)] * count
        await connection.load_session(cwd=str(folder), session_id=id, mcp_servers=[])

        assert (listed.session_id, listed.title) == (id, "add one and two")
        assert later.said("user_message_chunk") == "add one and two"
        assert later.said() == "Let me see. It is 3."
        assert later.calls() == [("tool_call", "pending"), ("tool_call_update", "completed")]

        forked = (await connection.fork_session(session_id=id, cwd=str(folder), mcp_servers=[])).session_id
        await connection.set_config_option(config_id="model", session_id=forked, value="second")
        await connection.prompt(session_id=forked, prompt=[text_block("and now?")])
        assert later.said().endswith("The second.")


async def test_an_agent_killed_in_the_middle_of_a_payment_does_not_pay_again(folder: Path) -> None:
    editor, later = Editor(), Editor()
    async with agent(folder, editor, HOLD="yes") as (connection, process):
        id = await begun(connection, folder)
        turn = asyncio.ensure_future(connection.prompt(session_id=id, prompt=[text_block("pay Ada")]))
        paid = folder / "paid.txt"
        await until(lambda: paid.exists() and paid.read_text())  # not between its creation and its line
        process.kill()
        with pytest.raises((RequestError, ConnectionError)):
            await turn
    async with agent(folder, later) as (connection, _):
        await connection.load_session(cwd=str(folder), session_id=id, mcp_servers=[])
        await connection.prompt(session_id=id, prompt=[text_block("did you pay?")])

        assert (folder / "paid.txt").read_text() == "Ada 7\n"
        assert "failed" in {status for _, status in later.calls()}


async def test_a_turn_can_be_cancelled_while_its_permission_is_asked(folder: Path) -> None:
    editor = Editor()
    async with agent(folder, editor) as (connection, _):
        id = await begun(connection, folder)
        editor.may_answer.clear()
        turn = asyncio.ensure_future(connection.prompt(session_id=id, prompt=[text_block("pay Ada")]))
        await asyncio.wait_for(editor.asked_now.wait(), 60)
        await connection.cancel(session_id=id)
        editor.may_answer.set()

        assert (await turn).stop_reason == "cancelled"
        assert not (folder / "paid.txt").exists()
        again = await connection.prompt(session_id=id, prompt=[text_block("add them")])
        assert again.stop_reason == "end_turn"


async def test_a_turn_that_is_cancelled_at_once_does_nothing_and_says_so_whatever_comes_next(folder: Path) -> None:
    editor = Editor()
    async with agent(folder, editor) as (connection, _):
        id = await begun(connection, folder)
        turn = asyncio.ensure_future(connection.prompt(session_id=id, prompt=[text_block("pay Ada")]))
        await asyncio.sleep(0)  # the prompt is on its way, and the cancellation directly behind it
        await connection.cancel(session_id=id)
        assert ((await turn).stop_reason, editor.asked, editor.calls()) == ("cancelled", [], [])

        editor.may_answer.clear()
        turn = asyncio.ensure_future(connection.prompt(session_id=id, prompt=[text_block("pay Ada")]))
        await asyncio.wait_for(editor.asked_now.wait(), 60)
        second = asyncio.ensure_future(connection.prompt(session_id=id, prompt=[text_block("hello")]))
        with pytest.raises(RequestError, match="a turn is in progress"):
            await second
        await connection.cancel(session_id=id)
        third = asyncio.ensure_future(connection.prompt(session_id=id, prompt=[text_block("add them")]))
        assert (await turn).stop_reason == "cancelled"
        await asyncio.gather(third, return_exceptions=True)  # it came while the first one ended, or after
        editor.may_answer.set()
        assert not (folder / "paid.txt").exists()


SERVER = """
import os, sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("look")
with open(sys.argv[1], "a") as file:
    file.write(os.environ["KEY"] + "\\n")
@server.tool()
def look() -> str:
    return "seen"
server.run()
"""


async def test_servers_of_an_editor_have_the_values_it_gave_and_may_have_the_same_tools(folder: Path) -> None:
    (folder / "server.py").write_text(SERVER)
    values = {"one": "pa$$word ${HOME}", "second one": "env:HOME"}
    python, *rest = prestarted.command()
    servers = [
        McpServerStdio(
            name=name,
            command=python,
            args=[*rest, str(folder / "server.py"), str(folder / "values.txt")],
            env=[EnvVariable(name="KEY", value=value)],
        )
        for name, value in values.items()
    ]
    editor = Editor()
    async with agent(folder, editor) as (connection, _):
        id = await begun(connection, folder, servers=servers)
        assert sorted((folder / "values.txt").read_text().splitlines()) == sorted(values.values())
        await connection.prompt(session_id=id, prompt=[text_block("look")])
        assert [asked.title for asked, _ in editor.asked] == ["second-one:second-one_look"]
        for wrong in ("…", "one"):
            named = [servers[0], servers[0].model_copy(update={"name": wrong})]
            with pytest.raises(RequestError, match="rename it in the editor"):
                await begun(connection, folder, servers=named)


async def test_an_agent_that_is_told_to_end_ends_in_order_and_the_call_waits(folder: Path) -> None:
    editor = Editor()
    async with agent(folder, editor) as (connection, process):
        id = await begun(connection, folder)
        editor.may_answer.clear()
        turn = asyncio.ensure_future(connection.prompt(session_id=id, prompt=[text_block("pay Ada")]))
        await asyncio.wait_for(editor.asked_now.wait(), 60)
        process.terminate()

        assert await asyncio.wait_for(process.wait(), 60) == 0
        with pytest.raises((RequestError, ConnectionError)):
            await turn
        editor.may_answer.set()
    assert not (folder / "paid.txt").exists()


async def test_a_server_that_the_editor_names_is_used_and_files_of_a_prompt_reach_the_model(folder: Path) -> None:
    editor = Editor()
    python, *rest = prestarted.command()
    time = McpServerStdio(name="clock", command=python, args=[*rest, "-m", "mcp_server_time"], env=[])
    async with agent(folder, editor) as (connection, _):
        id = await begun(connection, folder, servers=[time])
        attached = resource_block(embedded_text_resource("file:///notes/plan.md", "Buy 3 umbrellas."))
        link = resource_link_block("shop.py", "file:///shop.py")

        done = await connection.prompt(session_id=id, prompt=[text_block("what time is it? "), attached, link])

        assert (done.stop_reason, editor.said()) == ("end_turn", "Noon.")
        assert editor.updates and editor.calls()[-1] == ("tool_call_update", "completed")
        again = Editor()
    async with agent(folder, again) as (connection, _):
        await connection.load_session(cwd=str(folder), session_id=id, mcp_servers=[time])
        assert "Buy 3 umbrellas." in again.said("user_message_chunk")
        assert "[shop.py](file:///shop.py)" in again.said("user_message_chunk")


async def test_what_cannot_be_done_is_said_and_the_agent_goes_on(folder: Path) -> None:
    editor = Editor()
    async with agent(folder, editor) as (connection, _):
        id = await begun(connection, folder)
        wrong: list[tuple[Callable[[], Any], str]] = [
            (lambda: connection.prompt(session_id="nobody", prompt=[text_block("hi")]), "session/load"),
            (lambda: connection.prompt(session_id=id, prompt=[]), "the prompt is empty"),
            (lambda: connection.load_session(cwd="/", session_id="run_none", mcp_servers=[]), "run_none"),
            (lambda: connection.set_config_option(config_id="model", session_id=id, value="third"), "third"),
            (lambda: connection.set_config_option(config_id="speed", session_id=id, value="x"), "speed"),
            (lambda: connection.set_session_mode(session_id=id, mode_id="yolo"), "yolo"),
            (lambda: connection.authenticate(method_id="any"), "sign-in"),
            (lambda: connection.prompt(session_id=id, prompt=[text_block("break")]), "script says so"),
        ]
        for attempt, words in wrong:
            with pytest.raises(RequestError, match=words):
                await attempt()

        after = await connection.prompt(session_id=id, prompt=[text_block("hello")])
        assert (after.stop_reason, editor.said().endswith("Hello.")) == ("end_turn", True)
