"""Guarded toolsets of pydantic-ai, in agents of pydantic-ai over its own test models."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    ModelRetry,
    RunContext,
    Tool,
    ToolDenied,
    ToolReturn,
)
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset

from handrail.adapters import guard
from handrail.errors import UsageError
from handrail.events import CallIntended, CallSettled
from handrail.execute import Policy
from handrail.journal import JournalReader, answer, audit
from tests.polling import until_still

ALLOWED: dict[str, Any] = {"rules": ["allow *"]}


class Order(BaseModel):
    number: int


class Bank:
    """The outside world: what was paid."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []

    def pay(self, to: str, cents: int) -> str:
        """Pay somebody.

        Args:
            to: Who gets it.
        """
        self.paid.append((to, cents))
        return f"paid {cents} cents to {to}"


@pytest.fixture
def bank() -> Bank:
    return Bank()


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


def pays(id: str = "call_1", to: str = "ada", tool: str = "pay") -> ToolCallPart:
    return ToolCallPart(tool, {"to": to, "cents": 5}, tool_call_id=id)


class Scripted:
    """A model that makes these calls, a list of them in each reply, and then says what it was told last."""

    def __init__(self, *replies: list[ToolCallPart]) -> None:
        self.replies = list(replies)
        self.told: list[str] = []
        self.offered: list[ToolDefinition] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.offered = info.function_tools
        self.told = [str(getattr(part, "content", "")) for part in messages[-1].parts if hasattr(part, "tool_call_id")]
        if self.replies:
            return ModelResponse(list(self.replies.pop(0)))
        return ModelResponse([TextPart(" | ".join(self.told) or "nothing")])

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self)


def agent_of(model: Scripted, *toolsets: AbstractToolset[Any]) -> Agent[Any, str | DeferredToolRequests]:
    return Agent(model.model, toolsets=toolsets, output_type=[str, DeferredToolRequests])


async def test_a_model_is_offered_exactly_the_same_tools(bank: Bank, journal: Path) -> None:
    plain = FunctionToolset([Tool(bank.pay, strict=True, timeout=5, metadata={"team": "billing"})])
    offered = []
    for tools in (plain, guard(plain, journal=journal)):
        model = Scripted()
        await agent_of(model, tools).run("Go.")
        offered.append(model.offered)
    assert offered[0] == offered[1]
    assert offered[1][0].parameters_json_schema["properties"]["to"]["description"] == "Who gets it."


async def test_a_side_effect_waits_for_the_approval_of_pydantic_ai_and_then_happens_once(
    bank: Bank, journal: Path
) -> None:
    agent = agent_of(Scripted([pays()]), guard(FunctionToolset([bank.pay]), journal=journal))
    waiting = await agent.run("Pay ada.")
    assert isinstance(waiting.output, DeferredToolRequests)
    (call,) = waiting.output.approvals
    assert "waits for a person" in waiting.output.metadata[call.tool_call_id]["message"]
    assert bank.paid == []

    word = DeferredToolResults(approvals={call.tool_call_id: True})
    for _ in range(2):
        done = await agent.run(message_history=waiting.all_messages(), deferred_tool_results=word)
        assert done.output == "paid 5 cents to ada"
    assert bank.paid == [("ada", 5)]
    assert audit(journal).ok


async def test_what_a_person_denies_through_pydantic_ai_does_not_run(bank: Bank, journal: Path) -> None:
    agent = agent_of(Scripted([pays()]), guard(FunctionToolset([bank.pay]), journal=journal))
    waiting = await agent.run("Pay ada.")
    word = DeferredToolResults(approvals={"call_1": ToolDenied("not today")})
    done = await agent.run(message_history=waiting.all_messages(), deferred_tool_results=word)
    assert (done.output, bank.paid) == ("not today", [])


async def test_a_decision_made_elsewhere_is_found_when_the_conversation_goes_on(bank: Bank, journal: Path) -> None:
    agent = agent_of(Scripted([pays()]), guard(FunctionToolset([bank.pay]), journal=journal))
    waiting = await agent.run("Pay ada.")
    assert isinstance(waiting.output, DeferredToolRequests)
    asked = waiting.output.metadata["call_1"]
    with JournalReader(journal) as reader:
        (question,) = reader.pending(asked["run"])
    assert question.request == asked["request"]
    await answer(journal, question, "allow", by="ada")
    done = await agent.run(message_history=waiting.all_messages())
    assert (done.output, bank.paid) == ("paid 5 cents to ada", [("ada", 5)])


