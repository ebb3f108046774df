"""Whether what a program gives its tools is of the type that a tool says: refused only where that is certain."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, Generic, Literal, NewType, Protocol, TypedDict, TypeVar
from unittest.mock import Mock

import pytest

from handrail.core.dependencies import fits, type_fits, type_name

T = TypeVar("T")
Bound = TypeVar("Bound", bound=int)
UserId = NewType("UserId", str)


class Named(Protocol):
    name: str

    def greet(self) -> str: ...


class Lazy:
    def greet(self) -> str:
        return "hello"

    @property
    def name(self) -> str:
        raise AssertionError("nobody asked for the name")


class Settings(TypedDict):
    url: str


class Box(Generic[T]):
    pass


@dataclass
class Cat:
    name: str

    def greet(self) -> str:
        return "meow"


@dataclass
class Kitten(Cat):
    pass


class Passing:
    """Stands for another object, as proxies of web frameworks do."""

    def __init__(self, to: Any) -> None:
        self._to = to

    def __getattr__(self, name: str) -> Any:
        return getattr(self._to, name)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (Kitten("Tom"), Cat),
        (Cat("Tom"), Named),
        (Lazy(), Named),
        (Passing(Cat("Tom")), Named),
        (SimpleNamespace(name="Tom", greet=print), Named),
        (Mock(spec=Cat), Cat),
        (None, None),
        (None, Cat | None),
        (3, Cat | int),
        (3, Annotated[int, "how many"]),
        (Box(), Box[int]),
        ({"url": "…"}, dict[str, str]),
        ({"url": "…"}, Settings),
        ("ada", UserId),
        (3, Bound),
        (object(), T),
        (object(), Any),
        (object(), object),
        (object(), Literal["a"]),
        (Cat, type[Cat]),
    ],
)
def test_what_may_be_of_the_type_is_taken(value: Any, hint: Any) -> None:
    assert fits(value, hint)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (Cat("Tom"), Kitten),
        (None, Cat),
        (object(), Named),
        (SimpleNamespace(name="Tom"), Named),
        (SimpleNamespace(greet=print), Named),
        ("3", Cat | int),
        ("3", Annotated[int, "how many"]),
        ([], dict[str, str]),
        ({}, Settings),
        (None, Settings),
        (3, UserId),
        ("3", Bound),
        (Cat("Tom"), type[Cat]),
    ],
)
def test_what_is_certainly_of_another_is_not(value: Any, hint: Any) -> None:
    assert not fits(value, hint)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (Kitten, Cat),
        (Kitten | None, Cat | int),
        (Lazy, Named),
        (Named, Cat),
        (dict[str, str], Settings),
        (Any, Cat),
        (Box[int], Box[str]),
        (UserId, str),
        (T, Cat),
    ],
)
def test_a_type_whose_values_may_be_of_another_is_taken(given: Any, hint: Any) -> None:
    assert type_fits(given, hint)


@pytest.mark.parametrize(("given", "hint"), [(Cat, Kitten), (int | None, Cat), (dict[str, str], Cat), (UserId, int)])
def test_a_type_whose_values_are_certainly_of_none_is_not(given: Any, hint: Any) -> None:
    assert not type_fits(given, hint)


def test_a_type_is_named_as_it_is_written() -> None:
    assert [type_name(each) for each in (Cat, Cat | None, dict[str, int], UserId)] == [
        "Cat",
        "Cat | None",
        "dict[str, int]",
        f"{__name__}.UserId",
    ]
    assert type_name(functools.partial) == "partial"
