"""What type checkers know of dependencies: mypy reads this with `make check`, and running it shows that it holds.

Each `type: ignore` stands where a checker refuses what is wrong; one that is not needed any more fails the check.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, assert_type

import pytest

from handrail import Agent, Ensemble, Invocation, Session, Tool, tool
from handrail.core.dependencies import Deps
from handrail.core.errors import UsageError
from handrail.testing import ScriptedModel, invocation, text
from handrail.tools import ToolLike


@dataclass
class Shop:
    name: str


@dataclass
class Market(Shop):
    stalls: int = 3


class Library:
    pass


class HasName(Protocol):
    @property
    def name(self) -> str: ...


@tool
def tell(invocation: Invocation[Shop], times: int = 1) -> str:
    return assert_type(invocation.deps, Shop).name * times


@tool(timeout=3)
async def tell_later(invocation: Invocation[HasName]) -> str:
    return assert_type(invocation.deps.name, str)


@tool
def borrow(invocation: Invocation[Library], title: str) -> str:
    return title


@tool
def last(times: int, invocation: Invocation[Shop]) -> str:
    return invocation.deps.name * times


@tool
def plain(times: int) -> int:
    return times


@tool
def anything(value: Any) -> str:
    return str(value)


def function(times: int) -> int:
    return times


def model() -> ScriptedModel:
    return ScriptedModel(*[[text("Hello.")]] * 3)


def needed(tool: Tool[Deps]) -> type[Deps]:
    found: type[Deps] = tool.deps_type
    return found


def test_a_tool_says_what_it_needs() -> None:
    assert assert_type(needed(tell), type[Shop]) is Shop
    assert assert_type(needed(tell_later), type[HasName]) is HasName
    assert needed(last) is Shop  # a checker follows the first parameter, and takes this for a tool of anything
    assert needed(plain) is None
    assert needed(anything) is None
    assert tell(invocation(Shop("A")), times=2) == "AA"
    assert_type(invocation(Shop("A")), Invocation[Shop])


def test_a_session_says_what_it_gives() -> None:
    with Session(model(), tools=[tell, tell_later, last, plain, anything], deps=Shop("A")) as session:
        assert_type(session, Session[Shop])
        assert_type(session.fork(), Session[Shop])
        session.ask("?", deps=Market("B"))
    with Session(
        model(), tools=[tell, function, partial(last.handler, times=1), Ensemble("group")], deps=Market("A")
    ) as market:
        assert_type(market, Session[Market])
    with Session(model(), tools=[plain, tell], deps=Shop("A")) as second:
        assert_type(second, Session[Shop])
    with Session(model(), tools=[plain, function]) as none:
        assert_type(none, Session[None])


def test_so_does_one_that_gets_them_with_each_prompt() -> None:
    with Session(model(), tools=[tell, tell_later], deps_type=Shop) as session:
        assert_type(session, Session[Shop])
        session.ask("?", deps=Market("B"))
    with Session(Agent(model(), name="desk", tools=[tell]), deps_type=Shop) as desk:
        assert_type(desk, Session[Shop])
        desk.ask("?", deps=Market("B"))


def made() -> Session:
    """A session of anything, as programs write that do not use dependencies."""
    return Session(model(), tools=[plain])


def of_shops(*tools: ToolLike[Shop]) -> Session[Shop]:
    return Session(model(), tools=tools, deps=Shop("A"))


def test_lists_of_tools_say_it_too() -> None:
    both: list[ToolLike[Shop]] = [tell, tell_later, function]
    with Session(model(), tools=both, deps=Shop("A")), of_shops(tell, plain, function), made():
        pass


def test_a_checker_refuses_what_the_session_refuses() -> None:
    with pytest.raises(UsageError):
        Session(model(), tools=[tell])  # type: ignore[list-item]
    with pytest.raises(UsageError):
        Session(model(), tools=[tell, borrow], deps=Shop("A"))  # type: ignore[list-item]
    with pytest.raises(UsageError):
        of_shops(borrow)  # type: ignore[arg-type]
    with Session(model(), tools=[tell], deps=Shop("A")) as session:
        with pytest.raises(UsageError):
            session.ask("?", deps=Library())  # type: ignore[call-overload]
        with pytest.raises(UsageError), session.override(deps=Library()):  # type: ignore[arg-type]
            session.ask("?")
