"""The official OpenAI client gets answers that are made with the node's tools."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from handrail.core.messages import InvocationMessage, ResultMessage
from handrail.core.model_request import NamedTool
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import add, finished, scene

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "What the sky does.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
HELLO: Any = [{"role": "user", "content": "Hello"}]


async def test_a_question_is_answered() -> None:
    model = ScriptedModel([text("Hel"), text("lo."), finished()])
    async with scene(model) as there:
        reply = await there.openai().chat.completions.create(model="m", messages=HELLO)

    assert reply.choices[0].message.content == "Hello."
    assert reply.choices[0].finish_reason == "stop"
    assert reply.object == "chat.completion" and reply.model == "m" and reply.id.startswith("chatcmpl_")
    assert reply.usage is not None and (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (10, 3)
    assert reply._request_id is not None and reply._request_id.startswith("run_")


async def test_the_nodes_tools_run_here_and_the_client_sees_the_answer_only() -> None:
    model = ScriptedModel(
        [text("Let me see."), call("add", a=1, b=2), finished("tool_calls")], [text("It is 3."), finished()]
    )
    async with scene(model) as there:
        reply = await there.openai().chat.completions.create(model="m", messages=HELLO)

    assert reply.choices[0].message.content == "Let me see.\n\nIt is 3."
    assert reply.choices[0].message.tool_calls is None
    assert reply.usage is not None and reply.usage.total_tokens == 26


async def test_a_stream_says_the_same_as_an_answer_in_one_piece() -> None:
    replies = (
        [text("Let "), text("me see."), call("add", a=1, b=2), finished("tool_calls")],
        [text("It is 3."), finished()],
    )
    async with scene(ScriptedModel(*replies, *replies)) as there:
        client = there.openai()
        whole = await client.chat.completions.create(model="m", messages=HELLO)
        stream = await client.chat.completions.create(
            model="m", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]

    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == whole.choices[0].message.content
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage == whole.usage
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_the_clients_tools_are_handed_to_it_and_the_answer_goes_on_with_its_results(stream: bool) -> None:
    model = ScriptedModel(
        [text("I look."), call("weather", "w", city="Kleve"), finished("tool_calls")], [text("Rain."), finished()]
    )
    async with scene(model) as there:
        client = there.openai()
        if stream:
            async with client.chat.completions.stream(model="m", messages=HELLO, tools=[WEATHER]) as events:
                message: Any = (await events.get_final_completion()).choices[0].message
        else:
            first = await client.chat.completions.create(model="m", messages=HELLO, tools=[WEATHER])
            assert first.choices[0].finish_reason == "tool_calls"
            message = first.choices[0].message
        assert message.tool_calls is not None and len(message.tool_calls) == 1
        asked: Any = message.tool_calls[0]
        assert (asked.function.name, asked.function.arguments) == ("weather", '{"city":"Kleve"}')
        result = {"role": "tool", "tool_call_id": asked.id, "content": "rain"}
        history: Any = [*HELLO, message.model_dump(exclude_none=True, exclude={"parsed"}), result]
        reply = await client.chat.completions.create(model="m", messages=history, tools=[WEATHER])

    assert reply.choices[0].message.content == "Rain."
    results = [each.result for each in model.requests[1].messages if isinstance(each, ResultMessage)]
    assert [(each.name, each.content) for each in results] == [("weather", "rain")]


async def test_in_a_reply_with_both_kinds_of_calls_the_nodes_results_come_back_with_the_clients() -> None:
    model = ScriptedModel(
        [call("add", a=2, b=2), finished("tool_calls")],
        [call("add", a=1, b=2), call("weather", city="Kleve"), finished("tool_calls")],
        [text("3, and rain."), finished()],
    )
    async with scene(model) as there:
        client = there.openai()
        first = (await client.chat.completions.create(model="m", messages=HELLO, tools=[WEATHER])).choices[0].message
        calls: Any = first.tool_calls
        assert [each.function.name for each in calls] == ["weather"]
        history: Any = [*HELLO, first, {"role": "tool", "tool_call_id": calls[0].id, "content": "rain"}]
        reply = await client.chat.completions.create(model="m", messages=history, tools=[WEATHER])

    assert reply.choices[0].message.content == "3, and rain."
    seen = model.requests[2].messages
    made = [each.call.name for each in seen if isinstance(each, InvocationMessage)]
    results = {each.result.name: each.result.content for each in seen[4:] if isinstance(each, ResultMessage)}
    assert made == ["add", "add", "weather"]
    assert results == {"add": 3, "weather": "rain"}


async def test_what_the_node_kept_belongs_to_whoever_asked() -> None:
    model = ScriptedModel(
        [call("add", a=1, b=2), call("weather", city="Kleve"), finished("tool_calls")], [text("Rain."), finished()]
    )
    async with scene(model) as there:
        first = await there.openai().chat.completions.create(model="m", messages=HELLO, tools=[WEATHER])
        message: Any = first.choices[0].message
        history: Any = [*HELLO, message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}]
        await there.openai("bob").chat.completions.create(model="m", messages=history, tools=[WEATHER])

    made = [each.call.name for each in model.requests[1].messages if isinstance(each, InvocationMessage)]
    assert made == ["weather"]


async def test_without_what_the_node_kept_the_answer_goes_on_with_what_the_client_has() -> None:
    first = ScriptedModel([call("add", a=1, b=2), call("weather", city="Kleve"), finished("tool_calls")])
    async with scene(first) as there:
        reply = await there.openai().chat.completions.create(model="m", messages=HELLO, tools=[WEATHER])
    message: Any = reply.choices[0].message
    history: Any = [*HELLO, message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}]

    async with scene(ScriptedModel([text("Rain."), finished()])) as restarted:
        reply = await restarted.openai().chat.completions.create(model="m", messages=history, tools=[WEATHER])

    assert reply.choices[0].message.content == "Rain."


async def test_a_tool_of_the_client_may_not_have_the_name_of_one_of_the_nodes() -> None:
    mine: Any = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    model = ScriptedModel([call("add", a=1), finished("tool_calls")])
    async with scene(model) as there:
        client = there.openai()
        with pytest.raises(openai.BadRequestError) as refused:
            await client.chat.completions.create(model="m", messages=HELLO, tools=[mine])
        reply = await client.chat.completions.create(
            model="m", messages=HELLO, tools=[mine], extra_body={"handrail": {"tools": "none"}}
        )

    assert refused.value.param == "tools[0]" and "'add'" in refused.value.message
    assert reply.choices[0].finish_reason == "tool_calls"


async def test_a_client_chooses_which_of_the_nodes_tools_may_be_called() -> None:
    model = ScriptedModel(*([text("ok"), finished()] for _ in range(4)))
    async with scene(model) as there:
        client = there.openai()
        for more in ({}, {"tools": ["add"]}, {"tools": "none"}):
            await client.chat.completions.create(model="m", messages=HELLO, extra_body={"handrail": more})
        await client.chat.completions.create(model="m", messages=HELLO, extra_headers={"x-handrail-tools": "post"})

    offered = [{tool.name for tool in request.tools} for request in model.requests]
    assert offered == [{"add", "post"}, {"add"}, set(), {"post"}]


async def test_a_token_narrows_what_is_offered_and_what_can_be_called() -> None:
    model = ScriptedModel([call("post", words="hi"), finished("tool_calls")], [text("I may not."), finished()])
    async with scene(model) as there:
        await there.openai("narrow").chat.completions.create(model="m", messages=HELLO)

    assert [tool.name for tool in model.requests[0].tools] == ["add"]
    result = model.requests[1].messages[-1]
    assert isinstance(result, ResultMessage) and result.result.outcome == "forbidden"


async def test_settings_reach_the_model() -> None:
    model = ScriptedModel([text("{}"), finished()])
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    settings: Any = {
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "max_completion_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 7,
        "response_format": {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}},
    }
    async with scene(model) as there:
        said = [{"role": "developer", "content": "Be brief."}, *HELLO]
        await there.openai().chat.completions.create(model="m", messages=said, tools=[WEATHER], **settings)

    request = model.requests[0]
    assert (request.max_tokens, request.temperature, request.top_p) == (50, 0.5, 0.9)
    assert (request.stop, request.seed, request.parallel) == (("END",), 7, False)
    assert request.tool_choice == NamedTool("weather")
    assert request.response_schema == schema
    assert [tool.name for tool in request.tools] == ["add", "post", "weather"]


async def test_allowed_tools_leave_only_those() -> None:
    model = ScriptedModel([call("add", a=1, b=1), finished("tool_calls")], [text("2"), finished()])
    names: Any = [{"type": "function", "function": {"name": "add"}}]
    async with scene(model) as there:
        await there.openai().chat.completions.create(
            model="m",
            messages=HELLO,
            tools=[WEATHER],
            tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": names}},
        )

    assert [tool.name for tool in model.requests[0].tools] == ["add"]
    assert [request.tool_choice for request in model.requests] == ["required", "auto"]


async def test_a_tool_that_the_node_does_not_have_is_answered_to_the_model() -> None:
    model = ScriptedModel([call("nonsense"), finished("tool_calls")], [text("Sorry."), finished()])
    async with scene(model) as there:
        reply = await there.openai().chat.completions.create(model="m", messages=HELLO)

    assert reply.choices[0].message.content == "Sorry."


async def test_a_reply_that_a_limit_cut_says_so() -> None:
    async with scene(ScriptedModel([text("Long"), finished("max_tokens")])) as there:
        reply = await there.openai().chat.completions.create(model="m", messages=HELLO)

    assert reply.choices[0].finish_reason == "length"


async def test_the_blocking_client_is_served_too() -> None:
    model = ScriptedModel([call("add", a=1, b=2), finished("tool_calls")], [text("3"), finished()])
    async with scene(model) as there:

        def ask() -> str:
            with there.openai_sync() as client:
                stream = client.chat.completions.create(model="m", messages=HELLO, stream=True)
                return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

        assert await asyncio.to_thread(ask) == "3"


async def test_the_models_are_listed() -> None:
    async with scene(ScriptedModel()) as there:
        client = there.openai()
        models = await client.models.list()
        one = await client.models.retrieve("m")
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("other")

    assert [model.id for model in models.data] == ["m"] == [one.id]


async def test_images_go_to_the_model() -> None:
    model = ScriptedModel([text("A dot."), finished()])
    parts: Any = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.webp"}},
    ]
    async with scene(model, tools=(add,)) as there:
        await there.openai().chat.completions.create(model="m", messages=[{"role": "user", "content": parts}])

    [message] = model.requests[0].messages
    kinds = [getattr(part, "media_type", "text") for part in message.content]  # type: ignore[union-attr] # of a user
    assert kinds == ["text", "image/png", "image/webp"]
