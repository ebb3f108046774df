"""A server that refuses a call: what is told, who is asked, and whether the call is sent again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from handrail import Executor, Policy, ToolCall, ToolResult
from handrail.core.confirmation import Allow, Confirmation, Decision, Deny
from handrail.mcp import ApproverQuestionHandler, McpEnsemble, mcp_ensemble
from handrail.mcp.values import HttpEndpoint, McpBounds
from tests.mcp.servers.raw_http_server import JSON, MODERN, RawHttpServer, send

SCHEMA = {"type": "object", "properties": {"region": {"type": "string"}}}
PLACE = "https://bank.example/consent"
ELSEWHERE = {"elicitations": [{"mode": "url", "url": PLACE, "message": "Consent first", "elicitationId": "1"}]}


@dataclass
class Office(RawHttpServer):
    """Lists its tools, and answers each call with the next thing that the test wrote down."""

    modern: bool = True
    tools: list[dict[str, Any]] = field(default_factory=lambda: [{"name": "pay", "inputSchema": SCHEMA}])
    answers: list[dict[str, Any]] = field(default_factory=list)
    later: list[dict[str, Any]] | None = None
    """The tools that it has from the first call on."""

    async def hear(self, method: str, id: Any, params: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        cached = {"ttlMs": 0, "cacheScope": "private"}
        match method:
            case "server/discover":
                found: dict[str, Any] = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, **cached}
            case "tools/list":
                found = {"tools": self.tools, **cached}
            case _:
                self.calls.append(params["name"])
                self.tools = self.later or self.tools
                found = self.answers.pop(0)
        if "code" in found:
            said = {"code": found["code"], "message": "not so", "data": found.get("data")}
            body = json.dumps({"jsonrpc": "2.0", "id": id, "error": said}).encode()
            return await send(writer, 400, JSON, body)
        await send(writer, 200, JSON, self.result(id, found))


class Person:
    def __init__(self, *decisions: Decision) -> None:
        self._decisions = list(decisions)
        self.questions: list[Confirmation] = []

    async def decide(self, question: Confirmation) -> Decision:
        self.questions.append(question)
        return self._decisions.pop(0)


@asynccontextmanager
async def open_office(office: Office, person: Person | None = None, **options: Any) -> AsyncIterator[McpEnsemble]:
    await office.start()
    asking = None if person is None else ApproverQuestionHandler(person)
    try:
        async with mcp_ensemble(
            "office", HttpEndpoint(url=office.url), required=True, asking=asking, **options
        ) as ensemble:
            yield ensemble
    finally:
        await office.kill()


async def pay(office: Office, person: Person | None = None, **options: Any) -> ToolResult:
    willing = Policy(confirm_side_effects=False)
    async with open_office(office, person, **options) as ensemble, Executor([ensemble], policy=willing) as executor:
        return await executor.invoke(ToolCall("", "pay", {}))


DONE = {"content": [{"type": "text", "text": "paid"}]}
MISMATCH = {"code": -32020}
REQUIRED = {"code": -32042, "data": ELSEWHERE}


async def test_headers_that_do_not_fit_are_no_reason_to_send_a_call_again() -> None:
    office = Office(answers=[MISMATCH, DONE])
    result = await pay(office)
    assert (result.outcome, office.calls) == ("failed", ["pay"])
    assert "not so" in result.text


async def test_headers_that_do_not_fit_because_the_tool_has_changed_are_told_as_that() -> None:
    office = Office(answers=[MISMATCH, DONE], later=[{"name": "pay", "inputSchema": {"type": "object"}}])
    result = await pay(office)
    assert (result.outcome, office.calls) == ("forbidden", ["pay"])
    assert "changed its definition" in result.text


async def test_a_tool_whose_headers_are_not_valid_is_held_back_with_the_reason() -> None:
    odd = {
        "name": "odd",
        "inputSchema": {"type": "object", "properties": {"a": {"type": "array", "x-mcp-header": "A"}}},
    }
    async with open_office(Office(tools=[odd, {"name": "pay", "inputSchema": SCHEMA}, {"name": "none"}])) as ensemble:
        assert [each.name for each in ensemble.tools] == ["pay"]
        assert "x-mcp-header" in ensemble.held["odd"]
        assert "inputSchema" in ensemble.held["none"]


async def test_where_a_person_must_go_first_they_are_told_and_the_call_is_made_again_once() -> None:
    office, person = Office(answers=[REQUIRED, DONE]), Person(Allow("ada"))
    result = await pay(office, person)
    assert (result.outcome, result.text) == ("ok", "paid")
    assert [(each.arguments, each.description) for each in person.questions] == [({"url": PLACE}, "Consent first")]
    assert office.calls == ["pay", "pay"]


@pytest.mark.parametrize("person", [None, Person(Deny("ada"))], ids=["nobody", "no"])
async def test_where_nobody_goes_the_address_is_told_and_nothing_sent(person: Person | None) -> None:
    office = Office(answers=[REQUIRED, DONE])
    result = await pay(office, person)
    assert (result.outcome, office.calls) == ("failed", ["pay"])
    assert PLACE in result.text


@pytest.mark.parametrize(
    "data", [None, [], {}, {"elicitations": 3}, {"elicitations": [{"url": 3}]}, {"elicitations": [ELSEWHERE] * 50}]
)
async def test_an_address_that_cannot_be_read_is_put_to_nobody(data: Any) -> None:
    person = Person()
    assert (await pay(Office(answers=[{"code": -32042, "data": data}]), person)).outcome == "failed"
    assert person.questions == []


async def test_nobody_is_sent_to_what_is_no_address() -> None:
    bad = {"elicitations": [{**ELSEWHERE["elicitations"][0], "url": "javascript:alert(1)"}]}
    person = Person()
    result = await pay(Office(answers=[{"code": -32042, "data": bad}]), person)
    assert (result.outcome, person.questions) == ("failed", [])


@pytest.mark.parametrize(("hints", "outcome"), [({"readOnlyHint": True}, "failed"), ({}, "in_doubt")])
async def test_an_answer_that_is_too_large_is_told_as_that(hints: dict[str, Any], outcome: str) -> None:
    tools = [{"name": "pay", "inputSchema": SCHEMA, "annotations": hints}]
    large = {"content": [{"type": "text", "text": "x" * 20_000}]}
    result = await pay(Office(tools=tools, answers=[large]), bounds=McpBounds(message=10_000))
    assert result.outcome == outcome
    assert "max_message" in result.text
    if outcome == "failed":
        assert result.error is not None and result.error.code == "too_large"
