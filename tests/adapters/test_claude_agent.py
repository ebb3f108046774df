"""The guard of the Claude Agent SDK's in-process tools, in the Claude Code that comes with the package. Only the
service that it asks is ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResult,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    ToolAnnotations,
    ToolPermissionContext,
    create_sdk_mcp_server,
    tool,
)

from handrail.adapters import guard
from handrail.errors import UsageError
from handrail.events import CallSettled, ConfirmationRequested
from handrail.journal import JournalReader
from handrail.journal.person_answers import answer
from tests.adapters.claude_model import ScriptedClaude, environment, serving
from tests.adapters.test_pydantic_ai import Bank

PAY = "mcp__shop__pay"
SCHEMA = {"to": str, "cents": int}


class Shop:
    """An agent whose tools are a bank's, and the folder that all of its processes share."""

    def __init__(self, folder: Path, model: ScriptedClaude, address: str) -> None:
        self.bank = Bank()
        self.model = model
        self.journal = folder / "journal.db"
        self.asked: list[dict[str, Any]] = []
        self._folder = folder
        self._address = address

    async def person(self, name: str, given: dict[str, Any], context: ToolPermissionContext) -> PermissionResult:
        """Pays everybody but Eve, and never more than 10 cents."""
        self.asked.append(given)
        if given["to"] == "eve":
            return PermissionResultDeny(message="not her")
        return PermissionResultAllow(updated_input={**given, "cents": min(given["cents"], 10)})

    def options(self, **more: Any) -> ClaudeAgentOptions:
        @tool("pay", "Pay somebody.", SCHEMA)
        async def pay(given: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": self.bank.pay(**given)}]}

        @tool("look", "Look at a picture.", {}, annotations=ToolAnnotations(readOnlyHint=True))
        async def look(given: dict[str, Any]) -> dict[str, Any]:
            picture = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
            return {"content": [{"type": "text", "text": "a dot"}, picture]}

        @tool("fail", "Fail.", {})
        async def fail(given: dict[str, Any]) -> dict[str, Any]:
            return {"content": [{"type": "text", "text": "no money"}], "is_error": True}

        return ClaudeAgentOptions(
            mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[pay, look, fail])},
            tools=[],
            setting_sources=[],
            cwd=self._folder,
            env=environment(self._address, str(self._folder)),
            **more,
        )

    async def ask(self, options: ClaudeAgentOptions, *prompts: str) -> str:
        """Ask in one process of Claude Code; the id of its session."""
        session = ""
        async with ClaudeSDKClient(options) as client:
            for prompt in prompts or ("Go.",):
                await client.query(prompt)
                async for message in client.receive_response():
                    if isinstance(message, ResultMessage):
                        session = message.session_id
        return session

    def outcomes(self, session: str) -> list[str]:
        with JournalReader(self.journal) as reader:
            return [event.outcome for event in reader.events(session) if isinstance(event, CallSettled)]


PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    model = ScriptedClaude()
    with serving(model) as address:
        yield Shop(tmp_path, model, address)


async def test_a_person_is_asked_by_can_use_tool_and_what_they_change_is_what_runs(shop: Shop) -> None:
    shop.model.script = [{PAY: {"to": "ada", "cents": 500}}, {PAY: {"to": "eve", "cents": 5}}]
    options = guard(shop.options(can_use_tool=shop.person), journal=shop.journal)
    session = await shop.ask(options, "Pay Ada.", "Pay Eve.")
    assert shop.asked == [{"to": "ada", "cents": 500}, {"to": "eve", "cents": 5}]
    assert shop.bank.paid == [("ada", 10)]
    assert shop.model.failed == [True]
    assert shop.outcomes(session) == ["ok"]


async def test_rules_decide_before_anybody_is_asked_and_a_resumed_session_does_not_pay_again(shop: Shop) -> None:
    rules = [f"allow {PAY} to=ada", f"deny {PAY} to=eve"]
    shop.model.script = [{PAY: {"to": "ada", "cents": 5}}, {PAY: {"to": "eve", "cents": 5}}]
    options = guard(shop.options(can_use_tool=shop.person), journal=shop.journal, rules=rules)
    session = await shop.ask(options, "Pay Ada.", "Pay Eve.")
    assert "denied" in str(shop.model.told)
    assert shop.outcomes(session) == ["ok", "denied"]

    shop.model.script = [{PAY: {"to": "ada", "cents": 5}}]
    again = guard(shop.options(resume=session), journal=shop.journal, rules=rules)  # another process
    assert await shop.ask(again) == session
    assert "paid 5 cents to ada" in str(shop.model.told)
    assert (shop.bank.paid, shop.asked) == ([("ada", 5)], [])


async def test_where_nobody_can_be_asked_the_call_waits_and_a_grant_given_meanwhile_is_used(shop: Shop) -> None:
    shop.model.script = [{PAY: {"to": "ada", "cents": 5}}]
    session = await shop.ask(guard(shop.options(), journal=shop.journal))
    assert "handrail confirm allow" in str(shop.model.told)
    assert shop.bank.paid == []
    with JournalReader(shop.journal) as reader:
        (question,) = (event for event in reader.events(session) if isinstance(event, ConfirmationRequested))
    await answer(shop.journal, question, "allow", by="a person")
    shop.model.script = [{PAY: {"to": "ada", "cents": 5}}]
    await shop.ask(guard(shop.options(resume=session), journal=shop.journal))
    assert shop.bank.paid == [("ada", 5)]


async def test_what_a_tool_says_and_how_it_fails_is_the_same_as_without_a_guard(shop: Shop) -> None:
    calls: dict[str, dict[str, Any]] = {"mcp__shop__look": {}, "mcp__shop__fail": {}, PAY: {"to": "ada"}}
    heard = []
    for options in (
        shop.options(allowed_tools=["mcp__shop"]),
        guard(shop.options(allowed_tools=["mcp__shop"]), journal=shop.journal, rules=["allow *"]),
    ):
        shop.model.script = [dict(calls)]
        await shop.ask(options)
        looked, failed, _ = shop.model.told
        heard.append((looked[:2], failed, shop.model.failed))  # and Claude Code says where it keeps the picture
    assert heard[0] == heard[1]
    assert "cents" in str(shop.model.told[2])  # arguments are refused in our words, which name what is missing
    assert shop.bank.paid == []


def test_what_is_given_stays_as_it_was_and_what_cannot_be_guarded_is_told(shop: Shop, tmp_path: Path) -> None:
    options = shop.options(can_use_tool=shop.person)
    server = cast(Any, options.mcp_servers)["shop"]["instance"]
    before = list(server.middleware)
    changed = guard(options, journal=tmp_path / "j.db")
    assert server.middleware == before
    assert options.hooks is None and changed.hooks is not None
    with pytest.raises(UsageError, match="no in-process server"):
        guard(ClaudeAgentOptions(), journal=tmp_path / "j.db")

    @tool("pay", "Pay somebody.", SCHEMA)
    async def pay(given: dict[str, Any]) -> dict[str, Any]:
        return {}

    with pytest.raises(UsageError, match="takes the options"):
        guard([pay], journal=tmp_path / "j.db")
