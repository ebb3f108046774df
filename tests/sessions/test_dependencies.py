"""What tools get besides their arguments, through every door of a program."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from mcp import Client
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from handrail import (
    RLM,
    CapabilityBus,
    Context,
    Conversation,
    Ensemble,
    Executor,
    Invocation,
    Runner,
    Session,
    ToolCall,
    ToolExecutor,
    execute_tools,
    tool,
)
from handrail.core.errors import InvalidDefinition, ModelError, UsageError
from handrail.events import CallIntended
from handrail.journal import SqliteJournal
from handrail.mcp.server.build import build_mcp_server
from handrail.mcp.server.client_approver import ClientApprover
from handrail.mcp.server.definition import McpServerDefinition
from handrail.run import conversation_of
from handrail.sync import BlockingExecutor
from handrail.telemetry import OtelTracer
from handrail.testing import MemoryJournal, RecordedTools, ScriptedModel, call, invocation, text
from handrail.tools import Tool, registered


class Secretive:
    """Says its password wherever it is shown."""

    def __repr__(self) -> str:
        return "hunter2-of-the-database"


@dataclass
class Shop:
    orders: dict[str, str]
    asked: list[str] = field(default_factory=list)
    secretive: Secretive = field(default_factory=Secretive)


@dataclass
class BiggerShop(Shop):
    floors: int = 3


class Library:
    pass


class HasOrders(Protocol):
    @property
    def orders(self) -> dict[str, str]: ...


@tool
def find_order(invocation: Invocation[Shop], id: str) -> str:
    """Find an order."""
    invocation.deps.asked.append(id)
    return invocation.deps.orders[id]


@tool
async def count_orders(invocation: Invocation[HasOrders]) -> int:
    """Count the orders."""
    return len(invocation.deps.orders)


@tool
def borrow(title: str, invocation: Invocation[Library]) -> str:
    """Borrow a book."""
    return title


def umbrella() -> Shop:
    return Shop({"17": "umbrella"})


def asks(*ids: str) -> ScriptedModel:
    return ScriptedModel([call("find_order", id=id) for id in ids], [text("There.")])


# ── given ────────────────────────────────────────────────────────────────────────────────


def test_a_tool_gets_what_the_session_gives() -> None:
    with Session(asks("17"), tools=[find_order], deps=umbrella()) as session:
        assert [result.content for result in session.ask("?").results] == ["umbrella"]


def test_a_prompt_may_give_others() -> None:
    boots = Shop({"17": "boots"})
    again = ScriptedModel(*[[call("find_order", id="17")], [text("There.")]] * 3)
    with Session(again, tools=[find_order], deps=umbrella()) as session:
        assert session.ask("?", deps=boots).results[0].content == "boots"
        assert session.ask("?").results[0].content == "umbrella"
        assert len(list(session.stream("?", deps=boots))) > 0
    assert boots.asked == ["17", "17"]


async def test_calls_at_once_get_the_same() -> None:
    shop = umbrella()
    shop.orders |= {"18": "boots", "19": "hat"}
    async with Session(asks("17", "18", "19"), tools=[find_order, count_orders], deps=shop) as session:
        reply = await session.ask_async("?")
    assert [result.content for result in reply.results] == ["umbrella", "boots", "hat"]
    assert sorted(shop.asked) == ["17", "18", "19"]


def test_a_session_that_has_none_may_get_them_with_each_prompt() -> None:
    with Session(asks("17"), tools=[find_order, count_orders], deps_type=Shop) as session:
        with pytest.raises(UsageError, match="needs dependencies of the type Shop, and none are given"):
            session.ask("?")
        assert len(session.conversation) == 0
        assert session.ask("?", deps=umbrella()).results[0].content == "umbrella"
    for wrong in (Library, int | None, Library | None):
        with pytest.raises(UsageError, match=r"needs dependencies of the type Shop, and is given (Library|int)"):
            Session(asks(), tools=[find_order], deps_type=wrong)  # type: ignore[misc,arg-type]


async def test_an_executor_that_has_none_may_get_them_with_each_call() -> None:
    asked = ToolCall("1", "find_order", {"id": "17"})
    async with Executor([find_order, count_orders], deps_type=BiggerShop) as executor:
        with pytest.raises(UsageError, match="none are given"):
            await executor.invoke(asked)
        with pytest.raises(UsageError, match="none are given"):
            await Runner(asks("17"), executor).run(Conversation().say("?"))
        assert (await executor.invoke(asked, Context(deps=umbrella()))).content == "umbrella"
        with pytest.raises(UsageError, match="is given BiggerShop"):
            executor.renew(registered(borrow))


def test_a_test_replaces_them_whatever_the_program_gives() -> None:
    fake = Shop({"17": "paper umbrella"})
    model = ScriptedModel(*[[call("find_order", id="17")], [text("There.")]] * 3)
    with Session(model, tools=[find_order], deps=umbrella()) as session:
        with session.override(deps=fake):
            assert session.ask("?").results[0].content == "paper umbrella"
            assert session.ask("?", deps=umbrella()).results[0].content == "paper umbrella"
        assert session.ask("?").results[0].content == "umbrella"


def test_replacements_end_in_any_order_and_leave_nothing_behind() -> None:
    """As in two threads or tasks that share a session."""
    model = ScriptedModel(*[[call("find_order", id="17")], [text("There.")]] * 3)
    with Session(model, tools=[find_order], deps=umbrella()) as session:
        fork = session.fork()
        one, other = (session.override(deps=Shop({"17": name})) for name in ("paper", "glass"))
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert session.ask("?").results[0].content == "glass"
        other.__exit__(None, None, None)
        assert session.ask("?").results[0].content == "umbrella"
        with fork, session.override(deps=Shop({"17": "paper"})):
            assert fork.ask("?").results[0].content == "umbrella"


def test_a_fork_made_under_a_replacement_keeps_it() -> None:
    model = ScriptedModel([call("find_order", id="17")], [text("There.")])
    with Session(model, tools=[find_order], deps=umbrella()) as session:
        with session.override(deps=Shop({"17": "paper"})):
            fork = session.fork()
        with fork:
            assert fork.ask("?").results[0].content == "paper"


def test_a_function_is_called_in_a_test_without_a_session() -> None:
    assert find_order(invocation(umbrella()), id="17") == "umbrella"


async def test_recorded_tools_get_them_too() -> None:
    recorded = RecordedTools([find_order])
    async with Executor(recorded.tools, deps=umbrella()) as executor:
        assert (await executor.invoke(ToolCall("1", "find_order", {"id": "17"}))).content == "umbrella"
    with pytest.raises(UsageError, match="needs dependencies of the type Shop"):
        Executor(recorded.tools)


# ── refused ──────────────────────────────────────────────────────────────────────────────


def test_a_session_without_them_is_refused_when_it_is_made() -> None:
    with pytest.raises(UsageError) as refused:
        Session(asks(), tools=[find_order])  # type: ignore[list-item]
    assert str(refused.value) == (
        "tool 'find_order' needs dependencies of the type Shop, and none are given; "
        "a program gives them by Session(…, deps=…), Executor(…, deps=…) and the like"
    )


def test_others_than_a_tool_needs_are_refused_when_the_session_is_made() -> None:
    with pytest.raises(UsageError) as refused:
        Session(asks(), tools=[find_order, borrow], deps=umbrella())
    assert str(refused.value) == (
        "tool 'borrow' needs dependencies of the type Library, and is given Shop; "
        "give all tools one object that each can use, or let this one take a Protocol"
    )


def test_others_in_a_prompt_are_refused_before_anything_is_asked() -> None:
    with Session(asks("17"), tools=[find_order], deps=umbrella()) as session:
        for wrong in (Library(), 3):
            with pytest.raises(UsageError, match="needs dependencies of the type Shop"):
                session.ask("?", deps=wrong)  # type: ignore[call-overload]
            with pytest.raises(UsageError, match="needs dependencies of the type Shop"), session.override(deps=wrong):  # type: ignore[arg-type]
                session.ask("?")
        assert len(session.conversation) == 0
        assert session.ask("?").results[0].content == "umbrella"


async def test_others_in_a_context_are_refused() -> None:
    async with Executor([find_order], deps=umbrella()) as executor:
        with pytest.raises(UsageError, match="is given Library"):
            await executor.invoke(ToolCall("1", "find_order", {"id": "17"}), Context(deps=Library()))
        with pytest.raises(UsageError, match="is given Library"):
            await Runner(asks("17"), executor).run(Conversation().say("?"), Context(deps=Library()))
        assert (await executor.invoke(ToolCall("1", "find_order", {"id": "17"}))).content == "umbrella"


def test_a_subclass_or_whatever_has_the_members_will_do() -> None:
    with Session(asks("17"), tools=[find_order, count_orders], deps=BiggerShop({"17": "umbrella"})) as session:
        assert session.ask("?").results[0].content == "umbrella"


def test_a_tool_in_a_process_of_its_own_cannot_have_them() -> None:
    for isolation in ("process", "sandbox"):
        with pytest.raises(InvalidDefinition) as refused:
            tool(isolation=isolation)(find_order.handler)
        assert str(refused.value) == (
            "'find_order' runs in another process and needs dependencies (Shop), which cannot cross to it; "
            "use isolation='thread', or let the function open what it needs itself"
        )


def looks_anyway(invocation: Invocation) -> str:
    """Look at the dependencies without a word on their type."""
    return str(invocation.deps)


async def test_one_that_looks_anyway_is_told_so() -> None:
    worker = tool(isolation="process")(looks_anyway)
    async with Executor([worker], deps=Secretive()) as executor:
        result = await executor.invoke(ToolCall("1", "looks_anyway", {}))
    assert result.outcome == "failed"
    assert "dependencies cannot cross to another process; use isolation='thread'" in result.text


# ── never shown ──────────────────────────────────────────────────────────────────────────


async def test_neither_the_model_nor_the_record_sees_them() -> None:
    journal = MemoryJournal()
    model = asks("17")
    async with Session(model, tools=[find_order, count_orders], deps=umbrella(), journal=journal) as session:
        events = [event async for event in session.stream_async("?")]
        entries = await journal.history(session.run or "")
    assert find_order.definition.input_schema["properties"].keys() == {"id"}
    assert count_orders.definition.input_schema["properties"] == {}
    for shown in (model.requests, events, entries, session.conversation):
        assert "umbrella" in repr(shown)
        assert "hunter2" not in repr(shown)
        assert "Shop" not in repr(shown)


async def test_neither_traces_nor_logs_see_them(caplog: pytest.LogCaptureFixture) -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    async with Executor([find_order], deps=umbrella(), tracer=OtelTracer(provider)) as executor:
        done = await Runner(asks("17", "no such order"), executor).run(Conversation().say("?"))
    spans = [span.to_json() for span in kept.get_finished_spans()]
    assert "KeyError" in repr(done) and "find_order" in caplog.text and "find_order" in repr(spans)
    for shown in (done, caplog.text, spans):
        assert "hunter2" not in repr(shown)


def test_a_tool_that_does_not_state_their_type_gets_them_too() -> None:
    @tool
    def look(invocation: Invocation) -> str:
        """Look."""
        return type(invocation.deps).__name__

    model = ScriptedModel(*[[call("look")], [text("There.")]] * 2)
    with Session(model, tools=[look]) as session:
        assert session.ask("?").results[0].content == "NoneType"
    with Session(ScriptedModel([call("look")], [text("There.")]), tools=[look], deps=umbrella()) as other:
        assert other.ask("?").results[0].content == "Shop"


# ── every door ───────────────────────────────────────────────────────────────────────────


def test_code_of_a_model_reaches_tools_that_need_them() -> None:
    model = ScriptedModel(
        [call("run_code", code="first = find_order(id='17')\nprint(first, count_orders())")],
        [text("There.")],
        [call("run_code", code="print(first, find_order(id='17'))")],
        [text("There.")],
    )
    with Session(model, tools=[find_order, count_orders], deps=umbrella(), code=True) as session:
        assert "umbrella 1" in session.ask("?").results[0].text
        assert "umbrella boots" in session.ask("?", deps=Shop({"17": "boots"})).results[0].text


async def test_a_resumed_run_is_given_them_again(tmp_path: Path) -> None:
    context = Context(run="ticket")
    async with (
        await SqliteJournal.open(tmp_path / "j.db") as journal,
        Executor([find_order], journal=journal, deps=umbrella()) as executor,
    ):
        with pytest.raises(ModelError):
            await Runner(ScriptedModel([call("find_order", id="17")]), executor).run(Conversation().say("?"), context)
    async with await SqliteJournal.open(tmp_path / "j.db") as journal:
        with pytest.raises(UsageError, match="none are given"):
            Executor([find_order], journal=journal)
        async with Executor([find_order], journal=journal, deps=Shop({"17": "boots"})) as executor:
            so_far = conversation_of(await journal.history("ticket"))
            done = await Runner(asks("17"), executor).run(so_far, context)
    assert [message.result.content for message in done.messages if hasattr(message, "result")] == ["umbrella", "boots"]


async def test_a_call_that_was_cut_off_is_reconciled_with_them() -> None:
    def ask_the_bank(invocation: Invocation[Shop]) -> str:
        return f"paid for {invocation.deps.orders['17']}"

    def never(invocation: Invocation[Shop]) -> str:
        raise AssertionError("an effect does not run twice")

    journal = MemoryJournal()
    journal.events.append(
        CallIntended(
            run="r",
            at=1,
            call_id="1",
            tool="pay",
            side_effects=True,
            idempotent=False,
            key="key",
            arguments={},
        )
    )
    pay = tool(side_effects=True, name="pay", reconcile=ask_the_bank)(never)
    async with Executor([pay], journal=journal, deps=umbrella()) as executor:
        result = await executor.invoke(ToolCall("1", "pay", {}), Context(run="r"))
    assert result.content == "paid for umbrella"


async def test_an_ensemble_and_a_nested_call_have_them() -> None:
    @tool
    async def twice(invocation: Invocation[Shop], id: str) -> list[Any]:
        """Find an order twice."""
        return [(await invocation.invoke("find_order", {"id": id})).content for _ in range(2)]

    async with Executor([Ensemble("shop", [find_order, twice])], deps=umbrella()) as executor:
        asked = ToolCall("1", "shop:twice", {"id": "17"})
        assert (await executor.invoke(asked)).content == ["umbrella", "umbrella"]
        other = Context(run="other", deps=Shop({"17": "boots"}))
        assert (await executor.invoke(asked, other)).content == ["boots", "boots"]


def test_a_blocking_executor_has_them() -> None:
    with BlockingExecutor([find_order], deps=umbrella()) as executor:
        assert executor.invoke(ToolCall("1", "find_order", {"id": "17"})).content == "umbrella"


async def test_custom_tools_of_an_rlm_have_them() -> None:
    code = [text("```repl\nfound = find_order(id='17')\nFINAL_VAR('found')\n```")]
    async with RLM(ScriptedModel(code), custom_tools={"find_order": find_order}, deps=umbrella()) as rlm:
        assert (await rlm.acompletion("Which order is 17?")).response == "umbrella"
    with pytest.raises(UsageError, match="needs dependencies of the type Shop"):
        RLM(ScriptedModel(), custom_tools={"find_order": find_order})


async def test_tools_that_are_served_by_mcp_have_those_of_the_executor() -> None:
    async with Executor([find_order], deps=umbrella()) as executor:
        served = McpServerDefinition(
            name="shop", version="1", tools=lambda: executor.tools, invoker=executor, asker=ClientApprover()
        )
        async with Client(build_mcp_server(served), cache=None) as client:
            assert "umbrella" in repr((await client.call_tool("find_order", {"id": "17"})).content)
            (listed,) = (await client.list_tools()).tools
            assert listed.input_schema["properties"].keys() == {"id"}


def test_calls_run_by_hand_are_refused_clearly() -> None:
    with pytest.raises(UsageError, match="needs dependencies of the type Shop, and none are given"):
        execute_tools([ToolCall("1", "find_order", {"id": "17"})], {"find_order": find_order})


async def test_tools_on_a_bus_have_those_of_the_bus() -> None:
    async with CapabilityBus(deps=umbrella()) as bus:
        bus.register_tool(find_order)
        found = await bus.call("tool.find_order", (1, 0), {"input": {"id": "17"}})
        assert found["output"]["content"] == "umbrella"
        with pytest.raises(UsageError, match="needs dependencies of the type Library"):
            bus.register_tool(borrow)
        async with ToolExecutor(bus, [count_orders], deps=Shop({})) as executor:
            assert (await executor.dispatch(ToolCall("1", "count_orders", {}))).content == 0


def test_handlers_of_every_style_say_what_they_need() -> None:
    schema = {"type": "object"}

    def by_invocation(invocation: Invocation[Shop]) -> str:
        return invocation.deps.orders["17"]

    def by_context(context: Invocation[Shop], arguments: dict[str, Any]) -> str:
        return context.deps.orders["17"]

    class ByCall:
        def __call__(self, it: Invocation[Shop]) -> str:
            return it.deps.orders["17"]

    for handler in (by_invocation, by_context, ByCall()):
        made = Tool.from_function(handler, name="made", schema=schema)
        assert made.deps_type is Shop
        with BlockingExecutor([made], deps=umbrella()) as executor:
            assert executor.invoke(ToolCall("1", "made", {})).content == "umbrella"
        with pytest.raises(UsageError, match="needs dependencies"):
            Executor([made])


# ── never mixed up ───────────────────────────────────────────────────────────────────────


async def test_what_was_answered_with_some_is_no_answer_with_others() -> None:
    remembering = find_order.changed(deduplicator="exact")
    async with Executor([remembering], deps=umbrella()) as executor:

        async def found(id: str, deps: Shop | None) -> Any:
            return (await executor.invoke(ToolCall(id, "find_order", {"id": "17"}), Context(deps=deps))).content

        boots = Shop({"17": "boots"})
        assert [await found("1", None), await found("2", boots), await found("3", None)] == [
            "umbrella",
            "boots",
            "umbrella",
        ]
        assert boots.asked == ["17"]
        at_once = (found("4", boots), found("5", Shop({"17": "hat"})), found("6", None), found("7", boots))
        assert list(await asyncio.gather(*at_once)) == ["boots", "hat", "umbrella", "boots"]


async def test_two_sessions_at_once_keep_theirs_apart() -> None:
    async def ask(item: str) -> Any:
        async with Session(asks("17"), tools=[find_order], deps=Shop({"17": item})) as session:
            return (await session.ask_async("?")).results[0].content

    items = [f"item {n}" for n in range(8)]
    assert await asyncio.gather(*map(ask, items)) == items