async def test_rules_decide_before_anybody_is_asked_and_reads_are_not_asked_about(bank: Bank, journal: Path) -> None:
    def get_balance() -> int:
        return 17

    model = Scripted([pays("a"), pays("b", "eve"), ToolCallPart("get_balance", {}, tool_call_id="c")])
    rules = ["deny pay to=eve", "allow pay"]
    tools = guard(FunctionToolset([bank.pay, get_balance]), journal=journal, rules=rules, reads=["get_*"])
    done = await agent_of(model, tools).run("Go.")
    assert model.told[0] == "paid 5 cents to ada"
    assert "denied the call to 'pay'" in model.told[1]
    assert model.told[2] == "17"
    assert isinstance(done.output, str)
    assert bank.paid == [("ada", 5)]


async def test_arguments_that_break_a_plain_json_schema_are_refused_and_the_model_reads_why(
    bank: Bank, journal: Path
) -> None:
    schema = {"type": "object", "properties": {"cents": {"type": "integer", "maximum": 3}}, "required": ["to"]}
    tool = Tool.from_schema(bank.pay, "pay", "Pay.", schema)
    model = Scripted([pays()])
    await agent_of(model, guard(FunctionToolset([tool]), journal=journal, **ALLOWED)).run("Go.")
    assert "cents" in model.told[0]
    assert bank.paid == []


async def test_a_tool_gets_and_gives_what_it_does_without_a_guard(journal: Path) -> None:
    seen: list[Any] = []
    word = contextvars.ContextVar("word", default="none")

    async def ship(ctx: RunContext[str], order: Order, day: str = "today") -> ToolReturn:
        seen.extend([ctx.deps, order, day, word.get()])
        return ToolReturn(Order(number=order.number + 1), metadata={"kept": True})

    calls = [ToolCallPart("ship", '{"order": {"number": "17"}}', tool_call_id="a")]
    agent = Agent(
        Scripted(calls).model, deps_type=str, toolsets=[guard(FunctionToolset[str]([ship]), journal=journal, **ALLOWED)]
    )
    word.set("said")
    done = await agent.run("Go.", deps="the shop")
    (part,) = done.all_messages()[-2].parts
    assert seen == ["the shop", Order(number=17), "today", "said"]
    assert (part.content, part.metadata) == (Order(number=18), {"kept": True})  # type: ignore[union-attr]


@pytest.mark.parametrize("error", [ModelRetry("again, with more"), ValueError("the bank is closed")])
async def test_what_a_tool_raises_reaches_pydantic_ai_as_it_is(journal: Path, error: Exception) -> None:
    def pay(to: str, cents: int) -> str:
        raise error

    model = Scripted([pays()])
    agent = agent_of(model, guard(FunctionToolset([pay]), journal=journal, **ALLOWED))
    if isinstance(error, ModelRetry):
        await agent.run("Go.")
        assert "again, with more" in model.told[0]
    else:
        with pytest.raises(ValueError, match="the bank is closed"):
            await agent.run("Go.")


async def test_a_tool_that_asks_for_approval_itself_is_called_again_once_it_has_it(journal: Path) -> None:
    begun = []

    def pay(ctx: RunContext[None], to: str, cents: int) -> str:
        begun.append(ctx.tool_call_approved)
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"mine": True})
        return "paid"

    agent = agent_of(Scripted([pays()]), guard(FunctionToolset([pay]), journal=journal, **ALLOWED))
    waiting = await agent.run("Go.")
    assert isinstance(waiting.output, DeferredToolRequests)
    assert waiting.output.metadata == {"call_1": {"mine": True}}
    for _ in range(2):
        word = DeferredToolResults(approvals={"call_1": True})
        done = await agent.run(message_history=waiting.all_messages(), deferred_tool_results=word)
        assert done.output == "paid"
    assert begun == [False, True]


async def test_ids_that_a_service_uses_again_name_new_calls(bank: Bank, journal: Path) -> None:
    model = Scripted([pays()], [pays()], [pays(to="eve")])
    await agent_of(model, guard(FunctionToolset([bank.pay]), journal=journal, **ALLOWED)).run("Go.")
    assert bank.paid == [("ada", 5), ("ada", 5), ("eve", 5)]


async def test_a_payment_that_ran_out_of_time_is_not_made_again(bank: Bank, journal: Path) -> None:
    async def pay(to: str, cents: int) -> str:
        bank.pay(to, cents)
        await asyncio.Event().wait()
        return "never"

    model = Scripted([pays("a")], [pays("b")])
    policy = Policy(timeout=0.05)
    await agent_of(model, guard(FunctionToolset([pay]), journal=journal, policy=policy, **ALLOWED)).run("Go.")
    assert "whether it took effect is not known" in model.told[0]
    assert bank.paid == [("ada", 5)]


