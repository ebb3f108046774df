"""Types of every sort that the tests of schemas and converters share. Not tests themselves."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from datetime import date
from enum import Enum, IntEnum
from typing import Annotated, Dict, Generic, List, NamedTuple, NewType, NotRequired, TypedDict, TypeVar, Union  # noqa: UP035

import msgspec
import pydantic
from typing_extensions import TypeAliasType

T = TypeVar("T")
Bounded = TypeVar("Bounded", bound=int)
UserId = NewType("UserId", int)
Json = Union[Dict[str, "Json"], List["Json"], str, float, bool, None]  # noqa: UP006, UP007 - the old recursive spelling
Nested = TypeAliasType("Nested", "list[Nested] | date")


class Colour(Enum):
    """What it looks like."""

    RED = "red"
    SEVEN = 7


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Point:
    x: float
    y: float = 0.0


@dataclass
class Tree:
    """A tree of numbers.

    Attributes:
        value: What the node holds.
    """

    value: int
    children: list[Tree] = field(default_factory=list)
    made: str = field(default="by hand", init=False)


@dataclass
class Scaled:
    size: int = field(init=False)
    factor: InitVar[int] = 1

    def __post_init__(self, factor: int) -> None:
        self.size = 10 * factor


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class IntBox(Box[int]):
    label: str = ""


@dataclass
class Holder:
    value: Json


class Movie(TypedDict):
    title: str
    year: NotRequired[Annotated[int, msgspec.Meta(ge=1888)]]


class Partial(TypedDict, total=False):
    seen: set[str]


class Span(NamedTuple):
    start: int
    end: int = -1


class Cat(msgspec.Struct, tag="cat"):
    lives: int = msgspec.field(default=9, name="livesLeft")


class Dog(msgspec.Struct, tag="dog"):
    friend: Cat | None = None


class Address(pydantic.BaseModel):
    street: str


class Person(pydantic.BaseModel):
    name: str
    home: Address
    work: Address | None = None


class Folder(pydantic.BaseModel):
    name: str
    folders: list[Folder] = []


class Opaque:
    """A class that JSON knows nothing of."""
