"""What type checkers know of a typed answer: mypy reads this with `make check`, and running it shows that it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict, assert_type

import msgspec
from pydantic import BaseModel

from handrail import Session
from handrail.run import answer_of
from handrail.sessions import SessionReply
from handrail.testing import ScriptedModel, call, text


@dataclass(frozen=True)
class City:
    name: str


class Town(msgspec.Struct, frozen=True):
    name: str


class Village(TypedDict):
    name: str


class Hamlet(BaseModel):
    name: str


def gives(**answer: Any) -> Session:
    return Session(ScriptedModel([call("final_answer", **answer)]))


def test_the_value_has_the_type_that_was_asked_for() -> None:
    assert assert_type(gives(name="A").ask("?", returns=City).value, City) == City("A")
    assert assert_type(gives(name="A").ask("?", returns=Town).value, Town) == Town("A")
    assert assert_type(gives(name="A").ask("?", returns=Village).value, Village) == {"name": "A"}
    assert assert_type(gives(name="A").ask("?", returns=Hamlet).value, Hamlet) == Hamlet(name="A")
    assert assert_type(gives(value=1).ask("?", returns=int).value, int) == 1


def test_so_have_lists_and_unions() -> None:
    cities = gives(value=[{"name": "A"}]).ask("?", returns=list[City])
    assert assert_type(cities, SessionReply[list[City]]).value == [City("A")]
    assert assert_type(gives(value=None).ask("?", returns=City | None).value, City | None) is None
    either = gives(value={"name": "A"}).ask("?", returns=City | Town)
    assert assert_type(either.value, City | Town) == City("A")
    assert assert_type(answer_of(either.conversation, City | Town), City | Town) == City("A")


async def test_without_a_type_it_is_text() -> None:
    async with Session(ScriptedModel([text("A")], [call("final_answer", name="A")])) as session:
        assert assert_type((await session.ask_async("?")).value, str) == "A"
        assert assert_type((await session.ask_async("?", returns=City)).value, City) == City("A")