async def test_a_long_result_is_cut_and_many_calls_run_a_few_at_once(journal: Path) -> None:
    at_once, most = 0, 0

    async def read(n: int) -> str:
        nonlocal at_once, most
        at_once, most = at_once + 1, max(most, at_once + 1)
        await asyncio.sleep(0)
        at_once -= 1
        return "x" * 1000

    calls = [ToolCallPart("read", {"n": n}, tool_call_id=f"c{n}") for n in range(12)]
    model, policy = Scripted(calls), Policy(max_output=500, concurrency=3)
    await agent_of(model, guard(FunctionToolset([read]), journal=journal, policy=policy, reads="read")).run("Go.")
    assert len(model.told) == 12
    assert all("not shown" in each or len(each) <= 600 for each in model.told)
    assert most <= 3


async def test_two_guarded_toolsets_of_an_agent_work_at_the_same_time(bank: Bank, journal: Path) -> None:
    def refund(to: str, cents: int) -> str:
        return f"refunded {cents} cents to {to}"

    both = [guard(FunctionToolset([each]), journal=journal, **ALLOWED) for each in (bank.pay, refund)]
    model = Scripted([pays("a"), pays("b", tool="refund")])
    done = await agent_of(model, *both).run("Go.")
    assert done.output == "paid 5 cents to ada | refunded 5 cents to ada"


def test_a_conversation_goes_on_in_another_event_loop(bank: Bank, journal: Path) -> None:
    model = Scripted([pays("a")])
    agent = agent_of(model, guard(FunctionToolset([bank.pay]), journal=journal, **ALLOWED))
    first = asyncio.run(agent.run("Pay."))
    model.replies.append([pays("b")])
    asyncio.run(agent.run("Again.", message_history=first.all_messages()))
    assert bank.paid == [("ada", 5)] * 2


async def test_two_at_once_who_ask_for_the_same_in_one_conversation_pay_once(journal: Path) -> None:
    begun, may_end, paid = asyncio.Event(), asyncio.Event(), list[str]()

    async def pay(to: str, cents: int) -> str:
        paid.append(to)
        begun.set()
        await may_end.wait()
        return f"paid {to}"

    models = [Scripted([pays("a")]), Scripted([pays("b")])]  # as in two processes: each has its guard
    agents = [agent_of(model, guard(FunctionToolset([pay]), journal=journal, **ALLOWED)) for model in models]
    first = asyncio.create_task(agents[0].run("Go.", conversation_id="invoice-17"))
    await begun.wait()
    second = asyncio.create_task(agents[1].run("Go.", conversation_id="invoice-17"))
    await until_still(lambda: len(models[1].replies))
    may_end.set()
    assert (await first).output == "paid ada"
    assert "not run again" in str((await second).output)
    assert paid == ["ada"]


async def test_each_call_is_on_record_under_the_conversation(bank: Bank, journal: Path) -> None:
    agent = agent_of(Scripted([pays()]), guard(FunctionToolset([bank.pay]), journal=journal, owner="ada", **ALLOWED))
    await agent.run("Go.", conversation_id="invoice-17")
    with JournalReader(journal) as reader:
        events = list(reader.events("invoice-17"))
    (intent,) = (event for event in events if isinstance(event, CallIntended))
    (settled,) = (event for event in events if isinstance(event, CallSettled))
    assert (intent.tool, intent.principal, intent.arguments) == ("pay", "ada", {"to": "ada", "cents": 5})
    assert settled.outcome == "ok"


@pytest.mark.parametrize("same_owner", [True, False])
async def test_an_effect_of_a_conversation_that_was_forgotten_is_found_by_its_owner(
    bank: Bank, journal: Path, same_owner: bool
) -> None:
    owner: Callable[[RunContext[Any]], str] | None = (lambda ctx: ctx.deps) if same_owner else None
    for _ in range(2):  # a program that keeps nothing, and is started again
        tools = guard(FunctionToolset([bank.pay]), journal=journal, owner=owner, **ALLOWED)
        model = Scripted([pays()])
        await agent_of(model, tools).run("Go.", deps="ada")
    assert len(bank.paid) == (1 if same_owner else 2)
    assert ("not run again" in model.told[0]) == same_owner


async def test_what_is_no_tool_of_a_framework_is_refused_with_what_to_give(bank: Bank, journal: Path) -> None:
    with pytest.raises(UsageError, match="takes tools of"):
        guard([bank.pay], journal=journal)
    with pytest.raises(UsageError, match="FunctionToolset"):
        guard([Tool(bank.pay)], journal=journal)
    with pytest.raises(UsageError, match="effect_keys"):
        guard(FunctionToolset([bank.pay]), journal=journal, options={"pay": {"effect_keys": ("to",)}})  # type: ignore[typeddict-unknown-key]
