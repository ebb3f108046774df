"""Odd but legal requests of the official clients: what they say reaches the model, or is refused by its place."""

from __future__ import annotations

import asyncio
import base64
import typing
from typing import Any

import openai
import pytest
from anthropic.types.beta.beta_content_block_param import BetaContentBlockParam
from hypothesis import given, strategies as st

from handrail.core.messages import AssistantMessage, Media, ResultMessage, SupervisorMessage, Text, UserMessage
from handrail.node.gateways.anthropic.read import SERVICE_BLOCKS, without_service_blocks
from handrail.testing.model import ScriptedModel, call, text
from tests.node.gateways.gateway_server import HeldModel, finished, scene

DOT = b"\x89PNG\r\n"
PNG = base64.b64encode(DOT).decode()
DATA = f"data:image/png;base64,{PNG}"
REPLY = [text("ok"), finished()]


def user(content: Any) -> Any:
    return {"role": "user", "content": content}


def called(*ids: str) -> Any:
    calls = [{"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


async def chat_messages(*messages: Any, **settings: Any) -> Any:
    """What the model is asked for a request of the OpenAI client."""
    model = ScriptedModel(REPLY)
    async with scene(model) as there:
        await there.openai().chat.completions.create(model="m", messages=list(messages), **settings)
    return model.requests[0].messages


async def anthropic_messages(*messages: Any, **settings: Any) -> Any:
    """What the model is asked for a request of the Anthropic client, and the notices of the answer."""
    model = ScriptedModel(REPLY)
    async with scene(model) as there:
        client = there.anthropic().beta.messages
        reply = await client.create(model="m", max_tokens=9, messages=list(messages), **settings)
    said = (reply.model_extra or {}).get("handrail", {}).get("notices", [])
    return model.requests[0].messages, said


async def test_results_of_parallel_calls_in_another_order_and_with_images_reach_the_model() -> None:
    image = {"type": "image_url", "image_url": {"url": DATA, "detail": "low"}}
    messages = await chat_messages(
        user("a"),
        called("1", "2"),
        {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "two"}, image]},
        {"role": "tool", "tool_call_id": "1", "content": ""},
    )
    results = [each.result for each in messages if isinstance(each, ResultMessage)]
    assert [(each.tool_call_id, each.name, each.text) for each in results] == [("2", "look", "two"), ("1", "look", "")]
    assert [attached.data for attached in results[0].attachments] == [DOT]


@pytest.mark.parametrize(
    ("data", "name", "kind"),
    [
        (f"data:application/pdf;base64,{PNG}", "a.pdf", "application/pdf"),
        (f"DATA:Application/PDF;base64,{PNG}", "a.pdf", "application/pdf"),
        (PNG, "a.pdf", "application/pdf"),
        (PNG, "notes.txt", "text/plain"),
        (PNG, None, "application/pdf"),
    ],
)
async def test_a_file_is_taken_as_an_address_and_as_bare_base64(data: str, name: str | None, kind: str) -> None:
    file = {"file_data": data, **({} if name is None else {"filename": name})}
    (message,) = await chat_messages(user([{"type": "file", "file": file}]))
    assert message.content == (Media(media_type=kind, data=DOT, name=name or ""),)


async def test_a_developer_speaks_in_parts_and_in_between() -> None:
    parts = [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}]
    messages = await chat_messages(user("a"), {"role": "developer", "content": parts}, user("b"))
    assert messages[1] == SupervisorMessage("Be brief.\n\nBe kind.")


async def test_a_system_message_in_between_is_the_supervisors_word() -> None:
    messages, _ = await anthropic_messages(user("a"), {"role": "system", "content": "Be brief."}, system="Be kind.")
    assert messages == (
        SupervisorMessage("Be kind."),
        UserMessage((Text("a"),)),
        SupervisorMessage("Be brief."),
    )


