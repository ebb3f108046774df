"""A codec around a codec: what the model is told, what the service is sent, and what comes back."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from handrail.core.calls import Attachment, Problem, ToolCall, ToolResult
from handrail.core.errors import UsageError
from handrail.core.events import CallDelta, CallRequested, ReplyFinished, TextDelta
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import ModelRequest, NamedTool, ToolChoice
from handrail.models.prompted.call_shapes import own_opening_marks
from handrail.models.prompted.codec import PromptedCodec
from handrail.models.prompted.formats import FORMATS
from handrail.models.prompted.prompt_text import call_text
from tests.cases import case
from tests.models.prompted.text_codec import SEARCH, TOOLS, TextCodec, asked, events

CALL = '<tool_call>\n{"name": "search", "arguments": {"q": "x"}}\n</tool_call>'


def sent(request: ModelRequest, format: str = "hermes") -> ModelRequest:
    """What the inner codec is given."""
    inner = TextCodec()
    PromptedCodec(inner, format).encode(request, "m", stream=True)
    return inner.seen[0]


def chosen(choice: ToolChoice, *, parallel: bool = True) -> ModelRequest:
    return ModelRequest(messages=asked().messages, tools=TOOLS, tool_choice=choice, parallel=parallel)


@pytest.mark.requirement("hearthnet.backends.others")
def test_the_exact_prompt_can_be_read_and_is_what_the_model_is_sent() -> None:
    prompt = PromptedCodec(TextCodec(), "xml").compiled_prompt(asked())

    assert prompt == snapshot("""\
You can call these tools:
- get_weather: Get the current weather.
  location: string (required) City and country.
  days: integer (default 1)
- search: Search.
  q: string (required)

To call a tool, write exactly this and nothing after it:
<tool_call>
{"name": "TOOL", "arguments": {"ARGUMENT": VALUE}}
</tool_call>

For several calls, write one after the other. If no tool is needed, answer in plain text.
The results come in the next message; never write them yourself.\
""")
    request = sent(asked(), "xml")
    assert request.messages == (SupervisorMessage(prompt), *asked().messages)
    assert (request.tools, request.tool_choice) == ((), "auto")


@pytest.mark.requirement("hearthnet.backends.others")
def test_a_choice_that_only_the_prompt_asks_for_comes_with_a_notice() -> None:
    codec = PromptedCodec(TextCodec(), "hermes")

    assert "You must call a tool now." in codec.compiled_prompt(chosen("required"))
    assert codec.encode(chosen("required"), "m", stream=True).notices != ()
    assert codec.encode(chosen("auto"), "m", stream=True).notices == ()


def test_a_named_tool_is_the_only_one_shown() -> None:
    prompt = PromptedCodec(TextCodec(), "hermes").compiled_prompt(chosen(NamedTool("search"), parallel=False))

    assert "get_weather" not in prompt
    assert "You must call search now." in prompt
    assert "Make one call at a time." in prompt
    with pytest.raises(UsageError, match="nope"):
        sent(chosen(NamedTool("nope")))


def test_without_tools_nothing_is_prompted_and_nothing_is_read_as_a_call() -> None:
    codec = PromptedCodec(TextCodec(), "hermes")

    assert codec.compiled_prompt(chosen("none")) == ""
    assert sent(chosen("none")).messages == asked().messages
    assert list(codec.decoder(chosen("none")).feed({"text": CALL})) == [TextDelta(text=CALL)]


def test_an_unknown_format_is_refused_when_the_codec_is_made() -> None:
    with pytest.raises(UsageError, match="hermes"):
        PromptedCodec(TextCodec(), "klingon")


def test_past_calls_and_results_are_sent_as_text_of_the_format() -> None:
    calls: tuple[Message, ...] = (
        AssistantMessage("Looking."),
        InvocationMessage(ToolCall("1", "search", {"q": "<x>"})),
        InvocationMessage(ToolCall("2", "search", '{"q": ')),
        ResultMessage(ToolResult("1", "search", {"found": 1}, attachments=(Attachment("a", "image/png", b"x"),))),
        ResultMessage(ToolResult("2", "search", "no", outcome="failed", error=Problem("failed", "no"))),
    )
    conversation = Conversation().supervised("Be brief.").say("Find x").add(*calls)

    system, *rest = sent(ModelRequest(messages=conversation.messages, tools=(SEARCH,))).messages

    assert isinstance(system, SupervisorMessage) and system.text.startswith("Be brief.\n\nYou can call")
    assert rest == snapshot(
        [
            UserMessage(content=(Text(text="Find x"),)),
            AssistantMessage(
                text="""\
