"""Runs, turns and calls as an operator sees them in OpenTelemetry."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes.gen_ai_attributes import GenAiProviderNameValues
from opentelemetry.trace import StatusCode

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.errors import ModelUnavailable, RequestRefused, ToolError
from handrail.core.events import ReplyFinished
from handrail.core.ids import trace_id, traceparent
from handrail.core.invocation import Invocation
from handrail.core.messages import Conversation, Text, Usage, UserMessage
from handrail.core.model_request import ModelRequest
from handrail.execute.executor import Executor
from handrail.mcp.client.ensemble import McpEnsemble
from handrail.mcp.values import StdioEndpoint
from handrail.models.codec import WireRequest
from handrail.models.services import SERVICES
from handrail.models.transport import Endpoint
from handrail.models.wire_events import WireEvent
from handrail.run.agents import Agent
from handrail.run.runner import Runner
from handrail.sessions.create import create_llm, with_fallback
from handrail.sessions.session import Session
from handrail.telemetry import OtelTracer
from handrail.testing.model import ScriptedModel, call, text
from handrail.tools.registry import prepared_tools
from handrail.tools.tool import Tool, tool

ROOT = Path(__file__).parents[2]
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ASKED = Conversation((UserMessage((Text("What is 1 + 2?"),)),))


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def lose(key: str) -> str:
    """Fail, and talk of it."""
    raise ToolError("NOT_FOUND", f"no {key}")


class Seen:
    """A provider that keeps what it is told."""

    def __init__(self, **options: Any) -> None:
        self._kept = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = OtelTracer(provider, **options)

    @property
    def finished(self) -> tuple[ReadableSpan, ...]:
        return self._kept.get_finished_spans()

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.finished}

    def facts(self, name: str) -> dict[str, Any]:
        return dict(self.spans[name].attributes or {})

    @property
    def words(self) -> str:
        return "\n".join(span.to_json() for span in self._kept.get_finished_spans())


async def test_the_run_of_an_agent_lies_inside_the_call_that_began_it_and_a_handoff_changes_the_name() -> None:
    seen = Seen()
    helper = Agent(ScriptedModel([call("add", a=1, b=2)], [text("3")], name="small"), name="helper", tools=[add])
    other = Agent(ScriptedModel([text("It is 3.")], name="other"), name="second")
    asking = ScriptedModel([call("helper", prompt="1 + 2?")], [call("hand_off_to_second")], name="big")
    first = Agent(asking, name="first", tools=[helper.as_tool(description="Adds.")], handoffs=[other])
    async with Session(first, tracer=seen.tracer) as session:
        await session.ask_async("What is 1 + 2?")

    outer, called, inner, added = (
        seen.spans[name]
        for name in ("invoke_agent big", "execute_tool helper", "invoke_agent small", "execute_tool add")
    )
    parents = [span.parent.span_id for span in (called, inner, added) if span.parent]
    assert parents == [outer.context.span_id, called.context.span_id, inner.context.span_id]
    names = ("invoke_agent big", "invoke_agent small", "chat small", "chat other")
    assert [seen.facts(name)["gen_ai.agent.name"] for name in names] == ["first", "helper", "helper", "second"]
    assert "execute_tool hand_off_to_second" in seen.spans


async def test_a_session_tells_of_each_try_of_a_typed_answer() -> None:
    seen = Seen()
    model = ScriptedModel([call("final_answer", value="three")], [call("final_answer", value=3)], name="big")
    async with Session(model, tools=[add], tracer=seen.tracer) as session:
        assert (await session.ask_async("What is 1 + 2?", returns=int)).value == 3

    tries = [span for span in seen.finished if span.name == "execute_tool final_answer"]
    assert [(span.attributes or {})["handrail.outcome"] for span in tries] == ["invalid_arguments", "ok"]
    assert [span.name for span in seen.finished].count("chat big") == 2


async def test_a_run_is_a_tree_of_its_turns_and_calls() -> None:
    seen = Seen()
    usage = ReplyFinished(stop="end", model="big-1", usage=Usage(input_tokens=7, output_tokens=3))
    model = ScriptedModel([call("add", "c1", a=1, b=2)], [text("3"), usage], name="big")
    async with Executor([add], tracer=seen.tracer) as executor:
        runner = Runner(model, executor, defaults=ModelRequest(messages=(), temperature=0.5, stop=("END",)))
        await runner.run(ASKED, Context(run="run_1", trace=PARENT))

    run, turn, called = (seen.spans[name] for name in ("invoke_agent big", "chat big", "execute_tool add"))
    assert run.parent is not None and f"{run.parent.span_id:016x}" == "b7ad6b7169203331"
    assert {span.context.trace_id for span in (run, turn, called)} == {int("0af7651916cd43dd8448eb211c80319c", 16)}
    assert [span.parent.span_id for span in (turn, called) if span.parent] == [run.context.span_id] * 2
    assert seen.facts("invoke_agent big") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "handrail",
        "gen_ai.conversation.id": "run_1",
        "gen_ai.request.model": "big",
    }
    assert seen.facts("chat big") == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "handrail",
        "gen_ai.conversation.id": "run_1",
        "gen_ai.request.model": "big",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.response.finish_reasons": ("end",),
        "gen_ai.response.model": "big-1",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
    }
    assert seen.facts("execute_tool add") == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "handrail.outcome": "ok",
    }


class Refusing:
    """A way to a service that takes nothing."""

    async def send(self, request: WireRequest, endpoint: Endpoint) -> AsyncGenerator[WireEvent, None]:
        raise RequestRefused("no", status=400)
        yield

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("name", sorted(SERVICES))
async def test_the_spans_name_the_service_as_the_conventions_do(name: str) -> None:
    seen = Seen()
    llm = create_llm(name, model="big", base_url="http://service/v1", transport=Refusing())
    async with Executor([add], tracer=seen.tracer) as executor:
        with pytest.raises(RequestRefused):
            await Runner(with_fallback(llm, [llm]).model, executor).run(ASKED)

    known = {each.value for each in GenAiProviderNameValues} | {"moonshot_ai"}  # which is newer
    [said] = {(span.attributes or {})["gen_ai.provider.name"] for span in seen.spans.values()}
    assert said in known or said == name
    assert said == {"openai-responses": "openai", "gemini": "gcp.gemini", "xai": "x_ai"}.get(name, said)


async def test_a_model_that_means_something_else_by_provider_is_told_of_without_one() -> None:
    class Mine(ScriptedModel):
        provider: ClassVar = ["a", "list", "of", "mine"]

    seen, model = Seen(), Mine([text("3")])
    async with Executor([], tracer=seen.tracer) as executor:
        await Runner(model, executor).run(ASKED)

    assert seen.facts(f"chat {model.name}")["gen_ai.provider.name"] == "handrail"


async def test_a_reply_that_is_to_have_a_form_is_told_as_json() -> None:
    seen = Seen()
    async with Executor([], tracer=seen.tracer) as executor:
        asked = ModelRequest(messages=(), response_schema={"type": "object"})
        await Runner(ScriptedModel([text("{}")], name="big"), executor, defaults=asked).run(ASKED)

    assert seen.facts("chat big")["gen_ai.output.type"] == "json"


async def test_what_fails_is_marked_and_its_words_are_not_told() -> None:
    seen = Seen()
    async with Executor([lose], tracer=seen.tracer) as executor:
        await executor.invoke(ToolCall("c1", "lose", {"key": "canary-1"}))
        await executor.invoke(ToolCall("c2", "gone", {}))

    assert seen.spans["execute_tool lose"].status.status_code is StatusCode.ERROR
    assert seen.facts("execute_tool lose")["error.type"] == "NOT_FOUND"
    assert seen.facts("execute_tool gone")["error.type"] == "unknown_tool"
    assert "canary-1" not in seen.words


async def test_a_model_that_fails_ends_its_spans_with_the_kind_of_error_only() -> None:
    class Down(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:
            raise ModelUnavailable("canary-2 is down")
            yield

    seen = Seen()
    async with Executor([add], tracer=seen.tracer) as executor:
        with pytest.raises(ModelUnavailable):
            await Runner(Down(name="big"), executor).run(ASKED)

    assert seen.facts("chat big")["error.type"] == seen.facts("invoke_agent big")["error.type"] == "ModelUnavailable"
    assert "canary-2" not in seen.words


async def test_arguments_and_results_are_told_on_request_and_without_secrets() -> None:
    @tool
    def echo(text: str) -> str:
        """Say it again."""
        return text

    quiet, open_ = Seen(), Seen(content=True)
    secret = "sk-proj-abcdefghijklmnop0123456789"
    for seen in (quiet, open_):
        async with Executor([echo], tracer=seen.tracer) as executor:
            await executor.invoke(ToolCall("c1", "echo", {"text": f"hello {secret}"}))

    assert "hello" not in quiet.words
    assert open_.facts("execute_tool echo")["gen_ai.tool.call.result"] == "hello [redacted]"
    assert "hello" in open_.facts("execute_tool echo")["gen_ai.tool.call.arguments"]
    assert secret not in open_.words


async def test_a_call_made_by_a_tool_is_inside_its_span() -> None:
    async def outer(invocation: Invocation) -> str:
        """Call another."""
        return (await invocation.invoke("add", {"a": 1, "b": 2})).text

    seen = Seen()
    async with Executor([add, Tool.from_function(outer, schema={"type": "object"})], tracer=seen.tracer) as executor:
        await executor.invoke(ToolCall("c1", "outer", {}))

    inner = seen.spans["execute_tool add"].parent
    assert inner is not None and inner.span_id == seen.spans["execute_tool outer"].context.span_id


async def test_a_trace_goes_on_in_an_mcp_server() -> None:
    seen = Seen()
    server = McpEnsemble(
        "far", StdioEndpoint(command=sys.executable, args=("-m", "tests.telemetry.traced_mcp_server"), cwd=str(ROOT))
    )
    async with prepared_tools([server]) as tools, Executor(tools, tracer=seen.tracer) as executor:
        result = await executor.invoke(ToolCall("c1", "trace", {}), Context(trace=PARENT))

    assert trace_id(traceparent(result.content)) == trace_id(PARENT)
    assert result.content != PARENT


async def test_without_opentelemetry_the_trace_is_passed_on_as_it_came() -> None:
    found = []

    async def look(invocation: Invocation) -> None:
        """See."""
        found.append(invocation.context.trace)

    async with Executor([Tool.from_function(look, schema={"type": "object"})]) as executor:
        await executor.invoke(ToolCall("c1", "look", {}), Context(trace=PARENT))
    assert found == [PARENT]


@given(st.one_of(st.text(), st.integers(), st.binary(), st.none()))
def test_what_is_no_traceparent_begins_a_trace_of_its_own(said: Any) -> None:
    assert traceparent(said) is None


@pytest.mark.parametrize(
    "wrong", [PARENT.upper(), f"ff{PARENT[2:]}", PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32)]
)
def test_a_traceparent_that_is_almost_one_is_none(wrong: str) -> None:
    assert (traceparent(PARENT), traceparent(wrong)) == (PARENT, None)


async def test_a_typed_answer_that_is_refused_is_seen_in_the_trace() -> None:
    by_call, by_schema = Seen(), Seen()
    right = {"value": 3}
    models = (
        (
            by_call,
            ScriptedModel([call("final_answer", "c1", value="3")], [call("final_answer", "c2", **right)], name="m"),
        ),
        (by_schema, ScriptedModel([text('{"value": "3"}')], [text('{"value": 3}')], name="m", holds_schema=True)),
    )
    for seen, model in models:
        async with Executor([], tracer=seen.tracer) as executor:
            await Runner(model, executor).run(ASKED, Context(run="run_1"), returns=int)

    def told(seen: Seen, name: str) -> list[Any]:
        return [(span.attributes or {}).get("error.type") for span in seen.finished if span.name == name]

    assert told(by_call, "execute_tool final_answer") == ["invalid_arguments", None]
    assert told(by_call, "chat m") == [None, None]
    assert told(by_schema, "chat m") == ["invalid_answer", None]
