"""Programs of a service that call tools: offered in its words, each call run here, and everything sent back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from handrail import Session, create_llm, tool
from handrail.core.calls import ToolResult
from handrail.core.confirmation import Allow, Confirmation, Decision
from handrail.core.events import Event, Notice
from handrail.core.messages import InvocationMessage, Message, ResultMessage, SupervisorMessage, Text, UserMessage
from handrail.core.model_request import ModelRequest, NamedTool
from handrail.models.anthropic import AnthropicCodec
from handrail.models.codec import Codec
from handrail.models.gemini import GeminiCodec
from handrail.models.ollama import OllamaCodec
from handrail.models.openai_chat import OpenAIChatCodec
from handrail.models.openai_responses import OpenAIResponsesCodec
from handrail.models.profiles import profile_for
from tests.models.anthropic import sdk_checks
from tests.models.anthropic.streams import block, start, stop, text
from tests.models.openai_chat.sdk_checks import check_responses
from tests.models.openai_responses.streams import message, response, stream
from tests.models.raw_reply_server import serving, sse, whole
from tests.models.reply_rounds import CLOCK, WEATHER, asked, calls_of, decoded, messages_of

CLAUDE, GPT = "claude-opus-4-6", "gpt-5.6"
TOOLS = (replace(WEATHER, by_program=True), replace(CLOCK, by_program=True))
ANTHROPIC = AnthropicCodec(profile=profile_for("anthropic", CLAUDE))
RESPONSES = OpenAIResponsesCodec()


@tool(side_effects=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


class Person:
    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def decide(self, question: Confirmation) -> Decision:
        self.asked.append(question.arguments)
        return Allow("ada")


# ── Anthropic ──

CODE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "await pay(1)"}}
CALLER = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
CONTAINER = {"id": "container_1", "expires_at": "2100-01-01T00:00:00Z"}
RAN = {
    "type": "code_execution_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": {"type": "code_execution_result", "stdout": "ok", "stderr": "", "return_code": 0, "content": []},
}


def program_calls(*cents: int, container: dict[str, Any] = CONTAINER) -> list[dict[str, Any]]:
    """A program of Claude's that waits for these calls."""
    *calls, ended = stop("tool_use")[:1], stop("tool_use")[1]
    delta = {**calls[0][0], "delta": {**calls[0][0]["delta"], "container": container}}
    uses = [
        block(
            at + 1,
            {"type": "tool_use", "id": f"toolu_{each}", "name": "pay", "input": {}, "caller": CALLER},
            {"type": "input_json_delta", "partial_json": f'{{"cents": {each}}}'},
        )
        for at, each in enumerate(cents)
    ]
    return [start(), *block(0, CODE), *(event for use in uses for event in use), delta, ended]


def claude(request: ModelRequest) -> dict[str, Any]:
    body = ANTHROPIC.encode(request, CLAUDE, stream=True).body
    sdk_checks.accepts(body)
    return body


def answered(said: list[Message]) -> list[Message]:
    calls = [each.call for each in said if isinstance(each, InvocationMessage)]
    return [*said, *(ResultMessage(ToolResult(each.id, each.name, "paid")) for each in calls)]


def test_claude_is_offered_tools_for_its_programs_and_the_tool_that_runs_them() -> None:
    body = claude(asked(tools=(*TOOLS[:1], CLOCK)))

    assert [each.get("allowed_callers") for each in body["tools"]] == [["code_execution_20260120"], None, None]
    assert "strict" not in body["tools"][0]
    assert body["tools"][-1] == {"type": "code_execution_20260120", "name": "code_execution"}
    assert "container" not in body


