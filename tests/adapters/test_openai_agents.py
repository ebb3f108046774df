"""Guarded function tools of openai-agents, in its runner over a model of its own interface."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    Model,
    ModelResponse,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    ToolOutputText,
    Usage,
    function_tool,
)
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from handrail.adapters import guard
from handrail.events import CallIntended, CallSettled
from handrail.execute import Policy
from handrail.journal import JournalReader
from tests.adapters.test_pydantic_ai import Bank

ALLOWED: dict[str, Any] = {"rules": ["allow *"], "run": "invoice-17"}
QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def bank() -> Bank:
    return Bank()


def call(name: str = "pay", id: str = "call_1", **arguments: Any) -> ResponseFunctionToolCall:
    given = arguments or {"to": "ada", "cents": 5}
    return ResponseFunctionToolCall(name=name, call_id=id, arguments=json.dumps(given), type="function_call")


def text(words: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=words, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", content=[content], role="assistant", status="completed", type="message")


class Scripted(Model):
    """A model that makes these calls, a list of them in each reply, and then is done."""

    def __init__(self, *replies: list[ResponseFunctionToolCall]) -> None:
        self.replies = list(replies)
        self.told: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> ModelResponse:
        given = [] if isinstance(input, str) else input
        self.told = [each["output"] for each in given if each.get("type") == "function_call_output"]
        output: list[Any] = [*self.replies.pop(0)] if self.replies else [text("Done.")]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def agent_of(model: Model, *tools: FunctionTool) -> Agent[Any]:
    return Agent(name="clerk", model=model, tools=[*tools])


def test_a_model_is_offered_exactly_the_same_tools(bank: Bank, journal: Path) -> None:
    plain = function_tool(bank.pay)
    (same,) = guard([plain], journal=journal)
    assert {**vars(same), "on_invoke_tool": None, "needs_approval": None} == {
        **vars(plain),
        "on_invoke_tool": None,
        "needs_approval": None,
    }
    assert same.params_json_schema["properties"]["to"]["description"] == "Who gets it."


async def test_a_side_effect_interrupts_the_run_and_happens_once_when_it_is_approved(bank: Bank, journal: Path) -> None:
    model = Scripted([call()])
    agent = agent_of(model, *guard([function_tool(bank.pay)], journal=journal, run="invoice-17"))
    waiting = await Runner.run(agent, "Go.", run_config=QUIET)
    (asked,) = waiting.interruptions
    assert (asked.tool_name, bank.paid) == ("pay", [])
    kept = waiting.to_state().to_json()
    for _ in range(2):  # another process takes it up, and is lost before it can keep the end; then one more
        state = await RunState.from_json(agent, kept)
        state.approve(state.get_interruptions()[0])
        await Runner.run(agent, state, run_config=QUIET)
        assert model.told == ["paid 5 cents to ada"]
    assert bank.paid == [("ada", 5)]


async def test_rules_decide_before_anybody_is_asked_and_what_is_rejected_does_not_run(
    bank: Bank, journal: Path
) -> None:
    model = Scripted([call(), call(id="b", to="eve", cents=5), call(id="c", to="bob", cents=5)])
    tools = guard([function_tool(bank.pay)], journal=journal, rules=["allow pay to=ada", "deny pay to=eve"])
    agent = agent_of(model, *tools)
    waiting = await Runner.run(agent, "Go.", run_config=QUIET)
    (asked,) = waiting.interruptions
    state = waiting.to_state()
    state.reject(asked, rejection_message="not today")
    await Runner.run(agent, state, run_config=QUIET)
    assert sorted(map(str, model.told))[0].startswith("not today")
    assert any("denied the call to 'pay'" in each for each in model.told)
    assert bank.paid == [("ada", 5)]


async def test_a_tool_gets_and_gives_what_it_does_without_a_guard(journal: Path) -> None:
    seen: list[Any] = []

    @function_tool
    async def ship(context: RunContextWrapper[str], number: int) -> ToolOutputText:
        """Ship."""
        seen.extend([context.context, number])
        return ToolOutputText(text="shipped")

    model = Scripted([call("ship", number=17)])
    agent = agent_of(model, *guard([ship], journal=journal, **ALLOWED))
    await Runner.run(agent, "Go.", context="the shop", run_config=QUIET)
    assert seen == ["the shop", 17]
    assert model.told == [[{"type": "input_text", "text": "shipped"}]]


async def test_what_a_tool_raises_is_told_as_without_a_guard_and_recorded_as_a_failure(journal: Path) -> None:
    def pay(to: str, cents: int) -> str:
        """Pay."""
        raise ValueError("the bank is closed")

    for handled in (function_tool(pay), function_tool(pay, failure_error_function=None)):
        handles = handled._use_default_failure_error_function
        model, plain = Scripted([call(id=f"call_{handles}")]), Scripted([call()])
        for each, tools in ((plain, [handled]), (model, guard([handled], journal=journal, **ALLOWED))):
            if handles:
                await Runner.run(agent_of(each, *tools), "Go.", run_config=QUIET)
                continue
            with pytest.raises(Exception, match="the bank is closed"):
                await Runner.run(agent_of(each, *tools), "Go.", run_config=QUIET)
        assert model.told == plain.told
    with JournalReader(journal) as reader:
        outcomes = {event.outcome for event in reader.events("invoice-17") if isinstance(event, CallSettled)}
    assert outcomes == {"failed"}


async def test_arguments_that_break_a_plain_json_schema_are_refused_and_the_model_reads_why(
    bank: Bank, journal: Path
) -> None:
    async def invoke(context: Any, given: str) -> str:
        return bank.pay(**json.loads(given))

    schema = {"type": "object", "properties": {"cents": {"type": "integer", "maximum": 3}}}
    tool = FunctionTool("pay", "Pay.", schema, invoke, strict_json_schema=False)
    broken = ResponseFunctionToolCall(name="pay", call_id="b", arguments='{"cents": ', type="function_call")
    model = Scripted([call()], [broken])
    agent = agent_of(model, *guard([tool], journal=journal, policy=Policy(confirm_side_effects=False)))
    done = await Runner.run(agent, "Go.", run_config=QUIET)
    assert "cents" in model.told[0]
    assert bank.paid == []
    assert done.interruptions or "JSON" in model.told[1]  # what cannot be read is put to a person by the framework


async def test_a_conversation_that_forgot_the_call_does_not_pay_again(bank: Bank, journal: Path) -> None:
    for id in ("call_1", "call_2"):  # a process that is started again, whose model asks again by another id
        model = Scripted([call(id=id)])
        tools = guard([function_tool(bank.pay)], journal=journal, rules=["allow *"])
        await Runner.run(agent_of(model, *tools), "Go.", run_config=RunConfig(tracing_disabled=True, group_id="chat-1"))
    assert "not run again" in model.told[0]
    assert bank.paid == [("ada", 5)]
    with JournalReader(journal) as reader:
        (intent,) = (event for event in reader.events("chat-1") if isinstance(event, CallIntended))
    assert intent.arguments == {"to": "ada", "cents": 5}
