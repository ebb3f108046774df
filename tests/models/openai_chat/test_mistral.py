"""What only Mistral has: content in chunks, replies that are begun, ids of nine characters, fields of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from handrail.core.calls import ToolResult
from handrail.core.events import CitationAdded, MediaAdded
from handrail.core.messages import AssistantMessage, Citation, Media, ResultMessage, Text, UserMessage
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.sessions.create import create_llm
from tests.models.reply_rounds import (
    CLOCK,
    WEATHER,
    asked,
    calls_of,
    decoded,
    messages_of,
    notices_of,
    text_of,
    thoughts_of,
)
from tests.sessions.wire_replies import TEXTS, OneReply

RECORDINGS = Path(__file__).parents[2] / "wires" / "recordings" / "openai_chat"
CODEC = OpenAIChatCodec(server="mistral")
MODEL = "magistral-medium-latest"
QUESTION = UserMessage((Text("2 + 2?"),))


def recorded(name: str) -> list[dict[str, Any]]:
    text = RECORDINGS.joinpath(name).read_text("utf-8")
    if name.endswith(".json"):
        return [json.loads(text)]
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def sent(*messages: Any, **request: Any) -> list[dict[str, Any]]:
    body = json.loads(CODEC.encode(asked(*messages, **request), MODEL, stream=True).text())
    found: list[dict[str, Any]] = body["messages"]
    return found


@pytest.mark.parametrize("name", ["mistral-thinking.json", "mistral-thinking-stream.sse"])
def test_thoughts_go_back_as_a_chunk_of_the_content(name: str) -> None:
    events = decoded(CODEC, recorded(name))
    reply = sent(QUESTION, *messages_of(events), UserMessage((Text("And 3 + 3?"),)))[1]

    assert (thoughts_of(events), text_of(events)) == ("Okay, the user asks for a sum.", "It is 4.")
    assert reply == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Okay, the user asks for a sum."}]},
            {"type": "text", "text": "It is 4."},
        ],
    }


@pytest.mark.parametrize("name", ["mistral-thinking-call.json", "mistral-thinking-call-stream.sse"])
def test_calls_keep_their_nine_characters_and_the_thought_before_them(name: str) -> None:
    events = decoded(CODEC, recorded(name))
    results = [ResultMessage(ToolResult(call.id, call.name, "fine")) for call in calls_of(events)]
    _, reply, first, second = sent(QUESTION, *messages_of(events), *results, tools=(WEATHER, CLOCK))

    assert [call["id"] for call in reply["tool_calls"]] == ["D681PevKs", "tZrA01bCd"]
    assert [message["tool_call_id"] for message in (first, second)] == ["D681PevKs", "tZrA01bCd"]
    assert [chunk["type"] for chunk in reply["content"]] == ["thinking"]
    assert "reasoning_content" not in reply


@pytest.mark.parametrize("name", ["mistral-references.json", "mistral-references-stream.sse"])
def test_references_are_citations(name: str) -> None:
    events = decoded(CODEC, recorded(name))

    assert text_of(events) == "It left Porto on Monday."
    assert [event.citation for event in events if isinstance(event, CitationAdded)] == [
        Citation(title="0"),
        Citation(title="a1"),
        Citation(url="https://example.org/17", title="Orders", quote="Order 17"),
    ]
    assert notices_of(events) == []


def test_pictures_are_given_out_and_chunks_of_an_unknown_kind_are_noticed() -> None:
    reply = recorded("mistral-references.json")[0]
    reply["choices"][0]["message"]["content"] = [
        {"type": "image_url", "image_url": {"url": "https://example.org/i.png"}},
        {"type": "image_url", "image_url": "data:image/png;base64,cG5n"},
        {"type": "smell", "smell": "roses"},
    ]
    events = decoded(CODEC, [reply])
    assert [event.media for event in events if isinstance(event, MediaAdded)] == [
        Media(media_type="image/*", url="https://example.org/i.png"),
        Media(media_type="image/png", data=b"png"),
    ]
    assert any("'smell'" in text for text in notices_of(events))


def test_a_conversation_that_ends_with_the_assistant_asks_for_the_rest_of_its_reply() -> None:
    last = sent(QUESTION, AssistantMessage("It is"))[-1]
    assert last == {"role": "assistant", "content": "It is", "prefix": True}
    assert "prefix" not in sent(QUESTION, AssistantMessage("It is 4."), QUESTION)[1]
    other = OpenAIChatCodec(server="vllm").encode(asked(QUESTION, AssistantMessage("It is")), "some/model", stream=True)
    assert "prefix" not in other.body["messages"][-1]


def test_fields_that_only_mistral_has_are_sent_as_they_are() -> None:
    transport = OneReply(TEXTS["chat"])
    extra = {"safe_prompt": True, "prompt_mode": "reasoning"}
    with create_llm(f"mistral:{MODEL}", key="k", transport=transport, stream=False, extra=extra) as llm:
        assert llm.generate("Hello?") == "Hello"
    assert transport.requests[0].body | extra == transport.requests[0].body
