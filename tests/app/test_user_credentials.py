"""One MCP server that is called with the credential of whoever makes the call, behind the proxy and in a program."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from handrail import Executor, Policy, ToolCall, ToolResult
from handrail.app import AppAdditions
from handrail.app.mcp_serving import open_served
from handrail.config.load import load_config
from handrail.core.context import Context, Principal
from handrail.mcp import McpBounds, McpEnsemble, mcp_ensemble
from tests.app.app_folder import AppFolder
from tests.mcp.server.http_clients import ModernHttpClient, serving, words
from tests.mcp.servers.credential_server import CredentialServer

ADA, EVE, SHARED = "ada-9d1c2f7e", "eve-5b80aa41", "all-77c0de19"
WILLING = Policy(confirm_side_effects=False, timeout=60)
TABLE = """
[policy]
confirm_side_effects = false
[mcp.docs]
url = "{url}"
headers = {{ Authorization = "Bearer ${{SHARED_TOKEN}}" }}
{more}
[mcp.docs.users.ada]
headers = {{ Authorization = "Bearer ${{ADA_DOCS_TOKEN}}" }}
[mcp.docs.users.eve]
headers = {{ Authorization = "Bearer ${{EVE_DOCS_TOKEN}}" }}
[serve.tokens]
ada = "env:ADA_KEY"
eve = "env:EVE_KEY"
bob = "env:BOB_KEY"
"""


@pytest.fixture
async def remote() -> AsyncIterator[CredentialServer]:
    """It lives in a task of its own: what the package enters there it must leave there."""
    server, up, over = CredentialServer(), asyncio.Event(), asyncio.Event()

    async def live() -> None:
        async with server.served():
            up.set()
            await over.wait()

    living = asyncio.create_task(live())
    await asyncio.wait((living, asyncio.ensure_future(up.wait())), return_when=asyncio.FIRST_COMPLETED)
    yield server
    over.set()
    await living


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = {"SHARED_TOKEN": SHARED, "ADA_DOCS_TOKEN": ADA, "EVE_DOCS_TOKEN": EVE}
    keys = {f"{name}_KEY": f"{name.lower()}s-key" for name in ("ADA", "EVE", "BOB")}
    for name, value in {**tokens, **keys}.items():
        monkeypatch.setenv(name, value)


@asynccontextmanager
async def proxy(place: AppFolder, remote: CredentialServer, more: str = "") -> AsyncIterator[str]:
    """The proxy on a socket, as `handrail mcp serve --http` has it."""
    config = load_config(place.config(TABLE.format(url=remote.url, more=more)))
    journal = place.folder / ".handrail" / "journal.db"
    async with (
        open_served(config, journal, AppAdditions(), place.person, version="1", look=None) as served,
        serving(served, token=config.serve.secret()) as url,
    ):
        yield url


async def call(url: str, who: str, tool: str, text: str) -> str:
    async with ModernHttpClient(url, token=f"{who}s-key") as client:
        return words(await client.call(tool, {"text": text}))


@asynccontextmanager
async def program(
    remote: CredentialServer, users: Sequence[str] = (ADA, EVE), **bounds: float
) -> AsyncIterator[tuple[Executor, McpEnsemble]]:
    """A program with the server, in which ada and eve have credentials."""
    server = mcp_ensemble(
        "docs",
        remote.url,
        headers={"Authorization": f"Bearer {SHARED}"},
        users={each.partition("-")[0]: {"Authorization": f"Bearer {each}"} for each in users},
        bounds=McpBounds(**bounds),  # type: ignore[arg-type]  # some of them are whole numbers
    )
    async with server, Executor([server], policy=WILLING) as executor:
        yield executor, server


async def invoke(executor: Executor, who: str, tool: str = "look", **arguments: object) -> ToolResult:
    return await executor.invoke(ToolCall("", tool, {"text": "x", **arguments}), Context(principal=Principal(who)))


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_each_call_through_the_proxy_arrives_with_the_credential_of_its_caller(
    place: AppFolder, remote: CredentialServer, era: str
) -> None:
    async with proxy(place, remote, f'era = "{era}"') as url:
        answers = [await call(url, who, "look", "a line") for who in ("ada", "eve", "ada")]

    assert answers == ["a line for ada", "a line for eve", "a line for ada"]
    assert remote.calls == [("look", ADA, "a line"), ("look", EVE, "a line"), ("look", ADA, "a line")]


async def test_a_caller_without_a_credential_is_refused_and_told_what_to_configure(
    place: AppFolder, remote: CredentialServer
) -> None:
    async with proxy(place, remote) as url:
        refused = await call(url, "bob", "look", "a line")

    assert "'bob' has none" in refused
    assert '[mcp.docs.users."bob"]' in refused
    assert remote.calls == []


async def test_others_use_the_shared_credential_only_if_the_file_says_so(
    place: AppFolder, remote: CredentialServer
) -> None:
    async with proxy(place, remote, 'other_users = "shared"') as url:
        answers = [await call(url, who, "look", "a line") for who in ("bob", "ada")]

    assert answers == ["a line for all", "a line for ada"]


async def test_the_same_payment_of_two_callers_is_two_payments(place: AppFolder, remote: CredentialServer) -> None:
    async with proxy(place, remote) as url:
        answers = await asyncio.gather(*(call(url, who, "pay", "10 to Carl") for who in ("ada", "eve")))
    async with proxy(place, remote) as url:  # everybody has connected anew: an equal effect may be the same
        again = await call(url, "eve", "pay", "10 to Carl")

    assert sorted(answers) == ["10 to Carl for ada", "10 to Carl for eve"]
    assert "10 to Carl for eve" in again
    assert sorted(remote.calls) == [("pay", ADA, "10 to Carl"), ("pay", EVE, "10 to Carl")]


async def test_no_user_is_answered_with_what_another_was_told_in_the_same_run(remote: CredentialServer) -> None:
    async with program(remote) as (executor, _):
        for who in ("ada", "eve"):
            call = ToolCall("", "look", {"text": "x"})
            await executor.invoke(call, Context(run="shared", principal=Principal(who)))

    assert remote.calls == [("look", ADA, "x"), ("look", EVE, "x")]


async def test_what_has_no_caller_there_does_not_pass(place: AppFolder, remote: CredentialServer) -> None:
    async with proxy(place, remote) as url, ModernHttpClient(url, token="adas-key") as client:
        answer = await client.ask("resources/read", {"uri": "secret://balance"})

    assert "error" in answer
    assert "shared balance" not in json.dumps(answer)


@pytest.mark.parametrize("status", [401, 403])
async def test_an_expired_credential_of_one_does_not_disturb_the_other_and_is_shown_nowhere(
    place: AppFolder, remote: CredentialServer, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """With 403 the words of the server, which quote the credential, are passed on."""
    caplog.set_level("DEBUG")
    remote.refusal = status
    async with proxy(place, remote) as url:
        before = [await call(url, who, "look", "1") for who in ("ada", "eve")]
        remote.refused.add(ADA)
        failed, other = await call(url, "ada", "look", "2"), await call(url, "eve", "look", "2")
        remote.refused.clear()
        after = await call(url, "ada", "look", "3")

    record = (place.folder / ".handrail" / "journal.db").read_bytes()
    assert (before, other, after) == (["1 for ada", "1 for eve"], "2 for eve", "3 for ada")
    assert f"HTTP {status}" in failed
    assert [token for token in (ADA, EVE, SHARED) if token in failed + caplog.text or token.encode() in record] == []


async def test_a_connection_of_one_that_breaks_does_not_disturb_the_call_of_another(remote: CredentialServer) -> None:
    async with program(remote) as (executor, _):
        waiting = asyncio.create_task(invoke(executor, "eve", "meet", people=1))
        await remote.met.wait()
        remote.cut.add(ADA)
        lost = await invoke(executor, "ada", "pay")
        remote.cut.clear()
        after = await invoke(executor, "ada")
        remote.together.set()
        met = await waiting

    assert (lost.outcome, after.outcome, met.outcome) == ("in_doubt", "ok", "ok")


async def test_a_credential_that_never_worked_fails_only_the_calls_of_its_user(remote: CredentialServer) -> None:
    remote.refused.add(ADA)
    async with program(remote) as (executor, _):
        failed, other = await invoke(executor, "ada"), await invoke(executor, "eve")

    assert (failed.outcome, other.outcome) == ("failed", "ok")
    assert "no connection for 'ada'" in failed.text
    assert ADA not in failed.text
    assert [said for _, said, _ in remote.calls] == [EVE]


async def test_a_tool_that_the_server_shows_one_user_in_other_words_is_not_called_for_them(
    place: AppFolder, remote: CredentialServer
) -> None:
    remote.changed.add(ADA)
    async with proxy(place, remote) as url:
        held, other = await call(url, "ada", "look", "a line"), await call(url, "eve", "look", "a line")

    assert "is not called" in held
    assert "handrail mcp approve docs" in held
    assert other == "a line for eve"
    assert [said for _, said, _ in remote.calls] == [EVE]


async def test_connections_open_with_the_first_call_and_close_when_idle(remote: CredentialServer) -> None:
    async with program(remote, user_idle=0) as (executor, _):
        at_first = set(remote.connections)
        await invoke(executor, "ada")
        tasks = [task for task in asyncio.all_tasks() if task.get_name() == "handrail-mcp-docs-end"]
        while not tasks:
            await asyncio.sleep(0)
            tasks = [task for task in asyncio.all_tasks() if task.get_name() == "handrail-mcp-docs-end"]
        await asyncio.wait(tasks)
        opened = remote.connections.count(ADA)
        again = await invoke(executor, "ada")

    assert (at_first, again.outcome) == ({SHARED}, "ok")
    assert remote.connections.count(ADA) == 2 * opened


async def test_no_more_users_are_connected_at_once_than_may_be(remote: CredentialServer) -> None:
    async with program(remote, (ADA, EVE, "bob-1234567890"), user_connections=2) as (executor, _):
        waiting = [asyncio.create_task(invoke(executor, who, "meet", people=2)) for who in ("ada", "eve")]
        await remote.met.wait()
        refused = await invoke(executor, "bob")
        remote.together.set()
        met = await asyncio.gather(*waiting)
        room = await invoke(executor, "bob")

    assert (refused.outcome, [each.outcome for each in met], room.outcome) == ("limit", ["ok", "ok"], "ok")


async def test_an_approval_ends_when_the_credential_of_a_user_is_added_and_shows_its_name(
    place: AppFolder, remote: CredentialServer
) -> None:
    async with proxy(place, remote):
        pass
    place.says_yes = False
    text = TABLE.format(url=remote.url, more="")
    async with place.app(text + '[mcp.docs.users.bob]\nheaders = { Authorization = "env:BOB_KEY" }\n'):
        pass

    (first, second), told = place.asked, "\n".join(place.told)
    assert "is not approved" in first
    assert "headers changed" in second
    assert "for the user 'bob' with the headers Authorization: env:BOB_KEY" in told
    assert not [token for token in (ADA, EVE, SHARED) if token in told]
