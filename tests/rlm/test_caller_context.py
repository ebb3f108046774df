"""Whatever a run calls, asks and begins is on behalf of whoever asked it, and part of one trace."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from handrail.core.context import Context, Principal
from handrail.core.errors import UsageError
from handrail.core.events import CallAsked, CallIntended, ModelEvent, ReplyFinished, RunResumed, RunStarted
from handrail.core.messages import ResultMessage
from handrail.core.model_request import ModelRequest
from handrail.execute.policy import Policy
from handrail.rlm import RLM
from handrail.telemetry import OtelTracer
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import call, text
from handrail.tools.tool import tool
from tests.rlm.root_models import Root, ready, repl
from tests.rlm.test_queries import COUNT

ANN = Context(principal=Principal("ann"))
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TOP = f"""
one = llm_query('1')
two = llm_query_batched(['2', '3'], tools=[{COUNT!r}], tool_handler=lambda name, of: llm_query(of['of']))
three = rlm_query('CHILD')
"""


class Both:
    """The run and its child."""

    name = "root"

    def __init__(self) -> None:
        self._top, self._child = Root(repl(TOP), ready("three")), Root(repl("four = llm_query('4')"), ready("four"))

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        return (self._child if "CHILD" in str(request.messages[1]) else self._top).stream(request)


class Counts:
    """Calls a tool if it may."""

    name = "sub"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if request.tools and not any(isinstance(each, ResultMessage) for each in request.messages):
            yield call("count", of="x")
        else:
            yield text("said")
        yield ReplyFinished(stop="end")


async def test_the_record_says_of_every_query_and_child_who_asked() -> None:
    journal = MemoryJournal()
    async with RLM(Both(), other_backends=[Counts()], journal=journal, context=ANN, max_depth=2, run="r") as rlm:
        assert (await rlm.acompletion("text", "question")).response == "said"
    whole, journal.events = journal.events, journal.events[: len(journal.events) // 2]
    async with RLM(Both(), other_backends=[Counts()], journal=journal, context=ANN, max_depth=2, run="r") as rlm:
        assert (await rlm.acompletion("text", "question")).response == "said"

    begun = {each.run for each in whole if isinstance(each, RunStarted)}
    assert len(begun) == 8, "the run, its child, and six queries"
    said = [*whole, *journal.events]
    asking = [each for each in said if isinstance(each, RunStarted | RunResumed | CallIntended | CallAsked)]
    assert {each.principal for each in asking} == {"ann"}


class Spans:
    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = OtelTracer(provider)

    @property
    def all(self) -> tuple[ReadableSpan, ...]:
        return self._kept.get_finished_spans()

    def paths(self) -> set[str]:
        """Each span below those that it is part of."""
        by_id = {each.context.span_id: each for each in self.all}

        def path(span: ReadableSpan) -> str:
            above = by_id.get(span.parent.span_id) if span.parent is not None else None
            return span.name if above is None else f"{path(above)} > {span.name}"

        return {path(each) for each in self.all}


@pytest.mark.parametrize("parent", [None, PARENT])
async def test_a_run_with_all_that_it_asks_and_begins_is_one_tree(parent: str | None) -> None:
    seen, context = Spans(), Context(trace=parent)
    async with RLM(Both(), other_backends=[Counts()], tracer=seen.tracer, context=context, max_depth=2) as rlm:
        await rlm.acompletion("text", "question")

    cell = "execute_tool rlm > invoke_agent root > execute_tool repl"
    child = f"{cell} > execute_tool rlm_query"
    batch = f"{cell} > execute_tool llm_query_batched > invoke_agent sub"
    assert {
        "execute_tool rlm > execute_tool repl",
        f"{cell} > execute_tool llm_query > invoke_agent sub > chat sub",
        f"{batch} > chat sub",
        f"{batch} > execute_tool count",
        f"{child} > execute_tool repl",
        f"{child} > invoke_agent root > execute_tool repl > execute_tool llm_query > invoke_agent sub > chat sub",
    } <= seen.paths()
    assert len({each.context.trace_id for each in seen.all}) == 1
    assert all(path.startswith("execute_tool rlm") for path in seen.paths())
    if parent is not None:
        assert f"{seen.all[0].context.trace_id:032x}" == parent[3:35]


async def test_a_limit_shows_in_the_trace() -> None:
    seen = Spans()
    async with RLM(Root(repl("x = 1"), "no"), tracer=seen.tracer, max_iterations=1) as rlm:
        await rlm.acompletion("text", "question")

    (whole,) = (each for each in seen.all if each.name == "execute_tool rlm")
    assert dict(whole.attributes or {})["handrail.outcome"] == "limit"


async def test_a_child_may_do_no_more_than_the_one_for_whom_it_works() -> None:
    sent: list[str] = []

    @tool(side_effects=True)
    def send(words: str) -> str:
        """Send something."""
        sent.append(words)
        return "sent"

    code = "try:\n    send('x')\nexcept Exception as error:\n    said = str(error)"
    context = Context(principal=Principal("ann", ("repl", "rlm_query", "llm_query*")))

    class Roots(Both):
        def __init__(self) -> None:
            self._top = Root(repl(f"{code}\nboth = [said, rlm_query('CHILD')]"), ready("both"))
            self._child = Root(repl(code), ready("said"))

    async with RLM(
        Roots(),
        custom_tools={"send": send},
        policy=Policy(confirm_side_effects=False),
        context=context,
        max_depth=2,
    ) as rlm:
        found = await rlm.acompletion("text", "question")

    assert sent == []
    assert found.response.count("'send' is outside what 'ann' may call") == 2


def test_a_context_has_no_run_and_no_time_of_its_own() -> None:
    with pytest.raises(UsageError, match="give run= and max_timeout="):
        RLM(Root(), context=Context(run="r"))
