"""Guarded tools of LangChain and the middleware, in agents of LangChain over its fake chat model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.tools import InjectedState, InjectedToolCallId, ToolRuntime
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from pydantic import Field

from handrail.adapters import GuardMiddleware, guard
from handrail.errors import UsageError
from handrail.events import CallIntended, CallSettled
from handrail.journal import JournalReader, answer
from tests.adapters.test_pydantic_ai import Bank

THREAD: Any = {"configurable": {"thread_id": "invoice-17"}}
ALLOWED: dict[str, Any] = {"rules": ["allow *"]}
Call = dict[str, Any]
WAYS = [(by, mode) for by in ("tools", "middleware") for mode in ("sync", "async")]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def bank() -> Bank:
    return Bank()


def pays(id: str = "call_1", to: str = "ada", name: str = "pay") -> Call:
    return {"name": name, "args": {"to": to, "cents": 5}, "id": id}


class Scripted(GenericFakeChatModel):
    """A model that makes these calls, a list of them in each reply, and then is done."""

    messages: Iterator[AIMessage | str] = Field(exclude=True)

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self


def scripted(*replies: list[Call]) -> Scripted:
    return Scripted(messages=iter([*(AIMessage("", tool_calls=calls) for calls in replies), AIMessage("Done.")]))


def agent_of(by: str, model: Scripted, tools: list[BaseTool], journal: Path, **options: Any) -> Any:
    keeps = options.pop("checkpointer", None) or InMemorySaver()
    if by == "tools":
        return create_agent(model, guard(tools, journal=journal, **options), checkpointer=keeps)
    return create_agent(model, tools, middleware=[GuardMiddleware(journal=journal, **options)], checkpointer=keeps)


async def run(mode: str, agent: Any, given: Any) -> Any:
    return agent.invoke(given, THREAD) if mode == "sync" else await agent.ainvoke(given, THREAD)


def told(state: Any) -> list[str]:
    messages: list[BaseMessage] = state["messages"]
    return [str(each.content) for each in messages if isinstance(each, ToolMessage)]


GO = {"messages": [{"role": "user", "content": "Go."}]}


def word(**decision: Any) -> Command[Any]:
    return Command(resume={"decisions": [decision]})


def paying(bank: Bank) -> BaseTool:
    return tool("pay")(bank.pay)


def test_a_model_is_offered_exactly_the_same_tools(bank: Bank, journal: Path) -> None:
    plain = paying(bank)
    (same,) = guard([plain], journal=journal)
    assert convert_to_openai_tool(same) == convert_to_openai_tool(plain)
    assert isinstance(same, StructuredTool)
    assert (same.args_schema, same.response_format) == (plain.args_schema, plain.response_format)


@pytest.mark.parametrize(("by", "mode"), WAYS)
async def test_a_side_effect_waits_at_an_interrupt_and_then_happens_once(
    by: str, mode: str, bank: Bank, journal: Path
) -> None:
    agent = agent_of(by, scripted([pays()]), [paying(bank)], journal)
    waiting = await run(mode, agent, GO)
    (asked,) = waiting["__interrupt__"][0].value["action_requests"]
    assert (asked["name"], asked["args"]) == ("pay", {"to": "ada", "cents": 5})
    assert bank.paid == []
    done = await run(mode, agent, word(type="approve"))
    assert told(done) == ["paid 5 cents to ada"]
    assert bank.paid == [("ada", 5)]


@pytest.mark.parametrize("by", ["tools", "middleware"])
async def test_a_person_may_change_or_reject_the_call(by: str, bank: Bank, journal: Path) -> None:
    agent = agent_of(by, scripted([pays("a")], [pays("b")]), [paying(bank)], journal)
    agent.invoke(GO, THREAD)
    agent.invoke(word(type="edit", edited_action={"name": "pay", "args": {"to": "eve", "cents": 1}}), THREAD)
    done = agent.invoke(word(type="reject", message="not today"), THREAD)
    assert "changed the arguments" in told(done)[0]
    assert "not today" in told(done)[1]
    assert bank.paid == [("eve", 1)]
    with pytest.raises(UsageError, match="approve"):
        agent_of(by, scripted([pays("c")]), [paying(bank)], journal, checkpointer=(keeps := InMemorySaver())).invoke(
            GO, other := {"configurable": {"thread_id": "other"}}
        )
        agent_of(by, scripted(), [paying(bank)], journal, checkpointer=keeps).invoke(word(type="maybe"), other)


@pytest.mark.parametrize("by", ["tools", "middleware"])
async def test_a_thread_that_lost_its_process_goes_on_from_the_record(by: str, bank: Bank, journal: Path) -> None:
    """The first process is lost after it has paid, and before LangGraph could keep the message."""

    class Lost(Exception):
        pass

    class Mortal(InMemorySaver):
        lost = True

        def put_writes(self, config: Any, writes: Any, *args: Any, **options: Any) -> None:
            if self.lost and any(isinstance(each, ToolMessage) for _, value in writes for each in _items(value)):
                raise Lost
            super().put_writes(config, writes, *args, **options)

    keeps = Mortal()
    with pytest.raises(Lost):
        agent_of(by, scripted([pays()]), [paying(bank)], journal, checkpointer=keeps, **ALLOWED).invoke(GO, THREAD)
    keeps.lost = False
    again = agent_of(by, scripted(), [paying(bank)], journal, checkpointer=keeps, **ALLOWED).invoke(None, THREAD)
    assert told(again) == ["paid 5 cents to ada"]
    assert bank.paid == [("ada", 5)]


def _items(value: Any) -> list[Any]:
    found = value.get("messages", ()) if isinstance(value, dict) else value
    return list(found) if isinstance(found, list | tuple) else [found]


@pytest.mark.parametrize(("by", "mode"), WAYS)
async def test_a_tool_gets_and_gives_what_it_does_without_a_guard(by: str, mode: str, journal: Path) -> None:
    seen: list[Any] = []

    @tool(response_format="content_and_artifact")
    def pay(
        to: str,
        state: Annotated[dict[str, Any], InjectedState],
        id: Annotated[str, InjectedToolCallId],
        runtime: ToolRuntime[Any, Any],
        cents: int = 7,
    ) -> tuple[str, list[int]]:
        """Pay."""
        seen.extend([to, len(state["messages"]), id, runtime.tool_call_id, cents])
        return "paid", [1, 2]

    @tool
    def note(id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Note."""
        return Command(update={"messages": [ToolMessage("noted", tool_call_id=id)]})

    calls = [{"name": "pay", "args": {"to": "ada"}, "id": "a"}, {"name": "note", "args": {}, "id": "b"}]
    done = await run(mode, agent_of(by, scripted(calls), [pay, note], journal, **ALLOWED), GO)
    assert told(done) == ["paid", "noted"]
    (message,) = (each for each in done["messages"] if isinstance(each, ToolMessage) and each.name == "pay")
    assert message.artifact == [1, 2]
    assert seen == ["ada", 2, "a", "a", 7]
    with JournalReader(journal) as reader:
        intents = {e.call_id: e.arguments for e in reader.events("invoice-17") if isinstance(e, CallIntended)}
    assert set(intents["a"] or ()) <= {"to", "cents"}