@pytest.mark.parametrize("streamed", [True, False])
def test_a_call_of_claudes_program_goes_back_with_its_caller_code_and_container(streamed: bool) -> None:
    wire = program_calls(1)
    if not streamed:
        whole_reply = sdk_checks.accumulated(wire).to_dict()
        wire = [{**whole_reply, "container": CONTAINER}]
    events = decoded(ANTHROPIC, wire, asked(tools=TOOLS))
    assert [each.name for each in calls_of(events)] == ["pay"]

    body = claude(asked(*asked().messages, *answered(messages_of(events)), tools=TOOLS))

    assert body["container"] == "container_1"
    assert body["messages"][1]["content"] == [
        CODE,
        {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"cents": 1}, "caller": CALLER},
    ]
    assert body["messages"][2]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "paid"}]


@pytest.mark.parametrize("words", [UserMessage((Text("Stop that."),)), SupervisorMessage("Finalise your answer.")])
def test_words_after_a_programs_results_come_after_its_end_for_results_stand_alone(words: Message) -> None:
    said = answered(messages_of(decoded(ANTHROPIC, program_calls(1, 2), asked(tools=TOOLS))))

    messages = claude(asked(*asked().messages, *said, words, tools=TOOLS))["messages"]

    assert [each["role"] for each in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert [each["type"] for each in messages[2]["content"]] == ["tool_result", "tool_result"]
    assert messages[3]["content"] == [
        {
            "type": "code_execution_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": {"type": "code_execution_tool_result_error", "error_code": "unavailable"},
        }
    ]
    assert messages[4]["content"][0]["type"] == "text"


def test_a_container_that_has_expired_is_not_asked_for() -> None:
    old = {"id": "container_0", "expires_at": "2026-01-01T00:00:00Z"}
    wire = [*program_calls(1, container=old)]
    said = answered(messages_of(decoded(ANTHROPIC, wire, asked(tools=TOOLS))))
    later = UserMessage((Text("Good morning."),), at=1_800_000_000_000)

    assert "container" not in claude(asked(*asked().messages, *said, later, tools=TOOLS))


def test_a_container_is_no_block_of_the_history() -> None:
    wire = [start(), *text(0, "Hello."), *program_calls(container=CONTAINER)[-2:]]
    said = messages_of(decoded(ANTHROPIC, wire, asked(tools=TOOLS)))

    body = claude(asked(*asked().messages, *said, UserMessage((Text("And?"),)), tools=(CLOCK,)))

    assert body["messages"][1]["content"] == [{"type": "text", "text": "Hello."}]
    assert "container" not in body


@pytest.mark.parametrize(
    "change", [{"tool_choice": "required"}, {"tool_choice": NamedTool("clock")}, {"parallel": False}]
)
def test_what_programs_cannot_be_held_to_is_said(change: dict[str, Any]) -> None:
    wire = ANTHROPIC.encode(replace(asked(tools=TOOLS), **change), CLAUDE, stream=True)

    assert wire.body["tool_choice"] == {"type": "auto"}
    assert any("programs call the tools" in notice for notice in wire.notices)


async def test_each_call_of_claudes_program_is_approved_run_and_recorded_here() -> None:
    first, second = program_calls(1, 2), program_calls(3)
    last = [start(), *block(0, RAN), *text(1, "All paid."), *stop()]
    replies = (whole(sse(*each), kind="text/event-stream") for each in (first, second, last))
    person = Person()
    async with (
        serving(*replies) as server,
        create_llm(f"anthropic:{CLAUDE}", key="k" * 20, base_url=server.url) as llm,
        Session(llm, tools=[pay], approver=person, code="service") as session,
    ):
        reply = await session.ask_async("Pay.")
        assert session.proof.verify().ok

    assert reply.text == "All paid."
    assert [result.content for result in reply.results] == ["paid 1", "paid 2", "paid 3"]
    assert person.asked == [{"cents": 1}, {"cents": 2}, {"cents": 3}]
    bodies = [each.json for each in server.asked]
    assert all(map(sdk_checks.accepts, bodies))
    assert [each.get("container") for each in bodies] == [None, "container_1", "container_1"]
    assert [each["type"] for each in bodies[1]["messages"][-1]["content"]] == ["tool_result", "tool_result"]


# ── OpenAI Responses ──

PROGRAM = {"type": "program", "id": "prog_1", "call_id": "call_p", "code": "text(await pay(1))", "fingerprint": "f=="}
ENDED = {"type": "program_output", "id": "po_1", "call_id": "call_p", "result": "paid 1", "status": "completed"}
BY_PROGRAM = {"type": "program", "caller_id": "call_p"}
CALLED = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_a",
    "name": "pay",
    "arguments": '{"cents":1}',
    "caller": BY_PROGRAM,
}


