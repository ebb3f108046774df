"""The official Anthropic client gets answers that are made with the node's tools."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import anthropic
import pytest

from handrail.core.messages import InvocationMessage, Media, ResultMessage, SupervisorMessage, UserMessage
from handrail.core.model_request import NamedTool
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import finished, scene

WEATHER: Any = {
    "name": "weather",
    "description": "What the sky does.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
HELLO: Any = [{"role": "user", "content": "Hello"}]


async def test_a_question_is_answered_with_the_nodes_tools() -> None:
    model = ScriptedModel(
        [text("Let me see."), call("add", a=1, b=2), finished("tool_calls", cached_tokens=4)],
        [text("It is 3."), finished()],
    )
    async with scene(model) as there:
        reply = await there.anthropic().messages.create(model="m", max_tokens=100, messages=HELLO)

    assert [(block.type, getattr(block, "text", "")) for block in reply.content] == [
        ("text", "Let me see.\n\nIt is 3.")
    ]
    assert reply.stop_reason == "end_turn" and reply.role == "assistant" and reply.model == "m"
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cache_read_input_tokens) == (16, 6, 4)
    assert reply._request_id is not None and reply._request_id.startswith("run_")


def blocks_of(stream: str) -> list[tuple[int, str]]:
    """Where each block of a stream stands, and what it is."""
    events = [json.loads(line.removeprefix("data: ")) for line in stream.splitlines() if line.startswith("data: ")]
    begun = [event for event in events if event["type"] == "content_block_start"]
    return [(event["index"], event["content_block"]["type"]) for event in begun]


async def test_a_stream_has_its_events_in_the_order_of_the_api() -> None:
    made = [call("weather", "1", city="Kleve"), call("weather", "2", city="Goch"), finished("tool_calls")]
    model = ScriptedModel([text("I "), text("look."), *made[1:]], made)
    async with scene(model) as there:
        body = {"model": "m", "max_tokens": 9, "messages": HELLO, "tools": [WEATHER], "stream": True}
        async with there.http() as client:
            answer = await client.post("/v1/messages", json=body)
            silent = await client.post("/v1/messages", json=body)

    assert blocks_of(answer.text) == [(0, "text"), (1, "tool_use")]
    assert blocks_of(silent.text) == [(0, "tool_use"), (1, "tool_use")]
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("event: ") for line in answer.text.splitlines() if line.startswith("event: ")]
    assert events == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


async def test_a_stream_says_the_same_as_an_answer_in_one_piece() -> None:
    replies = (
        [text("Let "), text("me see."), call("add", a=1, b=2), finished("tool_calls")],
        [text("Now."), call("weather", "w", city="Kleve"), finished("tool_calls")],
    )
    async with scene(ScriptedModel(*replies, *replies)) as there:
        client = there.anthropic()
        whole = await client.messages.create(model="m", max_tokens=100, messages=HELLO, tools=[WEATHER])
        async with client.messages.stream(model="m", max_tokens=100, messages=HELLO, tools=[WEATHER]) as stream:
            final = await stream.get_final_message()

    # Only the ids are of each answer.
    left, right = ({**reply.model_dump(), "id": ""} for reply in (whole, final))
    for blocks in (left["content"], right["content"]):
        blocks[1].update(id="")
        for block in blocks:
            block.pop("parsed_output", None)
    assert left == right


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_of_both_kinds_are_answered_by_both_sides(stream: bool) -> None:
    model = ScriptedModel(
        [text("I look."), call("add", a=1, b=2), call("weather", city="Kleve"), finished("tool_calls")],
        [text("3, and rain."), finished()],
    )
    asked: Any = {"model": "m", "max_tokens": 100, "tools": [WEATHER]}
    async with scene(model) as there:
        client = there.anthropic()
        if stream:
            async with client.messages.stream(messages=HELLO, **asked) as events:
                first: Any = await events.get_final_message()
        else:
            first = await client.messages.create(messages=HELLO, **asked)
        assert first.stop_reason == "tool_use"
        assert [(block.type, getattr(block, "name", "")) for block in first.content] == [
            ("text", ""),
            ("tool_use", "weather"),
        ]
        assert first.content[1].input == {"city": "Kleve"}
        result = {"type": "tool_result", "tool_use_id": first.content[1].id, "content": "rain", "is_error": True}
        said = [block.model_dump(exclude={"parsed_output"}) for block in first.content]
        history: Any = [*HELLO, {"role": "assistant", "content": said}, {"role": "user", "content": [result]}]
        reply: Any = await client.messages.create(messages=history, **asked)

    assert reply.content[0].text == "3, and rain."
    seen = model.requests[1].messages
    assert [each.call.name for each in seen if isinstance(each, InvocationMessage)] == ["add", "weather"]
    results = [each.result for each in seen if isinstance(each, ResultMessage)]
    assert [(each.name, each.content, each.outcome) for each in results] == [
        ("add", 3, "ok"),
        ("weather", "rain", "failed"),
    ]


async def test_settings_reach_the_model() -> None:
    model = ScriptedModel([text("{}"), finished("stop_sequence")])
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    async with scene(model) as there:
        reply = await there.anthropic().messages.create(
            model="m",
            max_tokens=50,
            system=[{"type": "text", "text": "Be brief."}],
            messages=HELLO,
            tools=[WEATHER],
            tool_choice={"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
            stop_sequences=["END"],
            extra_body={
                "temperature": 0.5,
                "top_p": 0.9,
                "output_config": {"format": {"type": "json_schema", "schema": schema}},
                "thinking": {"type": "enabled", "budget_tokens": 1024},
            },
        )

    request = model.requests[0]
    assert (request.max_tokens, request.temperature, request.top_p) == (50, 0.5, 0.9)
    assert (request.stop, request.parallel, request.response_schema) == (("END",), False, schema)
    assert request.tool_choice == NamedTool("weather")
    assert request.messages[0] == SupervisorMessage("Be brief.")
    assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", "END")
    assert (reply.model_extra or {})["handrail"]["notices"] == ["thinking has no effect here"]


async def test_images_and_documents_go_to_the_model() -> None:
    model = ScriptedModel([text("A dot."), finished()])
    source = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    parts: Any = [
        {"type": "image", "source": source},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}, "title": "t"},
        {"type": "text", "text": "What is it?"},
    ]
    async with scene(model) as there:
        await there.anthropic().messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": parts}])

    [message] = model.requests[0].messages
    assert isinstance(message, UserMessage)
    assert message.content[:3] == (
        Media(media_type="image/png", data=b"hi"),
        Media(media_type="image/jpeg", url="https://example.org/a"),
        Media(media_type="text/plain", data=b"words", name="t"),
    )


async def test_the_blocking_client_is_served_too() -> None:
    model = ScriptedModel([call("add", a=1, b=2), finished("tool_calls")], [text("3"), finished()])
    async with scene(model) as there:

        def ask() -> str:
            asked: Any = {"model": "m", "max_tokens": 9, "messages": HELLO}
            with there.anthropic_sync() as client, client.messages.stream(**asked) as stream:
                return "".join(stream.text_stream)

        assert await asyncio.to_thread(ask) == "3"


async def test_the_models_are_listed() -> None:
    async with scene(ScriptedModel()) as there:
        client = there.anthropic()
        models = await client.models.list()
        one = await client.models.retrieve("m")
        with pytest.raises(anthropic.NotFoundError):
            await client.models.retrieve("other")

    assert [model.id for model in models.data] == ["m"] == [one.id]