@pytest.mark.parametrize("by", ["tools", "middleware"])
async def test_what_a_tool_raises_or_streams_reaches_langgraph(by: str, journal: Path) -> None:
    def work(kind: str) -> str:
        """Work."""
        get_stream_writer()({"kind": kind})
        raise (ValueError if kind == "bad" else ToolException)("the bank is closed")

    handled = StructuredTool.from_function(work, handle_tool_error=True)
    agent = agent_of(
        by, scripted([{"name": "work", "args": {"kind": "good"}, "id": "a"}]), [handled], journal, **ALLOWED
    )
    streamed = [value for _, value in agent.stream(GO, THREAD, stream_mode=["custom", "values"])]
    assert {"kind": "good"} in streamed
    assert told(streamed[-1]) == ["the bank is closed"]
    with JournalReader(journal) as reader:
        (settled,) = (event for event in reader.events("invoice-17") if isinstance(event, CallSettled))
    assert settled.outcome == "failed"
    bad = agent_of(by, scripted([{"name": "work", "args": {"kind": "bad"}, "id": "b"}]), [handled], journal, **ALLOWED)
    with pytest.raises(ValueError, match="the bank is closed"):
        await bad.ainvoke(GO, THREAD)


@pytest.mark.parametrize(("by", "mode"), WAYS)
async def test_a_tool_that_interrupts_itself_is_called_again_with_the_answer(by: str, mode: str, journal: Path) -> None:
    @tool
    def ask() -> str:
        """Ask."""
        return f"they said {interrupt('How many?')}"

    agent = agent_of(by, scripted([{"name": "ask", "args": {}, "id": "a"}]), [ask], journal, **ALLOWED)
    assert (await run(mode, agent, GO))["__interrupt__"][0].value == "How many?"
    assert told(await run(mode, agent, Command(resume=3))) == ["they said 3"]


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("new_process", [False, True])
async def test_of_several_calls_in_one_task_each_runs_on_the_word_that_was_given_for_it(
    mode: str, new_process: bool, bank: Bank, journal: Path
) -> None:
    calls = [pays(f"call_{to}", to) for to in ("ada", "eve", "bob", "dan")]
    keeps = InMemorySaver()

    def graph() -> Any:
        drawn: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
        drawn.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=calls)]})
        drawn.add_node("tools", ToolNode(guard([paying(bank)], journal=journal, rules=["allow pay to=dan"])))
        drawn.add_edge(START, "model").add_edge("model", "tools")
        return drawn.compile(checkpointer=keeps)

    words, asked = {"ada": "approve", "eve": "reject", "bob": "approve"}, list[str]()
    agent = graph()
    state = await run(mode, agent, GO)
    while stopped := state.get("__interrupt__"):
        (request,) = stopped[0].value["action_requests"]
        asked.append(request["args"]["to"])
        agent = graph() if new_process else agent
        state = await run(mode, agent, word(type=words[asked[-1]]))
    assert sorted(asked) == ["ada", "bob", "eve"]
    assert sorted(to for to, _ in bank.paid) == ["ada", "bob", "dan"]
    paid_ada, denied_eve, *others = told(state)
    assert "denied" in denied_eve
    assert [paid_ada, *others] == [f"paid 5 cents to {to}" for to in ("ada", "bob", "dan")]


