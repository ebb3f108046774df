"""The official OpenAI client gets responses that are made with the node's tools: text, items, events, calls, usage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import openai
import pytest
from msgspec import Meta
from openai.types.responses import Response
from pydantic import BaseModel

from handrail import tool
from handrail.core.errors import ModelUnavailable
from handrail.core.events import CitationAdded, MediaAdded, ModelEvent, ReasoningDelta
from handrail.core.messages import Citation, InvocationMessage, Media, ResultMessage, SupervisorMessage
from handrail.core.model_request import ModelRequest, NamedTool
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import HeldModel, add, finished, post, scene

WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "What the sky does.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


def with_a_tool() -> ScriptedModel:
    replies = (
        [text("Let "), text("me see."), call("add", a=1, b=2), finished("tool_calls")],
        [text("It is 3."), finished()],
    )
    return ScriptedModel(*replies, *replies)


async def test_a_question_is_answered() -> None:
    model = ScriptedModel([text("Hel"), text("lo."), finished(cached_tokens=4, reasoning_tokens=1)])
    async with scene(model) as there:
        reply = await there.openai().responses.create(model="m", input="Hello", instructions="Be brief.")

    assert reply.output_text == "Hello."
    assert (reply.object, reply.status, reply.model, reply.error) == ("response", "completed", "m", None)
    assert reply.id.startswith("resp_") and reply.instructions == "Be brief."
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.total_tokens) == (10, 3, 13)
    assert reply.usage.input_tokens_details.cached_tokens == 4
    assert reply.usage.output_tokens_details.reasoning_tokens == 1
    assert reply._request_id is not None and reply._request_id.startswith("run_")
    supervisor, user = model.requests[0].messages
    assert isinstance(supervisor, SupervisorMessage) and supervisor.text == "Be brief."
    assert user.text == "Hello"  # type: ignore[union-attr] # it is a user's


async def test_the_nodes_tools_run_here_and_are_shown_with_their_results() -> None:
    async with scene(with_a_tool()) as there:
        reply = await there.openai().responses.create(model="m", input="?")

    assert [item.type for item in reply.output] == ["message", "mcp_call", "message"]
    made: Any = reply.output[1]
    assert (made.name, made.arguments, made.output, made.error) == ("add", '{"a":1,"b":2}', "3", None)
    assert (made.server_label, made.status) == ("handrail", "completed")
    assert reply.output_text == "Let me see.It is 3."
    assert reply.usage is not None and reply.usage.total_tokens == 26


@pytest.mark.parametrize("by", ["field", "header"])
async def test_a_client_that_cannot_read_such_items_may_have_them_hidden(by: str) -> None:
    said: Any = {"extra_headers": {"x-handrail-show-calls": "false"}}
    if by == "field":
        said = {"extra_body": {"handrail": {"show_calls": False}}}
    async with scene(with_a_tool()) as there:
        reply = await there.openai().responses.create(model="m", input="?", **said)

    assert [item.type for item in reply.output] == ["message", "message"]


async def test_the_events_of_a_stream_come_in_the_order_of_the_specification() -> None:
    async with scene(with_a_tool()) as there:
        stream = await there.openai().responses.create(model="m", input="?", stream=True)
        events = [event async for event in stream]

    message = [
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
    ]
    node_call = [
        "response.output_item.added",
        "response.mcp_call.in_progress",
        "response.mcp_call_arguments.delta",
        "response.mcp_call_arguments.done",
        "response.mcp_call.completed",
        "response.output_item.done",
    ]
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        *message[:3],
        *message[2:],
        *node_call,
        *message,
        "response.completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.output_index for event in events if hasattr(event, "output_index")] == [0] * 7 + [1] * 6 + [2] * 6


async def test_a_stream_says_the_same_as_a_response_in_one_piece() -> None:
    async with scene(with_a_tool()) as there:
        client = there.openai()
        whole = await client.responses.create(model="m", input="?", tools=[WEATHER], metadata={"a": "b"})
        async with client.responses.stream(model="m", input="?", tools=[WEATHER], metadata={"a": "b"}) as events:
            async for _ in events:
                pass
            streamed = await events.get_final_response()

    assert without_ids(streamed) == without_ids(whole)


NUMBER, TEXT = (int, float), (str,)
REQUIRED: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "object", "status", "model", "truncation", "service_tier"), TEXT),
    **dict.fromkeys(("created_at", "top_logprobs"), (int,)),
    **dict.fromkeys(("top_p", "temperature", "presence_penalty", "frequency_penalty"), NUMBER),
    **dict.fromkeys(("parallel_tool_calls", "store", "background"), (bool,)),
    **dict.fromkeys(("output", "tools"), (list,)),
    **dict.fromkeys(("text", "metadata", "usage"), (dict,)),
    **dict.fromkeys(("reasoning", "incomplete_details", "error"), (dict, type(None))),
    **dict.fromkeys(
        ("instructions", "previous_response_id", "safety_identifier", "prompt_cache_key"), (str, type(None))
    ),
    **dict.fromkeys(("completed_at", "max_output_tokens", "max_tool_calls"), (int, type(None))),
    "tool_choice": (str, dict),
}
"""What a response must have by Open Responses of 2026-04-24."""


@pytest.mark.parametrize("form", [None, {"type": "json_schema", "name": "x", "schema": {"type": "object"}}])
async def test_a_response_has_every_field_that_the_specification_requires(form: Any) -> None:
    model = ScriptedModel(*[[call("weather", city="Kleve"), finished("tool_calls")]] * 2)
    settings: Any = {} if form is None else {"text": {"format": form}}
    asked = {"model": "m", "input": "?", "tools": [WEATHER], **settings}
    async with scene(model) as there, there.http() as http:
        whole = (await http.post("/v1/responses", json=asked)).json()
        stream = (await http.post("/v1/responses", json={**asked, "stream": True})).text

    frames = [frame.split("\n") for frame in stream.strip().split("\n\n")]
    events = [json.loads(frame[1].removeprefix("data: ")) for frame in frames[:-1]]
    assert frames[-1] == ["data: [DONE]"]
    assert [frame[0] for frame in frames[:-1]] == [f"event: {event['type']}" for event in events]
    for document in (whole, events[-1]["response"]):
        assert {name: type(document[name]) for name in REQUIRED if not isinstance(document[name], REQUIRED[name])} == {}
        assert set(document["usage"]) == {
            *("input_tokens", "output_tokens", "total_tokens", "input_tokens_details", "output_tokens_details")
        }
        assert set(document["tools"][0]) == {"type", "name", "description", "parameters", "strict"}
        if form is not None:
            assert set(document["text"]["format"]) == {"type", "name", "description", "schema", "strict"}


def without_ids(response: Response) -> dict[str, Any]:
    said = Response.model_construct(**response.model_dump()).model_dump(exclude={"id", "created_at", "completed_at"})
    for item in said["output"]:
        item.pop("id")
        for part in item.get("content") or ():
            part.pop("parsed", None)
    for each in said["tools"]:
        each.pop("parsed_arguments", None)
    return said


@pytest.mark.parametrize("stream", [False, True])
async def test_the_clients_calls_are_handed_to_it_in_parallel_and_the_answer_goes_on_with_their_outputs(
    stream: bool,
) -> None:
    model = ScriptedModel(
        [
            text("I look."),
            call("weather", "w", city="Kleve"),
            call("add", a=1, b=2),
            call("weather", "v", city="Goch"),
            finished("tool_calls"),
        ],
        [text("Rain, and 3."), finished()],
    )
    async with scene(model) as there:
        client = there.openai()
        if stream:
            async with client.responses.stream(model="m", input="?", tools=[WEATHER]) as events:
                seen = [event async for event in events]
                first: Any = await events.get_final_response()
            deltas = [event for event in seen if event.type == "response.function_call_arguments.delta"]
            assert [event.delta for event in deltas] == ['{"city":"Kleve"}', '{"city":"Goch"}']
        else:
            first = await client.responses.create(model="m", input="?", tools=[WEATHER])
        calls = [item for item in first.output if item.type == "function_call"]
        assert [item.type for item in first.output] == ["message", "mcp_call", "function_call", "function_call"]
        assert [(each.name, each.arguments) for each in calls] == [
            ("weather", '{"city":"Kleve"}'),
            ("weather", '{"city":"Goch"}'),
        ]
        outputs: Any = [{"type": "function_call_output", "call_id": each.call_id, "output": "rain"} for each in calls]
        history: Any = [{"role": "user", "content": "?"}, *first.to_dict()["output"], *outputs]
        for item in history:
            for part in item.get("content") or () if isinstance(item.get("content"), list) else ():
                part.pop("parsed", None)
            item.pop("parsed_arguments", None)
        reply = await client.responses.create(model="m", input=history, tools=[WEATHER])

    assert reply.output_text == "Rain, and 3."
    seen_by_model = model.requests[1].messages
    made = [each.call.name for each in seen_by_model if isinstance(each, InvocationMessage)]
    results = [(each.result.name, each.result.content) for each in seen_by_model if isinstance(each, ResultMessage)]
    assert made == ["weather", "add", "weather"]  # as the model made them: what the client was shown is not there twice
    assert sorted(results, key=str) == [("add", 3), ("weather", "rain"), ("weather", "rain")]


async def test_what_the_model_thinks_is_a_reasoning_item_before_its_message() -> None:
    model = ScriptedModel(*[[ReasoningDelta(text="Hm, "), ReasoningDelta(text="yes."), text("Yes."), finished()]] * 2)
    async with scene(model) as there:
        client = there.openai()
        whole = await client.responses.create(model="m", input="?")
        stream = await client.responses.create(model="m", input="?", stream=True)
        types = [event.type async for event in stream]

    reasoning: Any = whole.output[0]
    assert (reasoning.type, reasoning.summary[0].text, whole.output[1].type) == ("reasoning", "Hm, yes.", "message")
    assert types[2:9] == [
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
    ]


async def test_sources_and_pictures_of_the_model_are_annotations_and_items() -> None:
    source = Citation(url="https://example.org", title="Example", start=0, end=3)
    model = ScriptedModel(
        [
            text("Yes."),
            CitationAdded(citation=source),
            MediaAdded(media=Media(media_type="image/png", data=b"hi")),
            finished(),
        ]
    )
    async with scene(model) as there:
        reply: Any = await there.openai().responses.create(model="m", input="?")

    (annotation,) = reply.output[0].content[0].annotations
    assert (annotation.type, annotation.url, annotation.end_index) == ("url_citation", "https://example.org", 3)
    assert (reply.output[1].type, reply.output[1].result) == ("image_generation_call", "aGk=")


async def test_an_argument_that_a_tool_declares_as_secret_is_masked_in_items_and_in_the_input_of_the_next() -> None:
    @tool
    def login(password: Annotated[str, Meta(extra_json_schema={"writeOnly": True})]) -> str:
        """Log in."""
        return "welcome"

    model = ScriptedModel([call("login", password="hunter2"), finished("tool_calls")], *[[text("In."), finished()]] * 2)
    async with scene(model, tools=(login,)) as there, there.http() as http:
        first = await http.post("/v1/responses", json={"model": "m", "input": "?"})
        more = {"model": "m", "input": "And?", "previous_response_id": first.json()["id"]}
        second = await http.post("/v1/responses", json=more)
        listed = await http.get(f"/v1/responses/{second.json()['id']}/input_items")

    for said in (first.text, listed.text):
        assert '"login"' in said and "hunter2" not in said


class City(BaseModel):
    name: str


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_that_is_to_have_a_form_has_it(stream: bool) -> None:
    model = ScriptedModel(
        [text("Let me see."), call("add", a=1, b=2), finished("tool_calls")],
        [text('{"name":'), text('"Kleve"}'), finished()],
    )
    async with scene(model) as there:
        client = there.openai()
        if stream:
            async with client.responses.stream(model="m", input="?", text_format=City) as events:
                parsed = (await events.get_final_response()).output_parsed
        else:
            parsed = (await client.responses.parse(model="m", input="?", text_format=City)).output_parsed

    assert parsed == City(name="Kleve")
    schema = model.requests[0].response_schema
    assert schema is not None and schema["properties"]["name"]["type"] == "string"


async def test_settings_reach_the_model() -> None:
    model = ScriptedModel([text("ok"), finished()])
    async with scene(model) as there:
        reply = await there.openai().responses.create(
            model="m",
            input=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
            tools=[WEATHER],
            tool_choice={"type": "function", "name": "weather"},
            parallel_tool_calls=False,
            max_output_tokens=50,
            temperature=0.5,
            top_p=0.9,
            reasoning={"effort": "low"},
            user="alice",
            prompt_cache_key="key",
        )

    request = model.requests[0]
    assert (request.max_tokens, request.temperature, request.top_p, request.parallel) == (50, 0.5, 0.9, False)
    assert request.tool_choice == NamedTool("weather")
    assert [tool.name for tool in request.tools] == ["add", "post", "weather"]
    assert (reply.max_output_tokens, reply.temperature, reply.top_p, reply.user) == (50, 0.5, 0.9, "alice")
    assert reply.tools[0].name == "weather"  # type: ignore[union-attr] # a function
    assert reply.model_extra is not None
    assert reply.model_extra["handrail"]["notices"] == ["reasoning has no effect here"]


async def test_allowed_tools_leave_only_those() -> None:
    model = ScriptedModel([call("add", a=1, b=1), finished("tool_calls")], [text("2"), finished()])
    async with scene(model) as there:
        await there.openai().responses.create(
            model="m",
            input="?",
            tools=[WEATHER],
            tool_choice={"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "add"}]},
        )

    assert [tool.name for tool in model.requests[0].tools] == ["add"]
    assert [request.tool_choice for request in model.requests] == ["required", "auto"]


async def test_images_and_files_go_to_the_model() -> None:
    model = ScriptedModel([text("A dot."), finished()])
    parts: Any = [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
        {"type": "input_image", "image_url": "https://example.org/a.webp", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
        {"type": "input_file", "file_url": "https://example.org/b.pdf"},
    ]
    async with scene(model, tools=(add,)) as there:
        await there.openai().responses.create(model="m", input=[{"role": "user", "content": parts}])

    [message] = model.requests[0].messages
    kinds = [getattr(part, "media_type", "text") for part in message.content]  # type: ignore[union-attr] # of a user
    assert kinds == ["text", "image/png", "image/webp", "application/pdf", "application/pdf"]


async def test_an_image_that_a_tool_of_the_client_gave_goes_to_the_model() -> None:
    model = ScriptedModel([call("weather", city="Kleve"), finished("tool_calls")], [text("Rain."), finished()])
    async with scene(model) as there:
        client = there.openai()
        first = await client.responses.create(model="m", input="?", tools=[WEATHER])
        asked: Any = first.output[0]
        shown: Any = [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
        ]
        await client.responses.create(
            model="m",
            previous_response_id=first.id,
            input=[{"type": "function_call_output", "call_id": asked.call_id, "output": shown}],
            tools=[WEATHER],
        )

    [result] = [each.result for each in model.requests[1].messages if isinstance(each, ResultMessage)]
    assert result.content == "see" and [each.media_type for each in result.attachments] == ["image/png"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_that_a_limit_cut_says_so(stream: bool) -> None:
    async with scene(ScriptedModel([text("Long"), finished("max_tokens")])) as there:
        if stream:
            events = await there.openai().responses.create(model="m", input="?", stream=True)
            last: Any = [event async for event in events][-1]
            assert last.type == "response.incomplete"
            reply = last.response
        else:
            reply = await there.openai().responses.create(model="m", input="?")

    assert reply.status == "incomplete" and reply.output[0].status == "incomplete"
    assert reply.incomplete_details.reason == "max_output_tokens"


async def test_a_call_that_the_node_refuses_is_shown_as_failed() -> None:
    model = ScriptedModel([call("nonsense"), finished("tool_calls")], [text("Sorry."), finished()])
    async with scene(model) as there:
        reply: Any = await there.openai().responses.create(model="m", input="?")

    assert (reply.output[0].type, reply.output[0].status, reply.output[0].output) == ("mcp_call", "failed", None)
    assert "nonsense" in reply.output[0].error.content[0]["text"]
    assert reply.output_text == "Sorry."


async def test_a_call_that_waits_for_a_person_is_shown_as_incomplete() -> None:
    model = ScriptedModel([call("post", words="hi"), finished("tool_calls")], [text("It waits."), finished()])
    async with scene(model, tools=(post,)) as there:
        reply: Any = await there.openai().responses.create(model="m", input="?")

    assert [(item.type, item.status) for item in reply.output] == [("mcp_call", "incomplete"), ("message", "completed")]
    assert reply.model_extra["handrail"]["waiting"][0]["tool"] == "post"


async def test_the_blocking_client_is_served_too() -> None:
    async with scene(with_a_tool()) as there:

        def ask() -> tuple[str, str]:
            with there.openai_sync() as client:
                whole = client.responses.create(model="m", input="?").output_text
                stream = client.responses.create(model="m", input="?", stream=True)
                return whole, "".join(event.delta for event in stream if event.type == "response.output_text.delta")

        assert await asyncio.to_thread(ask) == ("Let me see.It is 3.", "Let me see.It is 3.")


async def test_a_stream_that_breaks_ends_with_an_error_and_the_failed_response() -> None:
    async with scene(Dying()) as there:
        async with there.http() as http:
            said = await http.post("/v1/responses", json={"model": "m", "input": "?", "stream": True})
        with pytest.raises(openai.APIError, match="away"):
            stream = await there.openai().responses.create(model="m", input="?", stream=True)
            async for _ in stream:
                pass

    names = [line.removeprefix("event: ") for line in said.text.splitlines() if line.startswith("event: ")]
    assert names[-2:] == ["error", "response.failed"] and said.text.endswith("data: [DONE]\n\n")


class Dying:
    """A model that is lost in the middle of a word."""

    name = "m"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        yield text("Hel")
        raise ModelUnavailable("the model is away")


async def test_a_response_under_way_can_be_cancelled_by_its_id() -> None:
    model = HeldModel(text("Hello"))
    async with scene(model) as there, asyncio.timeout(20):
        client = there.openai()
        stream = await client.responses.create(model="m", input="?", stream=True)
        first: Any = await anext(aiter(stream))
        cancelled = await client.responses.cancel(first.response.id)
        await model.dropped.wait()
        with pytest.raises(openai.APIError, match="cancelled"):
            async for _ in stream:
                pass
        later = await client.responses.retrieve(first.response.id)

    assert cancelled.status == later.status == "cancelled"