async def test_search_results_and_documents_made_of_blocks_reach_the_model() -> None:
    found = {
        "type": "search_result",
        "source": "https://x.example",
        "title": "Boats",
        "content": [{"type": "text", "text": "They float."}],
        "citations": {"enabled": True},
    }
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    blocks = {"type": "content", "content": [{"type": "text", "text": "See:"}, image]}
    documents = [
        {"type": "document", "title": "T", "source": blocks},
        {"type": "document", "source": {"type": "content", "content": "plain"}},
    ]
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look", "input": {}}]}
    result = {"type": "tool_result", "tool_use_id": "1", "content": [found, image]}
    messages, _ = await anthropic_messages(user([found, *documents]), use, user([result]))

    words = "Boats\nhttps://x.example\n\nThey float."
    assert messages[0].content == (
        Text(words),
        Text("T"),
        Text("See:"),
        Media(media_type="image/png", data=DOT),
        Media(media_type="text/plain", data=b"plain"),
    )
    assert messages[-1].result.text == words and messages[-1].result.attachments[0].data == DOT


async def test_blocks_of_anthropics_own_service_are_left_out_with_a_notice_and_a_summary_stays() -> None:
    blocks = [
        {"type": "compaction", "content": "They spoke of boats."},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
        {"type": "text", "text": " And of rain."},
    ]
    messages, notices = await anthropic_messages(user("a"), {"role": "assistant", "content": blocks}, user("b"))

    assert messages[1] == AssistantMessage("They spoke of boats. And of rain.")
    assert notices == [
        "messages[1].content[1] (server_tool_use) has no effect here",
        "messages[1].content[2] (web_search_tool_result) has no effect here",
    ]


READ = {"text", "image", "document", "search_result", "thinking", "redacted_thinking", "tool_use", "tool_result"}
REFUSED = {"tool_addition", "tool_removal"}


def test_every_block_that_the_official_client_can_send_is_read_left_out_or_refused() -> None:
    kinds = set()
    for block in typing.get_args(BetaContentBlockParam):
        if hasattr(block, "__required_keys__"):
            kinds |= set(typing.get_args(typing.get_type_hints(block)["type"]))

    assert READ | REFUSED | SERVICE_BLOCKS | {"compaction"} >= kinds > READ


anything = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(sorted(SERVICE_BLOCKS)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["role", "content", "type"]), inner),
    max_leaves=9,
)


@given(anything)
def test_whatever_stands_in_the_place_of_messages_is_passed_on_for_the_reader_to_refuse(messages: Any) -> None:
    found, places = without_service_blocks(messages)
    assert found == messages or places or "compaction" in str(messages)


async def test_several_calls_for_the_client_are_streamed_one_after_the_other() -> None:
    model = ScriptedModel([call("look", "1", at="a"), call("look", "2", at="b"), finished("tool_calls")])
    look: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    async with (
        scene(model) as there,
        there.openai().chat.completions.stream(model="m", messages=[user("a")], tools=[look]) as events,
    ):
        made: Any = (await events.get_final_completion()).choices[0].message.tool_calls
    assert [each.function.arguments for each in made] == ['{"at":"a"}', '{"at":"b"}']
    assert len({each.id for each in made}) == 2


async def test_closing_a_stream_of_the_official_client_lets_go_of_the_model() -> None:
    model = HeldModel(text("Hello"))
    async with scene(model) as there:
        stream = await there.openai().chat.completions.create(model="m", messages=[user("a")], stream=True)
        async with asyncio.timeout(20):
            await model.reached.wait()
            await stream.close()
            await model.dropped.wait()


async def test_what_no_client_can_have_is_refused_by_its_place() -> None:
    custom: Any = {"role": "assistant", "tool_calls": [{"id": "1", "type": "custom", "custom": {"name": "x"}}]}
    wrong: list[tuple[list[Any], str]] = [
        ([user("a"), custom], "messages[1].tool_calls[0]"),
        ([user([{"type": "file", "file": {"file_id": "f"}}])], "messages[0].content[0].file"),
        (
            [user("a"), called("1"), {"role": "tool", "tool_call_id": "1", "content": [image_at_address()]}],
            "messages[2]",
        ),
    ]
    async with scene(ScriptedModel()) as there:
        for messages, place in wrong:
            with pytest.raises(openai.BadRequestError) as error:
                await there.openai().chat.completions.create(model="m", messages=messages)
            assert (error.value.param or "").startswith(place)


def image_at_address() -> Any:
    return {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}}