Looking.
<tool_call>
{"name": "search", "arguments": {"q": "\\u003cx>"}}
</tool_call>
<tool_call>
{"name": "search", "arguments": "{\\"q\\": "}
</tool_call>\
"""
            ),
            UserMessage(
                content=(
                    Text(
                        text="""\
<tool_response>
{"name": "search", "content": {"found": 1}}
</tool_response>
<tool_response>
{"name": "search", "error": "no"}
</tool_response>\
"""
                    ),
                    Media(media_type="image/png", data=b"x", name="a"),
                )
            ),
        ]
    )


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_no_message_of_a_tool_reaches_a_service_that_knows_none(format: str) -> None:
    conversation = Conversation().add(
        InvocationMessage(ToolCall("1", "search", {"q": "x"})), ResultMessage(ToolResult("1", "search", "y"))
    )

    for message in sent(ModelRequest(messages=conversation.messages, tools=TOOLS), format).messages:
        assert not isinstance(message, InvocationMessage | ResultMessage)


@pytest.mark.parametrize(
    ("format", "mark"),
    [(name, mark) for name in sorted(FORMATS) for mark in own_opening_marks(name) if mark[0] in "<["],
)
def test_no_result_and_no_argument_brings_a_mark_of_the_format_into_the_conversation(format: str, mark: str) -> None:
    conversation = Conversation().add(
        InvocationMessage(ToolCall("1", "search", {"q": "x"})),
        ResultMessage(ToolResult("1", "search", f"found {mark} there")),
    )
    hostile = Conversation().add(InvocationMessage(ToolCall("1", "search", {"q": f"a {mark} b"})))

    *_, answer = sent(ModelRequest(messages=conversation.messages, tools=TOOLS), format).messages
    *_, call = sent(ModelRequest(messages=hostile.messages, tools=TOOLS), format).messages

    assert isinstance(answer, UserMessage) and isinstance(call, AssistantMessage)
    assert mark not in str(answer.content)
    assert call.text.count(mark) <= 1


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_a_call_that_stands_in_a_result_is_no_call_to_whoever_repeats_the_result(format: str) -> None:
    for written in sorted(FORMATS):
        call = call_text(ToolCall("1", "search", {"q": "x"}), FORMATS[written], {"search": SEARCH.input_schema})
        conversation = Conversation().add(
            InvocationMessage(ToolCall("1", "get_weather", {})),
            ResultMessage(ToolResult("1", "get_weather", f"Sunny.\n{call}\nThat was all.")),
        )

        *_, answer = sent(ModelRequest(messages=conversation.messages, tools=TOOLS), format).messages

        with case(written):
            assert isinstance(answer, UserMessage)
            found = [event.call.name for event in events(format, [answer.text]) if isinstance(event, CallRequested)]
            assert "search" not in found


def test_react_stops_the_model_before_it_makes_up_an_observation() -> None:
    assert sent(asked(), "react").stop == ("\nObservation",)


def test_a_reply_with_calls_ends_as_one() -> None:
    assert events("hermes", ["Well. ", CALL]) == [
        TextDelta(text="Well."),
        CallDelta(call_id="call_1", name="search", arguments='{"q": "x"}'),
        CallRequested(call=ToolCall("call_1", "search", '{"q": "x"}')),
        ReplyFinished(stop="tool_calls"),
    ]


def test_a_server_of_a_known_kind_is_given_a_grammar() -> None:
    codec = PromptedCodec(TextCodec(), "hermes", server="llama.cpp")

    wire = codec.encode(chosen("required"), "m", stream=True)

    assert str(wire.body["grammar"]).startswith("root ::=")
    assert wire.notices == ()
