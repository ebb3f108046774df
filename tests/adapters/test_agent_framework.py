"""The guard of agent-framework's agents, over a chat client of its own interface."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentResponse,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    FunctionMiddleware,
    FunctionTool,
    Message,
    MiddlewareTermination,
    tool,
)
from pydantic import BaseModel, Field

from handrail.adapters import GuardFunctionMiddleware, guard
from handrail.errors import UsageError
from handrail.events import CallIntended, CallSettled
from handrail.journal import JournalReader
from tests.adapters.test_pydantic_ai import Bank

ALLOWED: dict[str, Any] = {"rules": ["allow *"]}


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def bank() -> Bank:
    return Bank()


def call(name: str = "pay", id: str = "call_1", **arguments: Any) -> Content:
    given = arguments or {"to": "ada", "cents": 5}
    return Content.from_function_call(call_id=id, name=name, arguments=json.dumps(given))


class Scripted(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """A chat client that makes these calls, a list of them in each reply, and then is done."""

    def __init__(self, *replies: list[Content]) -> None:
        super().__init__()
        self.replies = list(replies)
        self.told: list[Any] = []

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        async def reply() -> ChatResponse[Any]:
            parts = [each for message in messages for each in message.contents]
            self.told = [each.result for each in parts if each.type == "function_result"]
            contents = self.replies.pop(0) if self.replies else [Content.from_text("Done.")]
            return ChatResponse(messages=[Message("assistant", contents)])

        return reply()


def agent_of(client: Scripted, tools: list[FunctionTool], *middleware: FunctionMiddleware) -> Agent[Any]:
    return Agent(client, tools=tools, middleware=[*middleware])


def session() -> AgentSession:
    return AgentSession(session_id="invoice-17")


async def answer(agent: Agent[Any], waiting: AgentResponse[Any], approved: bool, kept: AgentSession) -> None:
    said = [each.to_function_approval_response(approved) for each in waiting.user_input_requests]
    await agent.run(Message("user", said), session=kept)


def outcomes(journal: Path) -> list[str]:
    with JournalReader(journal) as reader:
        return [event.outcome for event in reader.events("invoice-17") if isinstance(event, CallSettled)]


async def test_a_side_effect_ends_the_run_with_a_request_and_happens_once_when_it_is_approved(
    bank: Bank, journal: Path
) -> None:
    client = Scripted([call()])
    agent = agent_of(client, [tool(bank.pay)], GuardFunctionMiddleware(journal=journal))
    kept = session()
    waiting = await agent.run("Go.", session=kept)
    (asked,) = waiting.user_input_requests
    assert asked.function_call is not None
    assert (asked.function_call.name, asked.function_call.parse_arguments()) == ("pay", {"to": "ada", "cents": 5})
    assert bank.paid == []
    written = json.dumps(kept.to_dict())
    for _ in range(2):  # another process takes it up, and is lost before it can keep the end; then one more
        again = agent_of(client, [tool(bank.pay)], GuardFunctionMiddleware(journal=journal))
        await answer(again, waiting, True, AgentSession.from_dict(json.loads(written)))
        assert client.told == ["paid 5 cents to ada"]
    assert bank.paid == [("ada", 5)]


async def test_rules_decide_each_call_before_anybody_is_asked_and_what_is_rejected_does_not_run(
    bank: Bank, journal: Path
) -> None:
    client = Scripted([call(), call(id="b", to="eve", cents=5), call(id="c", to="bob", cents=5)])
    rules = ["allow pay to=ada", "deny pay to=eve"]
    agent = agent_of(client, [tool(bank.pay)], GuardFunctionMiddleware(journal=journal, rules=rules))
    kept = session()
    waiting = await agent.run("Go.", session=kept)
    (asked,) = waiting.user_input_requests
    assert asked.function_call is not None and asked.function_call.call_id == "c"
    await answer(agent, waiting, False, kept)
    assert "paid 5 cents to ada" in client.told
    assert any("denied the call to 'pay'" in each for each in client.told)
    assert any("reject" in each for each in client.told)
    assert bank.paid == [("ada", 5)]


async def test_a_tool_that_asks_by_itself_is_asked_about_once(bank: Bank, journal: Path) -> None:
    client, kept = Scripted([call()]), session()
    asking = tool(bank.pay, approval_mode="always_require")
    agent = agent_of(client, [asking], GuardFunctionMiddleware(journal=journal))
    await answer(agent, await agent.run("Go.", session=kept), True, kept)
    assert client.told == ["paid 5 cents to ada"]
    assert bank.paid == [("ada", 5)]


class Parcel(BaseModel):
    number: int = Field(alias="parcelNumber")
    on: date


async def test_a_tool_gets_and_gives_what_it_does_without_a_guard_also_from_the_record(journal: Path) -> None:
    seen: list[Any] = []

    async def ship(ctx: FunctionInvocationContext, number: int, on: date) -> list[Content]:
        seen.append((ctx.kwargs["shop"], number, on))
        return [Content.from_text("shipped"), Content.from_uri("https://example.org/17.png", media_type="image/png")]

    def look(to: str, cents: int) -> dict[str, int]:
        return {"orders": cents}

    parts: list[list[Any]] = []

    class Watching(FunctionMiddleware):
        async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
            await call_next()
            parts.append(context.result)

    tools = [FunctionTool(name="ship", func=ship, input_model=Parcel), tool(look)]
    for id in ("a", "b"):  # the second time in another process, whose conversation was lost
        calls = [call("ship", id, parcelNumber=17, on="2026-11-16"), call("look", f"look{id}")]
        client = Scripted(calls)
        guarding = GuardFunctionMiddleware(journal=journal, reads="look", **ALLOWED)
        agent = agent_of(client, tools, Watching(), guarding)
        await agent.run("Go.", session=session(), function_invocation_kwargs={"shop": "the shop"})
    assert seen == [("the shop", 17, date(2026, 11, 16))]
    assert client.told[1] == '{"orders": 5}'
    assert [each.type for each in next(each for each in parts if len(each) == 2)] == ["text", "uri"]


async def test_what_a_tool_raises_is_told_as_without_a_guard_and_recorded_as_a_failure(journal: Path) -> None:
    def pay(to: str, cents: int) -> str:
        raise ValueError("the bank is closed")

    plain, guarded = Scripted([call()]), Scripted([call()])
    await agent_of(plain, [tool(pay)]).run("Go.", session=session())
    await agent_of(guarded, [tool(pay)], GuardFunctionMiddleware(journal=journal, **ALLOWED)).run(
        "Go.", session=session()
    )
    assert guarded.told == plain.told
    assert outcomes(journal) == ["failed"]


async def test_arguments_that_break_a_schema_which_agent_framework_only_passes_on_are_refused(
    bank: Bank, journal: Path
) -> None:
    schema = {"type": "object", "properties": {"to": {}, "cents": {"type": "integer", "maximum": 3}}}
    paying = FunctionTool(name="pay", func=bank.pay, input_model=schema)
    client = Scripted([call()])
    await agent_of(client, [paying], GuardFunctionMiddleware(journal=journal, **ALLOWED)).run("Go.", session=session())
    assert "cents" in client.told[0]
    assert bank.paid == []


async def test_a_conversation_that_forgot_the_call_does_not_pay_again_and_one_that_means_it_does(
    bank: Bank, journal: Path
) -> None:
    for id in ("call_1", "call_2"):  # a process that is started again, whose model asks again by another id
        client = Scripted([call(id=id)])
        agent = agent_of(client, [tool(bank.pay)], GuardFunctionMiddleware(journal=journal, **ALLOWED))
        await agent.run("Go.", session=session())
    assert "not run again" in client.told[0]
    assert bank.paid == [("ada", 5)]
    client.replies.append([call(id="call_2", to="bob", cents=5)])  # a service that uses an id again
    await agent.run("Go.", session=session())
    assert bank.paid == [("ada", 5), ("bob", 5)]
    with JournalReader(journal) as reader:
        intents = [event for event in reader.events("invoice-17") if isinstance(event, CallIntended)]
    assert [each.arguments["to"] for each in intents] == ["ada", "bob"]


async def test_other_middleware_may_end_the_loop_or_ask_a_person_behind_the_guard(bank: Bank, journal: Path) -> None:
    class Ending(FunctionMiddleware):
        async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
            await call_next()
            raise MiddlewareTermination("enough")

    class Asking(FunctionMiddleware):
        async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
            if "approval_response" in context.metadata:
                return await call_next()
            id = context.metadata["function_call_occurrence_id"]
            asked = Content.from_function_call(
                call_id=context.metadata["call_id"], name="pay", arguments=dict(context.arguments), id=id
            )
            context.result = Content.from_function_approval_request(id=id, function_call=asked)

    guarding = GuardFunctionMiddleware(journal=journal, **ALLOWED)
    client = Scripted([call()])
    await agent_of(client, [tool(bank.pay)], guarding, Ending()).run("Go.", session=session())
    assert (client.told, bank.paid, outcomes(journal)) == ([], [("ada", 5)], ["ok"])
    client, kept = Scripted([call(to="bob", cents=1)]), session()
    agent = agent_of(client, [tool(bank.pay)], guarding, Asking())
    waiting = await agent.run("Go.", session=kept)
    assert len(waiting.user_input_requests) == 1
    await answer(agent, waiting, True, kept)
    assert bank.paid == [("ada", 5), ("bob", 1)]


async def test_two_tools_that_are_first_called_at_once_in_a_known_conversation_both_run(
    bank: Bank, journal: Path
) -> None:
    for cents in (1, 2):  # the second time the conversation is read from the record
        client = Scripted([call(to="ada", cents=cents), call("refund", "b", to="ada", cents=cents)])
        tools = [tool(bank.pay), tool(bank.pay, name="refund")]
        await agent_of(client, tools, GuardFunctionMiddleware(journal=journal, **ALLOWED)).run("Go.", session=session())
        assert client.told == [f"paid {cents} cents to ada"] * 2


def test_guarding_the_tools_alone_says_that_the_agent_takes_a_middleware(bank: Bank, journal: Path) -> None:
    with pytest.raises(UsageError, match="GuardFunctionMiddleware"):
        guard([tool(bank.pay)], journal=journal)
