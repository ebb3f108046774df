"""Queries of code to models are runs: answered, counted, limited and recorded."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from handrail.core.errors import LimitExceeded, ModelError, RateLimited
from handrail.core.events import CallIntended, CallSettled, ModelEvent, ReplyFinished, RunFinished, TextDelta
from handrail.core.messages import (
    AssistantMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    Usage,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, NamedTool
from handrail.rlm.query.queries import Queries
from handrail.rlm.query.sentinel import answer_of
from handrail.rlm.query.spending import Spending
from handrail.rlm.values import LMRequest, LMResponse
from handrail.testing.journal import MemoryJournal
from handrail.testing.model import ScriptedModel, call, text

STATS: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_stats",
        "description": "Get statistics",
        "parameters": {"type": "object", "properties": {"q_id": {"type": "integer"}}, "required": ["q_id"]},
        "strict": True,
    },
}
COUNT: dict[str, Any] = {"type": "function", "function": {"name": "count", "parameters": {"type": "object"}}}


class Echo:
    """Answers each question by a function of it; `most` is how many it was asked at once."""

    def __init__(
        self, answer: Callable[[str], str] = str.upper, name: str = "echo", usage: Usage | None = None
    ) -> None:
        self.name = name
        self._answer = answer
        self._usage = usage
        self.asked: list[str] = []
        self.now = self.most = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        question = next(each.text for each in request.messages if isinstance(each, UserMessage))
        self.asked.append(question)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(0)
            yield TextDelta(text=self._answer(question))
            yield ReplyFinished(stop="end", model=self.name, usage=self._usage or Usage())
        finally:
            self.now -= 1


def never(name: str, arguments: dict[str, Any]) -> str:
    raise NotImplementedError


def results(model: ScriptedModel, request: int = -1) -> list[str]:
    """What the model was told that its calls gave."""
    said: tuple[Message, ...] = model.requests[request].messages
    return [message.result.text for message in said if isinstance(message, ResultMessage)]


# ── one query ────────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("rlm.query")
async def test_a_query_without_tools_is_one_call_of_the_model() -> None:
    model = ScriptedModel([text("4")])

    completion = await Queries({}, model).query("2 + 2?")

    assert completion.response == "4" and completion.error is None
    assert completion.root_model == "scripted" and completion.prompt == "2 + 2?"
    assert [request.tools for request in model.requests] == [()]


@pytest.mark.requirement("rlm.query")
async def test_a_query_with_tools_goes_on_until_the_model_answers() -> None:
    model = ScriptedModel([call("get_stats", q_id=3)], [call("get_stats", q_id=4)], [text("4.2")])
    seen: list[tuple[str, dict[str, Any]]] = []

    def handler(name: str, arguments: dict[str, Any]) -> str:
        seen.append((name, arguments))
        return json.dumps({"avg": arguments["q_id"]})

    completion = await Queries({}, model).query("average?", tools=[STATS], tool_handler=handler)

    assert completion.response == "4.2"
    assert seen == [("get_stats", {"q_id": 3}), ("get_stats", {"q_id": 4})]
    assert results(model) == ['{"avg": 3}', '{"avg": 4}']
    assert [offer.name for offer in model.requests[0].tools] == ["get_stats"]


@pytest.mark.requirement("rlm.query")
async def test_several_calls_of_one_reply_are_handled_in_order() -> None:
    model = ScriptedModel([call("get_stats", q_id=1), call("count", n=2), call("get_stats", q_id=3)], [text("done")])
    order: list[str] = []

    async def handler(name: str, arguments: dict[str, Any]) -> str:
        order.append(f"{name} begins")
        await asyncio.sleep(0)
        order.append(f"{name} ends")
        return f"{name} {sorted(arguments.values())}"

    await Queries({}, model).query("go", tools=[STATS, COUNT], tool_handler=handler)

    assert order == [f"{name} {what}" for name in ("get_stats", "count", "get_stats") for what in ("begins", "ends")]
    assert results(model) == ["get_stats [1]", "count [2]", "get_stats [3]"]


@pytest.mark.requirement("rlm.query.needs-handler")
@pytest.mark.parametrize("tools", [[STATS], []])
async def test_tools_without_a_handler_are_refused_before_anything_is_asked(tools: list[dict[str, Any]]) -> None:
    model = ScriptedModel()
    queries = Queries({}, model)

    with pytest.raises(ValueError, match=r"^tool_handler is required when tools are provided$"):
        await queries.query("?", tools=tools)
    with pytest.raises(ValueError, match=r"^tool_handler is required when tools are provided$"):
        await queries.batched(["?"], tools=tools)
    assert model.requests == []


@pytest.mark.requirement("rlm.handler-error")
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_the_model_reads_the_words_of_a_handler_that_raises(kind: str) -> None:
    model = ScriptedModel([call("get_stats", q_id=1)], [text("sorry")])

    def plain(name: str, arguments: dict[str, Any]) -> str:
        raise RuntimeError("Database connection failed")

    async def later(name: str, arguments: dict[str, Any]) -> str:
        return plain(name, arguments)

    completion = await Queries({}, model).query("?", tools=[STATS], tool_handler=plain if kind == "plain" else later)

    assert results(model) == ["Error executing get_stats: Database connection failed"]
    assert completion.response == "sorry"


@pytest.mark.requirement("rlm.limit")
@pytest.mark.parametrize("most", [None, 3])
async def test_a_model_that_only_calls_tools_is_asked_so_often_and_no_more(most: int | None) -> None:
    times = most or 10
    model = ScriptedModel(*([[call("get_stats", q_id=1)]] * (times + 5)))

    completion = await Queries({}, model).query(
        "?", tools=[STATS], tool_handler=lambda name, arguments: "the same", max_iterations=most
    )

    assert len(model.requests) == times
    assert answer_of(completion) == f"__LLM_ERROR__|tool_loop_error|0|Maximum tool iterations ({times}) exceeded"
    assert completion.usage_summary.total_calls == times


async def test_wrong_calls_are_told_to_the_model_and_not_to_the_handler() -> None:
    model = ScriptedModel([call("get_statistics", q_id=1), call("get_stats", q_id="three")], [text("ok")])

    await Queries({}, model).query("?", tools=[STATS], tool_handler=never)

    unknown, invalid = results(model)
    assert "'get_statistics' not found" in unknown and "get_stats" in unknown
    assert invalid.startswith("invalid_arguments: q_id")


@pytest.mark.requirement("rlm.beyond")
@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("as it is", "as it is"),
        ({"avg": 4.2, "n": [1, None]}, '{"avg":4.2,"n":[1,null]}'),
        ({"output": 1}, '{"output":1}'),
        (7, "7"),
        (True, "true"),
        (None, "null"),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "async", "lambda"])
async def test_a_handler_plain_or_async_gives_any_json(value: Any, read: str, kind: str) -> None:
    model = ScriptedModel([call("get_stats", q_id=1)], [text("ok")])

    async def later(name: str, arguments: dict[str, Any]) -> Any:
        return value

    handlers = {"plain": lambda name, arguments: value, "async": later, "lambda": lambda *given: later(*given)}
    await Queries({}, model).query("?", tools=[STATS], tool_handler=handlers[kind])

    assert results(model) == [read]


async def test_what_is_not_json_is_an_error_that_the_model_reads() -> None:
    model = ScriptedModel([call("get_stats", q_id=1)], [text("ok")])

    await Queries({}, model).query("?", tools=[STATS], tool_handler=lambda name, arguments: object())

    assert results(model)[0].startswith("Error executing get_stats: ")
    assert "do not repeat it; the tool ran, but its result cannot be used" in results(model)[0]


@pytest.mark.requirement("rlm.beyond")
@pytest.mark.parametrize(
    ("choice", "asked"),
    [
        (None, "auto"),
        ("none", "none"),
        ("required", "required"),
        ("count", NamedTool("count")),
        ({"type": "function", "function": {"name": "count"}}, NamedTool("count")),
    ],
)
async def test_a_tool_choice_reaches_the_model(choice: Any, asked: Any) -> None:
    model = ScriptedModel([text("ok")])

    await Queries({}, model).query("?", tools=[STATS, COUNT], tool_handler=never, tool_choice=choice)

    assert model.requests[0].tool_choice == asked


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array"}}}, {"type": "array"}),
        ({"type": "json_object"}, {"type": "object"}),
        ({"type": "text"}, None),
    ],
)
@pytest.mark.requirement("rlm.query")
async def test_a_response_format_reaches_the_model_and_only_that_query(form: Any, schema: Any) -> None:
    model = ScriptedModel([text("[]")], [text("x")])
    queries = Queries({}, model)

    await queries.query("?", response_format=form)
    await queries.query("?")

    assert [request.response_schema for request in model.requests] == [schema, None]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"prompt": 3}, "Invalid prompt type: int"),
        ({"prompt": {"role": "user"}}, "Invalid prompt type: dict"),
        ({"prompt": ["a"]}, "Invalid prompt type: list of str"),
        ({"prompt": []}, "no messages"),
        ({"prompt": [{"role": "robot", "content": "x"}]}, r"messages\[0\]: the role"),
        ({"prompt": [{"role": "tool", "tool_call_id": "1", "content": "x"}]}, "names no call"),
        ({"prompt": [{"role": "assistant", "tool_calls": [{"id": "1", "name": "f"}]}]}, "'1' has no result"),
        ({"prompt": [{"role": "assistant", "tool_calls": 5}]}, "tool_calls is a list of calls, not int"),
        ({"prompt": [{"role": "user", "content": 3}]}, "content is text"),
        ({"prompt": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "the url"),
        ({"response_format": {"type": "yaml"}}, "Invalid response_format"),
        ({"tools": [3], "tool_handler": never}, "Invalid tools"),
        ({"tools": [STATS, STATS], "tool_handler": never}, "get_stats"),
        ({"tools": [{"type": "function", "function": {}}], "tool_handler": never}, "needs a name"),
        ({"tools": [STATS], "tool_handler": 3}, "Invalid tool_handler"),
        ({"tool_choice": "required"}, "Invalid tool_choice"),
        ({"tool_choice": "nope", "tools": [STATS], "tool_handler": never}, "'nope' is none of the tools"),
        ({"max_iterations": 0}, "Invalid max_iterations"),
    ],
)
async def test_what_cannot_be_asked_is_said_before_anything_is(given: dict[str, Any], why: str) -> None:
    model = ScriptedModel()

    with pytest.raises(ValueError, match=why):
        await Queries({}, model).query(**{"prompt": "?", **given})
    assert model.requests == []


@pytest.mark.requirement("rlm.query")
async def test_messages_in_openais_form_reach_the_model_and_are_left_as_they_are() -> None:
    prompt: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "count", "arguments": '{"n": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "user", "content": "And?"},
    ]
    before = json.dumps(prompt)
    model = ScriptedModel([call("count", "a", n=2)], [text("two")])

    await Queries({}, model).query(prompt, tools=[COUNT], tool_handler=lambda name, arguments: "2")

    assert json.dumps(prompt) == before
    one, two, user, assistant, called, result, last = model.requests[0].messages
    assert (one, two) == (SupervisorMessage("Be brief."), SupervisorMessage("Be kind."))
    assert user == UserMessage((Text("Look"), Media(media_type="image/png", data=b"hi")))
    assert isinstance(assistant, AssistantMessage) and isinstance(called, InvocationMessage)
    assert (called.call.name, called.call.arguments) == ("count", '{"n": 1}')
    assert isinstance(result, ResultMessage) and (result.result.name, result.result.text) == ("count", "1")
    assert last == UserMessage((Text("And?"),))
    assert results(model) == ["1", "2"]  # also though the model used an id again


# ── errors, limits, routes ───────────────────────────────────────────────────────────


async def test_a_model_that_fails_is_a_sentinel_with_its_kind_and_status() -> None:
    def fails(question: str) -> str:
        raise RateLimited("slow down | please, sk-ant-abcdefghijklmnopqrstuvwxyz", status=429)

    completion = await Queries({}, Echo(fails)).query("?")

    assert answer_of(completion) == "__LLM_ERROR__|rate_limited|429|slow down | please, [redacted]"


async def test_a_model_that_breaks_is_an_error_too(caplog: pytest.LogCaptureFixture) -> None:
    def breaks(question: str) -> str:
        raise KeyError("choices")

    completion = await Queries({}, Echo(breaks)).query("?")

    assert answer_of(completion) == "__LLM_ERROR__|query_error|0|KeyError: 'choices'"
    assert "not known" in caplog.text


async def test_words_that_look_like_an_error_are_an_answer() -> None:
    said = "Error: request failed [rate_limited] [GENERATION_FAILED]"

    completion = await Queries({}, Echo(lambda question: said)).query("what does the log say?")

    assert answer_of(completion) == said


async def test_a_name_leads_to_its_model_and_an_unknown_one_to_an_error() -> None:
    small, large, sub = Echo(name="small-1"), Echo(name="large-1"), Echo(name="sub-1")
    queries = Queries({"small": small}, large, sub=sub)

    assert (await queries.query("a", "small")).root_model == "small-1"
    assert (await queries.query("a", "large-1")).root_model == "large-1"
    assert (await queries.query("a")).root_model == "sub-1"
    assert (await queries.query("a", depth=2)).root_model == "sub-1"
    assert (await queries.query("a", depth=0)).root_model == "large-1"
    unknown = answer_of(await queries.query("a", "medium"))
    assert unknown.startswith("__LLM_ERROR__|unknown_model|0|there is no model 'medium'")
    assert "large-1, small, sub-1" in unknown


async def test_with_no_models_by_name_any_name_will_do() -> None:
    model = Echo(name="the only one")

    assert (await Queries({}, model).query("a", "gpt-4o-mini")).root_model == "the only one"


async def test_every_reply_is_counted_for_the_query_and_for_the_run() -> None:
    def said(event: ModelEvent, usage: Usage) -> list[ModelEvent]:
        return [event, ReplyFinished(stop="end", model="m", usage=usage)]

    usage = Usage(input_tokens=10, output_tokens=2, cost=0.5)
    model = ScriptedModel(said(call("count"), usage), said(text("1"), usage), said(text("2"), usage))
    queries = Queries({}, model)

    first = await queries.query("?", tools=[COUNT], tool_handler=lambda name, arguments: "x")
    await queries.query("?")

    assert first.usage_summary.to_dict() == {
        "model_usage_summaries": {
            "m": {"total_calls": 2, "total_input_tokens": 20, "total_output_tokens": 4, "total_cost": 1.0}
        },
        "total_cost": 1.0,
    }
    assert (queries.spend.calls, queries.spend.tokens, queries.spend.cost) == (3, 36, 1.5)
    assert queries.spend.summary().total_calls == 3
    assert (queries.spend.queries, queries.spend.in_flight) == (2, 0)


async def test_nothing_is_asked_any_more_when_nothing_is_left() -> None:
    model = Echo(usage=Usage(input_tokens=60, output_tokens=0))
    queries = Queries({}, model, spend=Spending(max_tokens=100))

    answers = [answer_of(await queries.query(str(number))) for number in range(4)]

    assert answers[:2] == ["0", "1"] and model.asked == ["0", "1"]
    assert answers[2:] == ["__LLM_ERROR__|limit_exceeded|0|the run reached its limit of 100 tokens"] * 2
    with pytest.raises(LimitExceeded):
        queries.spend.check()


# ── on_request ───────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("rlm.on-request")
async def test_each_query_is_told_of_and_each_prompt_of_a_batch() -> None:
    told: list[tuple[LMRequest, LMResponse]] = []

    def answer(question: str) -> str:
        if question == "bad":
            raise ModelError("no")
        return question

    queries = Queries({}, Echo(answer), on_request=lambda request, response: told.append((request, response)))

    await queries.query("one", response_format={"type": "json_object"}, depth=2)
    await queries.batched(["two", "bad"])

    assert [(request.prompt, request.depth) for request, _ in told] == [("one", 2), ("two", 1), ("bad", 1)]
    assert told[0][0].response_format == {"type": "json_object"}
    assert [response.success for _, response in told] == [True, True, False]
    assert told[1][1].chat_completion is not None and told[1][1].chat_completion.response == "two"
    assert all(response.to_dict() for _, response in told)


@pytest.mark.requirement("rlm.on-request")
async def test_a_listener_that_raises_breaks_nothing_and_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: LMRequest, response: LMResponse) -> None:
        raise RuntimeError("the listener is out of order")

    with caplog.at_level(logging.WARNING):
        completions = await Queries({}, Echo(), on_request=broken).batched(["a", "b", "c"])

    assert [each.response for each in completions] == ["A", "B", "C"]
    assert len(caplog.records) == 1 and "the listener is out of order" in caplog.text


# ── turns whose calls are the asker's ────────────────────────────────────────────────


async def test_a_turn_leaves_the_calls_to_the_asker() -> None:
    model = ScriptedModel([text("let me see"), call("count", "c1", n=1)], [text("it mentions tool_calls: []")])
    queries = Queries({}, model)

    first = await queries.turn("?", tools=[COUNT], tool_choice="required")
    second = await queries.turn("?", tools=[COUNT])

    assert first.tool_calls == [{"id": "c1", "name": "count", "arguments": {"n": 1}}]
    assert first.response == "let me see" and model.requests[0].tool_choice == "required"
    assert second.tool_calls is None and second.response == "it mentions tool_calls: []"


# ── the record ───────────────────────────────────────────────────────────────────────


async def test_a_query_is_on_record_under_its_run() -> None:
    journal = MemoryJournal()
    model = ScriptedModel([call("get_stats", q_id=1)], [text("ok")])

    completion = await Queries({}, model, journal=journal).query(
        "?", tools=[STATS], tool_handler=lambda name, arguments: "4.2", run="run.7"
    )

    assert completion.run == "run.7" and {event.run for event in journal.events} == {"run.7"}
    assert any(isinstance(event, CallIntended) and event.side_effects for event in journal.events)
    assert isinstance(journal.events[-1], RunFinished)


async def test_a_query_that_is_on_record_is_not_asked_again() -> None:
    journal = MemoryJournal()
    usage = Usage(input_tokens=5, output_tokens=1)
    first = await Queries({}, Echo(usage=usage), journal=journal).query("hello", run="r.1")

    again = Queries({}, ScriptedModel(), journal=journal)
    second = await again.query("hello", run="r.1")

    assert (first.response, second.response) == ("HELLO", "HELLO")
    assert second.usage_summary == first.usage_summary
    assert again.spend.tokens == 6  # what a run has cost does not depend on when it was taken up


async def test_words_that_a_model_is_to_go_on_from_are_never_taken_for_its_answer() -> None:
    journal = MemoryJournal()
    prompt = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "The answer is"}]

    first = await Queries({}, ScriptedModel(), journal=journal).query(prompt, run="r")
    second = await Queries({}, ScriptedModel([text("4")]), journal=journal).query(prompt, run="r")

    assert (first.error_type, first.response) == ("model_error", "")
    assert (second.error_type, second.response) == ("query_error", "")


async def test_a_query_that_was_cut_off_is_taken_up_where_it_was() -> None:
    journal = MemoryJournal()
    ran = 0

    def handler(name: str, arguments: dict[str, Any]) -> str:
        nonlocal ran
        ran += 1
        return "4.2"

    broken = ScriptedModel([call("get_stats", "c1", q_id=1)])  # then its service is gone
    first = await Queries({}, broken, journal=journal).query("?", tools=[STATS], tool_handler=handler, run="r")
    model = ScriptedModel([text("it is 4.2")])
    second = await Queries({}, model, journal=journal).query("?", tools=[STATS], tool_handler=handler, run="r")

    assert first.error_type == "model_error" and second.response == "it is 4.2"
    assert ran == 1 and results(model) == ["4.2"]
    assert sum(isinstance(event, CallSettled) for event in journal.events) == 1
