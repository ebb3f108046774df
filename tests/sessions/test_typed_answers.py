"""A typed answer is a value of the type asked for, whatever the type and the service, or an error says why not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict
from uuid import UUID

import msgspec
import pytest
from pydantic import BaseModel, RootModel, field_validator, model_validator

from handrail import LLM, Limits, Session, tool
from handrail.core.messages import AssistantMessage, SupervisorMessage
from handrail.core.model_request import NamedTool
from handrail.errors import InvalidAnswer, InvalidDefinition, LimitExceeded, UsageError
from handrail.events import CallSettled, Event, Notice
from handrail.testing import ScriptedModel, answer, call, text


@dataclass(frozen=True)
class City:
    """A city."""

    name: str
    founded: date | None = None
    people: int = 0


class Town(msgspec.Struct, frozen=True):
    name: str
    people: int


class Village(TypedDict):
    name: str
    people: int


class Hamlet(BaseModel):
    name: str
    people: int

    @field_validator("people")
    @classmethod
    def few(cls, people: int) -> int:
        if people > 100:
            raise ValueError("a hamlet has at most 100 people")
        return people


@dataclass(frozen=True)
class Unknown:
    why: str


LISBON = {"name": "Lisbon", "people": 545_000}

TYPES: list[tuple[Any, Any, Any]] = [
    (City, {"name": "Lisbon", "founded": "1147-10-25"}, City("Lisbon", date(1147, 10, 25))),
    (Town, LISBON, Town("Lisbon", 545_000)),
    (Village, LISBON, LISBON),
    (Hamlet, {"name": "Foo", "people": 12}, Hamlet(name="Foo", people=12)),
    (City | Unknown, {"value": {"why": "no idea"}}, Unknown("no idea")),
    (City | Unknown, {"value": {"name": "Lisbon"}}, City("Lisbon")),
    (City | None, {"value": None}, None),
    (list[City], {"value": [{"name": "Lisbon"}, {"name": "Porto"}]}, [City("Lisbon"), City("Porto")]),
    (dict[str, int], {"Lisbon": 545_000}, {"Lisbon": 545_000}),
    (int, {"value": 7}, 7),
    (bool, {"value": True}, True),
    (date, {"value": "2026-11-16"}, date(2026, 11, 16)),
    (Literal["yes", "no"], {"value": "yes"}, "yes"),
    (tuple[int, str], {"value": [1, "a"]}, (1, "a")),
    (Annotated[str, msgspec.Meta(max_length=3)], {"value": "abc"}, "abc"),
]


WRONG_TYPES: list[tuple[Any, type[Exception], str]] = [
    (Session, InvalidDefinition, "no JSON form"),
    ({"type": "object"}, UsageError, "response_schema"),
]


def by_tool(answer: Any) -> ScriptedModel:
    return ScriptedModel([call("final_answer", **answer)])


def by_schema(answer: Any) -> ScriptedModel:
    return ScriptedModel([text(json.dumps(answer))], holds_schema=True)


@pytest.mark.parametrize("model", [by_tool, by_schema])
@pytest.mark.parametrize(("returns", "given", "value"), TYPES)
def test_an_answer_is_a_value_of_the_type_asked_for(
    model: Callable[[Any], ScriptedModel], returns: Any, given: Any, value: Any
) -> None:
    with Session(model(given)) as session:
        reply = session.ask("Which city?", returns=returns)

    assert reply.value == value
    assert type(reply.value) is type(value)
    assert json.loads(reply.text) == given
    assert reply.results == ()


def test_without_a_type_and_for_text_the_value_is_what_the_model_said() -> None:
    model = ScriptedModel([text("Lisbon.")], [text("Porto.")])
    with Session(model) as session:
        assert session.ask("Which city?").value == "Lisbon."
        assert session.ask("And then?", returns=str).value == "Porto."

    assert [request.tools for request in model.requests] == [(), ()]


def test_a_service_with_schemas_for_replies_is_asked_by_one_and_any_other_by_a_tool() -> None:
    held, other = by_schema(LISBON), by_tool(LISBON)
    for model in (held, other):
        with Session(model) as session:
            session.ask("Which city?", returns=Town)

    schema = held.requests[0].response_schema
    assert schema is not None and schema["required"] == ["name", "people"]
    assert held.requests[0].tools == ()
    assert other.requests[0].response_schema is None
    (offer,) = other.requests[0].tools
    assert (offer.name, offer.input_schema) == ("final_answer", schema)
    assert other.requests[0].tool_choice == NamedTool("final_answer")


def test_an_answer_that_does_not_fit_goes_back_to_the_model_with_every_reason() -> None:
    wrong = {"name": 5, "people": "many"}
    model = ScriptedModel([text(json.dumps(wrong))], [text(json.dumps(LISBON))], holds_schema=True)
    seen: list[Event] = []
    with Session(model) as session:
        assert session.ask("Which?", returns=Town, on_event=seen.append).value == Town("Lisbon", 545_000)

    told = model.requests[1].messages[-1]
    assert isinstance(told, SupervisorMessage)
    assert "name: expected string" in told.text and "people: expected integer" in told.text
    assert any(isinstance(event, Notice) and "answer 1 was refused" in event.text for event in seen)


def test_a_call_that_does_not_fit_is_answered_with_every_reason_and_is_on_record(tmp_path: Path) -> None:
    model = ScriptedModel([call("final_answer", name=5)], [call("final_answer", **LISBON)])
    seen: list[Event] = []
    with Session(model, journal=tmp_path / "journal.db") as session:
        reply = session.ask("Which?", returns=Town, on_event=seen.append)
        assert session.proof.verify().ok

    assert reply.value == Town("Lisbon", 545_000)
    settled = [event for event in seen if isinstance(event, CallSettled)]
    assert [(event.tool, event.outcome, event.ran) for event in settled] == [
        ("final_answer", "invalid_arguments", False),
        ("final_answer", "ok", False),
    ]
    assert settled[0].result is not None
    assert "missing required 'people'; name: expected string" in settled[0].result.text


def test_what_a_type_refuses_itself_goes_back_to_the_model_too() -> None:
    model = ScriptedModel([call("final_answer", **LISBON)], [call("final_answer", name="Foo", people=3)])
    with Session(model) as session:
        assert session.ask("Which?", returns=Hamlet).value.people == 3

    assert "at most 100 people" in str(model.requests[1].messages[-1])


@pytest.mark.parametrize("holds", [True, False])
def test_after_as_many_wrong_answers_as_the_limit_an_error_says_what_was_wrong(holds: bool) -> None:
    replies = [[text('{"name": 5}')] if holds else [call("final_answer", name=5)] for _ in range(5)]
    model = ScriptedModel(*replies, holds_schema=holds)
    with Session(model, limits=Limits(wrong_answers=2)) as session:
        with pytest.raises(InvalidAnswer, match="2 times") as raised:
            session.ask("Which?", returns=Town)
        assert len(session.conversation) == 0  # nothing was done, so the prompt is taken back

    assert len(model.requests) == 2
    assert json.loads(raised.value.text) == {"name": 5}
    assert any("name" in problem for problem in raised.value.problems)


def test_a_model_that_refuses_is_not_asked_again() -> None:
    from handrail.core.events import ReplyFinished

    model = ScriptedModel([text("I cannot help."), ReplyFinished(stop="refusal")], holds_schema=True)
    with Session(model) as session, pytest.raises(InvalidAnswer, match=r"it refused to answer: I cannot help\."):
        session.ask("Which?", returns=Town)
    assert len(model.requests) == 1


@tool
def find(name: str) -> str:
    """Find a city."""
    return f"{name} has 545000 people"


def test_tools_are_called_first_and_the_answer_is_taken_after_their_results() -> None:
    model = ScriptedModel([call("find", name="Lisbon")], [call("final_answer", **LISBON)], [text("Welcome.")])
    with Session(model, tools=[find]) as session:
        reply = session.ask("How many?", returns=Town)
        assert session.ask("Thanks.").value == "Welcome."

    assert [result.name for result in reply.results] == ["find"]
    assert reply.value.people == 545_000
    assert [[offer.name for offer in request.tools] for request in model.requests] == [
        ["find", "final_answer"],
        ["find", "final_answer"],
        ["find"],
    ]


def test_an_answer_beside_other_calls_is_refused_until_their_results_are_known() -> None:
    model = ScriptedModel(
        [call("final_answer", name="Lisbon", people=1), call("find", name="Lisbon")], [call("final_answer", **LISBON)]
    )
    with Session(model, tools=[find]) as session:
        reply = session.ask("How many?", returns=Town)

    assert reply.value.people == 545_000
    assert [result.content for result in reply.results] == ["Lisbon has 545000 people"]
    names = [message.result.name for message in reply.conversation.messages if hasattr(message, "result")]
    assert names == ["final_answer", "find", "final_answer"]


def test_of_two_answers_in_one_reply_the_first_that_fits_is_taken() -> None:
    model = ScriptedModel(
        [call("final_answer", name=5), call("final_answer", **LISBON), call("final_answer", **LISBON)]
    )
    with Session(model) as session:
        reply = session.ask("Which?", returns=Town)

    assert reply.value == Town("Lisbon", 545_000)
    outcomes = [message.result.outcome for message in reply.conversation.messages if hasattr(message, "result")]
    assert outcomes == ["invalid_arguments", "ok", "limit"]


def test_a_model_that_answers_in_words_is_told_to_call_and_json_in_words_is_taken() -> None:
    model = ScriptedModel([text("It is Lisbon.")], [text("```json\n" + json.dumps(LISBON) + "\n```")])
    with Session(model, tools=[find]) as session:
        assert session.ask("Which?", returns=Town).value == Town("Lisbon", 545_000)

    assert [request.tool_choice for request in model.requests] == ["auto", NamedTool("final_answer")]
    assert "final_answer" in str(model.requests[1].messages[-1])


def test_a_refused_answer_is_no_failed_tool() -> None:
    model = ScriptedModel([call("final_answer", name=5)], [call("final_answer", **LISBON)])
    with Session(model, on_error="fail_fast") as session:
        assert session.ask("Which?", returns=Town).value.name == "Lisbon"


@pytest.mark.parametrize("choice", ["none", "required", "find"])
def test_a_choice_of_tools_is_for_the_first_reply_here_too(choice: str) -> None:
    first = [text("Lisbon.")] if choice == "none" else [call("find", name="Lisbon")]
    model = ScriptedModel(first, [call("final_answer", **LISBON)])
    with Session(model, tools=[find]) as session:
        assert session.ask("Which?", returns=Town, tool_choice=choice).value.name == "Lisbon"
    assert model.requests[0].tool_choice == (NamedTool("find") if choice == "find" else choice)
    assert model.requests[1].tool_choice == (NamedTool("final_answer") if choice == "none" else "auto")


def test_a_tool_of_the_same_name_keeps_it() -> None:
    @tool
    def final_answer(to: str) -> str:
        """Say something at the end."""
        return "the end"

    model = ScriptedModel([call("final_answer", to="you")], [call("final_answer")], [call("final_answer_2", **LISBON)])
    with Session(model, tools=[final_answer]) as session:
        reply = session.ask("Which?", returns=Town)
    assert [result.outcome for result in reply.results] == ["ok", "invalid_arguments"]
    assert reply.value.name == "Lisbon"


def test_at_the_limit_of_turns_only_the_answer_is_asked_for() -> None:
    model = ScriptedModel([call("find", name="A")], [call("final_answer", **LISBON)])
    with Session(model, tools=[find], limits=Limits(iterations=1)) as session:
        assert session.ask("Which?", returns=Town).value.name == "Lisbon"
    assert model.requests[1].tool_choice == NamedTool("final_answer")

    for on_limit in ("stop", "error"):
        model = ScriptedModel([call("find", name="A")])
        limits = Limits(iterations=1, on_limit=on_limit)
        with Session(model, tools=[find], limits=limits) as session, pytest.raises(LimitExceeded):
            session.ask("Which?", returns=Town)


def test_at_the_limit_of_turns_a_model_that_goes_on_calling_is_not_obeyed() -> None:
    model = ScriptedModel([call("find", name="A")], [call("find", name="B")])
    with Session(model, tools=[find], limits=Limits(iterations=1)) as session:
        with pytest.raises(LimitExceeded):
            session.ask("Which?", returns=Town)
        outcomes = [each.result.outcome for each in session.conversation.messages if hasattr(each, "result")]
    assert outcomes == ["ok", "cancelled"]


def test_the_last_answer_in_words_can_be_asked_for_again_as_a_type() -> None:
    model = ScriptedModel([text("Lisbon, with 545000 people.")], [call("final_answer", **LISBON)])
    with Session(model) as session:
        session.ask("Which city?")
        assert session.ask(returns=Town).value == Town("Lisbon", 545_000)


def test_a_reply_by_the_schema_of_the_model_is_checked_and_asked_for_again() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    model = ScriptedModel([text("Lisbon")], [text('{"name": "Lisbon"}')], [text("no")], [text("no")], [text("no")])
    with Session(LLM(model, response_schema=schema), tools=[find]) as session:
        reply = session.ask("Which?")
        assert (reply.text, reply.value) == ('{"name": "Lisbon"}', '{"name": "Lisbon"}')
        with pytest.raises(InvalidAnswer):
            session.ask("Which?")

    assert all(request.response_schema == schema for request in model.requests)
    assert all([offer.name for offer in request.tools] == ["find"] for request in model.requests)


def test_one_question_with_a_schema_is_checked() -> None:
    schema = {"type": "object", "required": ["name"]}
    llm = LLM(ScriptedModel([text('{"name": 1}')], [text("Lisbon")]), response_schema=schema)
    assert llm.generate("Which?") == '{"name": 1}'
    with pytest.raises(InvalidAnswer, match="not JSON"):
        llm.generate("Which?")
    llm.close()


def test_a_type_without_json_and_a_schema_in_the_place_of_a_type_are_refused_at_once() -> None:
    with Session(ScriptedModel()) as session:
        for returns, error, words in WRONG_TYPES:
            with pytest.raises(error, match=words):
                session.ask("Which?", returns=returns)
        assert len(session.conversation) == 0


def test_what_the_program_does_to_a_value_leaves_the_conversation_as_it_was() -> None:
    with Session(by_tool({"value": [[1]]})) as session:
        reply = session.ask("Which?", returns=list[list[int]])
        reply.value[0].append(2)
        assert json.loads(reply.text) == {"value": [[1]]}
    assert isinstance(reply.conversation.messages[1], AssistantMessage)


@pytest.mark.parametrize(
    ("kind", "wrong", "words"),
    [
        (date, "2026-13-01", "'2026-13-01' is not a date: "),
        (datetime, "yesterday", "'yesterday' is not a date with time: "),
        (time, "25:00", "'25:00' is not a time: "),
        (UUID, "17", "'17' is not a UUID: "),
    ],
)
def test_the_model_reads_which_value_it_was_that_no_type_takes(kind: Any, wrong: str, words: str) -> None:
    model = ScriptedModel([call("final_answer", value=wrong)])
    with Session(model, limits=Limits(wrong_answers=1)) as session, pytest.raises(InvalidAnswer) as refused:
        session.ask("When?", returns=kind)
    assert words in refused.value.problems[0]


def test_what_a_pydantic_model_refuses_is_told_in_plain_words() -> None:
    class Range(BaseModel):
        low: int
        high: int

        @model_validator(mode="after")
        def check(self) -> Range:
            if self.low > self.high:
                raise ValueError("low must not exceed high")
            return self

    wrong = ScriptedModel([answer({"low": 3, "high": 1})])
    with Session(wrong, limits=Limits(wrong_answers=1)) as session, pytest.raises(InvalidAnswer) as raised:
        session.ask("Which?", returns=Range)
    assert raised.value.problems == ("invalid_arguments: (answer): low must not exceed high",)

    wrong = ScriptedModel([answer([{"low": 3, "high": 4}, {"low": 3, "high": 1}])])
    with Session(wrong, limits=Limits(wrong_answers=1)) as session, pytest.raises(InvalidAnswer) as raised:
        session.ask("Which?", returns=RootModel[list[Range]])
    assert raised.value.problems == ("invalid_arguments: value: 1: low must not exceed high",)
