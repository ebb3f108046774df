"""A call that a model wrote as text and nobody read: it stays text, and a notice says so."""

from __future__ import annotations

import pytest

from handrail.core.events import CallRequested, ModelEvent, Notice, ReplyFinished, TextDelta
from handrail.core.messages import Conversation
from handrail.core.model_request import ModelRequest
from handrail.models.codec_model import IncomingReply
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.prompted.codec import PromptedCodec
from handrail.models.reply_checks import ReplyChecker
from tests.models.prompted.reply_corpus import OFFERED, Reply, replies
from tests.models.prompted.text_codec import TextCodec

written = pytest.mark.parametrize(
    "reply",
    [reply for reply in replies() if reply.calls or reply.error],
    ids=lambda reply: f"{reply.format}: {reply.what}",
)
ASKED = ModelRequest(messages=Conversation().say("Hello").messages, tools=OFFERED)


def watched(text: str, request: ModelRequest = ASKED) -> list[ModelEvent]:
    """What a service without a parser for calls makes of a reply that is only text."""
    watch = ReplyChecker(request)
    events = (TextDelta(text=text[:7]), TextDelta(text=text[7:]), ReplyFinished(stop="end"))
    return [allowed for event in events for allowed in watch.see(event)]


def notices(found: list[ModelEvent]) -> list[str]:
    return [event.text for event in found if isinstance(event, Notice)]


@written
def test_a_call_as_text_on_a_wire_that_has_fields_for_calls_comes_with_a_notice(reply: Reply) -> None:
    found = watched(reply.text)

    assert "".join(event.text for event in found if isinstance(event, TextDelta)) == reply.text
    assert [type(event) for event in found[-2:]] == [Notice, ReplyFinished]
    assert "not run" in notices(found)[0]


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ('Let me see.[TOOL_CALLS]get_weather[ARGS]{"city": "Tokyo"}', "mistral"),
        ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{}<｜tool▁call▁end｜>", "deepseek_v3"),
        ("<|tool_call>call:get_current_date{}<tool_call|>", "gemma4"),
        ('<tool_call>{"name": "get_time", "arguments": {}}</tool_call>', "hermes"),
        ('{"name": "get_time", "arguments": {"timezone": "UTC"}}', "json"),
        ("[get_current_date()]", "llama4"),
    ],
)
def test_the_notice_names_the_tool_and_the_format_to_turn_on(text: str, format: str) -> None:
    (notice,) = notices(watched(text))

    assert f"prompted:{format}" in notice
    assert "'get_" in notice


@pytest.mark.parametrize(
    "text",
    [
        "It is warm.",
        "2 < 3, [1] and {x}: <b>bold</b>",
        'The record is\n{"name": "Bob", "age": 3}',
        "Models write [TOOL_CALLS] or <tool_call> before a call.",
        "```python\nprint(1)\n```",
        "[see(1)]",
    ],
)
def test_ordinary_text_comes_without_a_notice(text: str) -> None:
    assert notices(watched(text)) == []


def test_without_tools_text_is_text() -> None:
    text = '[TOOL_CALLS]get_weather[ARGS]{"city": "Tokyo"}'

    assert notices(watched(text, ModelRequest(messages=ASKED.messages))) == []
    assert notices(watched(text, ModelRequest(messages=ASKED.messages, tools=OFFERED, tool_choice="none"))) == []


def test_a_reply_that_also_calls_comes_without_a_notice() -> None:
    text = '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'
    watch = ReplyChecker(ASKED)
    decoder = PromptedCodec(TextCodec(), "hermes").decoder(ASKED)
    events = (*decoder.feed({"text": f"As in [TOOL_CALLS]f[ARGS]{{}}\n{text}"}), *decoder.finish())

    found = [allowed for event in events for allowed in watch.see(event)]

    assert any(isinstance(event, CallRequested) for event in found)
    assert notices(found) == []


def test_a_call_in_the_middle_of_a_line_in_a_format_that_is_not_turned_on_comes_with_a_notice() -> None:
    decoder = PromptedCodec(TextCodec(), "hermes").decoder(ASKED)
    heard = IncomingReply(decoder, ReplyChecker(ASKED), None)
    text = 'Let me see. [TOOL_CALLS]get_weather[ARGS]{"city": "Tokyo"}'

    found = [*heard._given(decoder.feed({"text": text})), *heard.end()]

    assert "prompted:mistral" in notices(found)[0]


def test_a_chat_server_without_a_parser_gives_a_notice() -> None:
    decoder = OpenAIChatCodec(server="vllm").decoder(ASKED)
    heard = IncomingReply(decoder, ReplyChecker(ASKED), None)
    message = {"role": "assistant", "content": '[TOOL_CALLS]get_weather[ARGS]{"city": "Tokyo"}'}
    data = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}

    found = [*heard._given(decoder.feed(data)), *heard.end()]

    assert "prompted:mistral" in notices(found)[0]