async def test_a_call_that_was_allowed_elsewhere_leaves_no_word_for_the_next(bank: Bank, journal: Path) -> None:
    calls = [pays(f"call_{to}", to) for to in ("ada", "eve")]
    drawn: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    drawn.add_node("model", lambda state: {"messages": [AIMessage("", tool_calls=calls)]})
    drawn.add_node("tools", ToolNode(guard([paying(bank)], journal=journal)))
    drawn.add_edge(START, "model").add_edge("model", "tools")
    agent = drawn.compile(checkpointer=InMemorySaver())
    await agent.ainvoke(GO, THREAD)
    with JournalReader(journal) as reader:
        (question,) = reader.pending()
    await answer(journal, question, "allow", by="ada")
    state = await agent.ainvoke(word(type="approve"), THREAD)
    assert [to for to, _ in bank.paid] == ["ada"]
    assert "needs a person's approval" in told(state)[1]


async def test_arguments_that_break_a_plain_json_schema_are_refused_and_the_model_reads_why(
    bank: Bank, journal: Path
) -> None:
    schema = {"type": "object", "properties": {"to": {"type": "string"}, "cents": {"type": "integer", "maximum": 3}}}
    for by in ("tools", "middleware"):
        buys = StructuredTool.from_function(bank.pay, name="pay", description="Pay.", args_schema=schema)
        done = agent_of(by, scripted([pays(by)]), [buys], journal, **ALLOWED).invoke(GO, THREAD)
        assert "cents" in told(done)[0]
    assert bank.paid == []


def test_ids_that_a_service_uses_again_name_new_calls_in_the_middleware(bank: Bank, journal: Path) -> None:
    agent = agent_of("middleware", scripted([pays()], [pays()]), [paying(bank)], journal, **ALLOWED)
    agent.invoke(GO, THREAD)
    assert bank.paid == [("ada", 5)] * 2


async def test_a_tool_that_is_called_outside_of_a_graph_is_guarded_too(bank: Bank, journal: Path) -> None:
    (waits,) = guard([paying(bank)], journal=journal)
    with pytest.raises(ToolException, match="waits for a person"):
        waits.invoke({"to": "ada", "cents": 5})
    (allowed,) = guard([paying(bank)], journal=journal, **ALLOWED)
    assert allowed.run({"to": "ada", "cents": 5}) == "paid 5 cents to ada"
    assert await allowed.ainvoke({"to": "eve", "cents": "5"}) == "paid 5 cents to eve"
    assert bank.paid == [("ada", 5), ("eve", 5)]