def gpt(request: ModelRequest) -> dict[str, Any]:
    body = RESPONSES.encode(request, GPT, stream=True).body
    check_responses(body)
    return body


def test_gpt_is_offered_functions_for_its_programs_and_the_tool_that_runs_them() -> None:
    tools = gpt(asked(tools=(*TOOLS[:1], CLOCK)))["tools"]

    assert [each.get("allowed_callers") for each in tools] == [["programmatic"], None, None]
    assert tools[-1] == {"type": "programmatic_tool_calling"}


@pytest.mark.parametrize("streamed", [True, False])
def test_gpts_program_goes_back_as_it_came_and_results_say_which_program_called(streamed: bool) -> None:
    wire = stream(PROGRAM, CALLED) if streamed else [response(PROGRAM, CALLED)]
    said = answered(messages_of(decoded(RESPONSES, wire, asked(tools=TOOLS))))

    program, called, result = gpt(asked(*asked().messages, *said, tools=TOOLS))["input"][1:]

    assert program == PROGRAM
    assert (called["call_id"], called["caller"]) == ("call_a", BY_PROGRAM)
    assert (result["type"], result["call_id"], result["caller"]) == ("function_call_output", "call_a", BY_PROGRAM)


async def test_each_call_of_gpts_program_is_approved_run_and_recorded_here() -> None:
    replies = [stream(PROGRAM, CALLED), stream(ENDED, message("All paid."))]
    person = Person()
    async with (
        serving(*(whole(sse(*each), kind="text/event-stream") for each in replies)) as server,
        create_llm(f"openai-responses:{GPT}", key="k" * 20, base_url=server.url) as llm,
        Session(llm, tools=[pay], approver=person, code="service") as session,
    ):
        reply = await session.ask_async("Pay.")
        assert session.proof.verify().ok

    assert (reply.text, person.asked) == ("All paid.", [{"cents": 1}])
    second = server.asked[1].json
    check_responses(second)
    assert second["input"][1] == PROGRAM
    assert second["input"][3]["caller"] == BY_PROGRAM


# ── everybody else ──

OTHERS: list[tuple[Codec, str]] = [
    (OpenAIChatCodec(), GPT),
    (GeminiCodec(), "gemini-2.5-flash"),
    (OllamaCodec(), "llama3.2"),
    (AnthropicCodec(), "claude-3-haiku"),
    (OpenAIResponsesCodec(), "gpt-5-mini"),
]


@pytest.mark.parametrize(("codec", "model"), OTHERS, ids=[codec.provider for codec, _ in OTHERS])
def test_a_service_that_runs_no_programs_is_offered_plain_tools_and_that_is_said(codec: Codec, model: str) -> None:
    with_programs = codec.encode(asked(tools=TOOLS), model, stream=True)
    without = codec.encode(asked(tools=(WEATHER, CLOCK)), model, stream=True)

    assert with_programs.body == without.body
    assert any("runs no programs" in notice for notice in with_programs.notices)


async def test_a_session_is_told_that_its_service_runs_no_programs() -> None:
    events: list[Event] = []

    async def note(event: Event) -> None:
        events.append(event)

    async with (
        serving(whole(sse(*stream(message("Hello."))), kind="text/event-stream")) as server,
        create_llm("openai-responses:gpt-5-mini", key="k" * 20, base_url=server.url) as llm,
        Session(llm, tools=[pay], code="service") as session,
    ):
        await session.ask_async("Pay.", on_event=note)

    assert any(isinstance(event, Notice) and "runs no programs" in event.text for event in events)
