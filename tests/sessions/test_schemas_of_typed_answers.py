"""The schema that a service holds a typed answer to is one that it takes, by the rules of its own SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from anthropic.lib._parse._transform import transform_schema
from openai.lib._pydantic import _ensure_strict_json_schema
from pydantic import BaseModel, Field

from handrail import Session, create_llm
from handrail.models.codec import WireRequest
from handrail.models.transport import Endpoint
from handrail.models.wire_events import WireEvent
from tests.sessions.test_create import WIRES
from tests.sessions.wire_replies import TEXTS

CLAUDE = "anthropic:claude-sonnet-4-5"
OPENAI = ["openai:gpt-4.1", "openai-responses:gpt-5"]


class Address(BaseModel):
    street: str = Field(min_length=1, max_length=80, description="With the number.")
    zip: str = Field(pattern=r"^\d{5}$")


class Person(BaseModel):
    name: str
    age: int = Field(ge=0, le=150)
    address: Address
    others: list[Address] = Field(default_factory=list, max_length=3)
    born: date | None = None


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


@dataclass
class City:
    name: str
    people: int = 0


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


HOME = {"street": "1 High Street", "zip": "12345"}
ADA = {"name": "Ada", "age": 36, "address": HOME, "others": [HOME], "born": "1815-12-10"}
ANSWERS: list[tuple[Any, Any]] = [
    (Person, ADA),
    (list[Person], {"value": [ADA]}),
    (City | Movie, {"value": {"title": "Alien", "year": 1979}}),
    (Owner, {"pet": {"kind": "dog", "tricks": ["sit"]}}),
    (Annotated[int, Field(ge=0, le=100)], {"value": 7}),
]


class Service:
    """A service that answers with JSON, and keeps the bodies of its requests."""

    def __init__(self, wire: str, answer: Any) -> None:
        written = json.dumps(json.dumps(answer))
        self._reply = json.loads(json.dumps(TEXTS[wire]).replace('"Hello"', written))
        self.bodies: list[dict[str, Any]] = []

    async def send(self, request: WireRequest, endpoint: Endpoint) -> AsyncGenerator[WireEvent, None]:
        self.bodies.append(json.loads(json.dumps(request.body, default=str)))
        yield WireEvent(self._reply)

    async def aclose(self) -> None:
        pass


def look(place: str) -> str:
    """Look at a place."""
    return place


def asked(model: str, returns: Any, answer: Any) -> tuple[Any, dict[str, Any]]:
    """The value of the answer, and the body of the only request for it."""
    service = Service(WIRES.get(model.partition(":")[0], "chat"), answer)
    with create_llm(model, key="k", transport=service, stream=False) as llm, Session(llm, tools=[look]) as session:
        value = session.ask("Which?", returns=returns).value
    (body,) = service.bodies
    return value, body


def without_types_of_literals(schema: Any) -> Any:
    """The schema without `type` beside `const` and `enum`, which says nothing there."""
    match schema:
        case dict():
            given = {key: without_types_of_literals(part) for key, part in schema.items()}
            return {key: part for key, part in given.items() if key != "type" or not {"const", "enum"} & given.keys()}
        case list():
            return [without_types_of_literals(part) for part in schema]
    return schema


def openai_form(body: dict[str, Any]) -> dict[str, Any]:
    form = body["text"]["format"] if "text" in body else body["response_format"]["json_schema"]
    assert isinstance(form, dict)
    return form


@pytest.mark.parametrize(("returns", "answer"), ANSWERS)
def test_claude_is_sent_a_schema_that_its_own_sdk_would_leave_as_it_is(returns: Any, answer: Any) -> None:
    _, body = asked(CLAUDE, returns, answer)

    schema = body["output_config"]["format"]["schema"]
    assert without_types_of_literals(transform_schema(schema)) == without_types_of_literals(schema)


@pytest.mark.parametrize(
    ("returns", "answer", "value"),
    [
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(value=1, children=[Tree(value=2)])),
        (tuple[int, str], {"value": [1, "a"]}, (1, "a")),
    ],
)
def test_claude_is_asked_in_words_for_what_it_cannot_be_held_to(returns: Any, answer: Any, value: Any) -> None:
    given, body = asked(CLAUDE, returns, answer)

    assert "output_config" not in body
    assert "Reply with JSON only" in json.dumps(body["system"])
    assert given == value


@pytest.mark.parametrize(("returns", "answer"), ANSWERS)
@pytest.mark.parametrize("model", OPENAI)
def test_openai_is_sent_a_strict_schema_that_its_own_sdk_would_leave_as_it_is(
    model: str, returns: Any, answer: Any
) -> None:
    _, body = asked(model, returns, answer)

    form = openai_form(body)
    assert form["strict"] is True
    assert _ensure_strict_json_schema(json.loads(json.dumps(form["schema"])), path=(), root={}) == form["schema"]


@pytest.mark.parametrize(
    ("returns", "answer", "value"),
    [
        (City, {"name": "Lisbon", "people": None}, City("Lisbon", 0)),
        (Movie, {"title": "Alien", "year": None}, {"title": "Alien"}),
        (list[City], {"value": [{"name": "Lisbon", "people": None}]}, [City("Lisbon")]),
        (Person, {**ADA, "others": None, "born": None}, Person(name="Ada", age=36, address=Address(**HOME))),
    ],
)
@pytest.mark.parametrize("model", OPENAI)
def test_null_in_a_strict_answer_stands_for_a_field_that_is_left_out(
    model: str, returns: Any, answer: Any, value: Any
) -> None:
    assert asked(model, returns, answer)[0] == value


@pytest.mark.parametrize("model", [CLAUDE, *OPENAI, "gemini:gemini-3-pro-preview"])
def test_limits_that_a_service_cannot_hold_to_are_told_in_words(model: str) -> None:
    _, body = asked(model, Person, ADA)

    assert r"With the number. Limits: {\"maxLength\":80,\"minLength\":1}." in json.dumps(body)
