"""A scripted model gives a typed answer as it is asked for one, and says why it was asked once more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from handrail import Session, tool
from handrail.errors import ModelError
from handrail.testing import ScriptedModel, answer, call


@dataclass(frozen=True)
class City:
    name: str
    founded: date | None = None


class Person(BaseModel):
    name: str = Field(alias="fullName")
    home: City


@tool
def look(place: str) -> str:
    """Look at a place."""
    return place


LISBON = City("Lisbon", date(1147, 10, 25))
VALUES: list[tuple[Any, Any]] = [
    (City, LISBON),
    (list[City], [LISBON]),
    (City | int, 7),
    (City | int, LISBON),
    (dict[str, City], {"home": LISBON}),
    (Literal["a", "b"], "a"),
    (date, date(2026, 1, 2)),
    (int | None, None),
    (str, "Hello."),
    (Person, Person(fullName="Ada", home=LISBON)),
]


@pytest.mark.parametrize("tools", [(), (look,)], ids=["alone", "beside a tool"])
@pytest.mark.parametrize("holds_schema", [False, True], ids=["by a call", "by the schema"])
@pytest.mark.parametrize(("returns", "value"), VALUES)
def test_a_scripted_answer_is_the_value_that_the_program_gets(
    returns: Any, value: Any, holds_schema: bool, tools: Any
) -> None:
    with Session(ScriptedModel([answer(value)], holds_schema=holds_schema), tools=tools) as session:
        assert session.ask("Which?", returns=returns).value == value


def test_a_scripted_answer_may_be_json_which_is_checked_as_any_other() -> None:
    with Session(ScriptedModel([answer({"name": 7})], [answer({"name": "Lisbon"})])) as session:
        assert session.ask("Which?", returns=City).value == City("Lisbon")


def test_a_script_that_is_too_short_says_what_the_model_was_told_last() -> None:
    with (
        Session(ScriptedModel([call("final_answer", town="Lisbon")])) as session,
        pytest.raises(ModelError, match=r"1 replies and .* one more; it was told last: final_answer.*'town'"),
    ):
        session.ask("Which?", returns=City)
