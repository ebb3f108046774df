"""A function says what it takes; what cannot be passed by name is refused."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import pytest
from inline_snapshot import snapshot

from handrail.core.calls import Output, ToolResult
from handrail.core.errors import InvalidDefinition
from handrail.core.invocation import Invocation
from handrail.core.redact import Secret
from handrail.tools.schema.validator import Validator
from handrail.tools.types.signature import FunctionShape, read_function
from tests.tools.types import type_samples

if TYPE_CHECKING:
    from fractions import Fraction as OnlyWhenChecking


def get_weather(
    location: str,
    when: date | None = None,
    *,
    days: Annotated[int, "How many days."] = 1,
    near: list[type_samples.Point] = [],  # noqa: B006 - it is only read
) -> dict[str, float]:
    """Get the weather for a place.

    Args:
        location: City and country.
        when: The first day.
        days: Not these words.

    Returns:
        Degrees by day.
    """
    raise NotImplementedError


def takes_nothing() -> None:
    raise NotImplementedError


@pytest.mark.requirement("abstractllm.from-function")
def test_a_function_gives_name_words_and_schemas() -> None:
    shape = read_function(get_weather)
    assert (shape.name, shape.description) == ("get_weather", "Get the weather for a place.")
    assert shape.input_schema == snapshot(
        {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "City and country."},
                "when": {
                    "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
                    "description": "The first day.",
                    "default": None,
                },
                "days": {"type": "integer", "description": "How many days.", "default": 1},
                "near": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"x": {"type": "number"}, "y": {"type": "number", "default": 0.0}},
                        "required": ["x"],
                        "additionalProperties": False,
                    },
                    "default": [],
                },
            },
            "required": ["location"],
            "additionalProperties": False,
        }
    )
    assert shape.output_schema == {"type": "object", "additionalProperties": {"type": "number"}}
    assert set(shape.converters) == {"when", "days", "near"}
    assert shape.injected is None


@pytest.mark.requirement("abstractllm.from-function")
def test_a_function_without_words_or_parameters_has_a_fallback() -> None:
    assert read_function(takes_nothing) == FunctionShape(
        name="takes_nothing",
        description="Function takes_nothing",
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        output_schema={"type": "null"},
    )


@pytest.mark.requirement("abstractllm.types")
def test_validated_arguments_arrive_as_the_types_of_the_parameters() -> None:
    shape = read_function(get_weather)
    arguments = {"location": "Lisbon", "when": "2025-01-31", "days": 2.0, "near": [{"x": 1}]}
    assert Validator(shape.input_schema, "get_weather").problems(arguments) == []
    made = {name: shape.converters.get(name, lambda value: value)(value) for name, value in arguments.items()}
    assert made == {"location": "Lisbon", "when": date(2025, 1, 31), "days": 2, "near": [type_samples.Point(1.0)]}


def test_the_parameter_for_the_invocation_is_hidden() -> None:
    def plain(a: int, invocation: Invocation) -> None:
        raise NotImplementedError

    def optional(a: int, call: Annotated[Invocation | None, "mine"] = None) -> None:
        raise NotImplementedError

    for function, name in ((plain, "invocation"), (optional, "call")):
        shape = read_function(function)
        assert shape.injected == name
        assert set(shape.input_schema["properties"]) == {"a"}


def test_two_parameters_for_the_invocation_are_refused() -> None:
    def both(first: Invocation, second: Invocation) -> None:
        raise NotImplementedError

    with pytest.raises(InvalidDefinition, match=r"'second' of 'both'.*'first'"):
        read_function(both)


def test_keywords_take_extra_arguments_of_their_type() -> None:
    def tag(name: str, **tags: date) -> None:
        raise NotImplementedError

    def anything(name: str, **more: Any) -> None:
        raise NotImplementedError

    shape = read_function(tag)
    assert shape.input_schema["additionalProperties"] == {"type": "string", "format": "date"}
    assert shape.extra_converter is not None
    assert shape.extra_converter("2025-01-31") == date(2025, 1, 31)
    assert read_function(anything).input_schema["additionalProperties"] is True


def test_extra_arguments_cannot_set_what_is_hidden() -> None:
    def send(text: str, key: str, invocation: Invocation, **more: Any) -> None:
        raise NotImplementedError

    shape = read_function(functools.partial(send, key="k"))
    validator = Validator(shape.input_schema, "send")
    assert validator.problems({"text": "t", "other": 1}) == []
    assert validator.problems({"text": "t", "invocation": 1})
    assert validator.problems({"text": "t", "key": "mine"})


class Options(TypedDict, total=False):
    day: date


def test_unpacked_keywords_are_parameters() -> None:
    def go(**options: Unpack[Options]) -> None:
        raise NotImplementedError

    shape = read_function(go)
    assert shape.input_schema["properties"] == {"day": {"type": "string", "format": "date"}}
    assert set(shape.converters) == {"day"}
    assert shape.input_schema["additionalProperties"] is False


def test_a_parameter_without_a_hint_takes_values_like_its_default() -> None:
    def loose(a, b=1, c=None, d=type_samples.Opaque()):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    shape = read_function(loose)
    assert shape.input_schema["properties"] == {
        "a": {},
        "b": {"type": "integer", "default": 1},
        "c": {"default": None},
        "d": {},
    }
    assert shape.input_schema["required"] == ["a"]
    assert shape.output_schema is None


def positional(a: int, /, b: int) -> None:
    raise NotImplementedError


def starred(*numbers: int) -> None:
    raise NotImplementedError


def opaque(thing: type_samples.Opaque) -> None:
    raise NotImplementedError


def unresolved(thing: OnlyWhenChecking) -> None:
    raise NotImplementedError


def misspelt(thing: type_samples.Missing) -> None:  # type: ignore[name-defined]
    raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (positional, "'a' of 'positional'.*by name"),
        (starred, "'numbers' of 'starred'.*by name"),
        (opaque, "'thing' of 'opaque'.*'Opaque'"),
        (unresolved, "'thing' of 'unresolved'.*OnlyWhenChecking"),
        (misspelt, "'thing' of 'misspelt'.*Missing"),
        (type_samples.Point, "class"),
        (dict.fromkeys, "by name"),
        (3, "signature"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_the_reason(function: Any, words: str) -> None:
    with pytest.raises(InvalidDefinition, match=words):
        read_function(function)


class Desk:
    """Where things are filed."""

    def file(self, paper: str) -> str:
        """File a paper."""
        raise NotImplementedError

    @classmethod
    def made(cls, size: int) -> None:
        raise NotImplementedError

    @staticmethod
    def clean(hard: bool) -> None:
        raise NotImplementedError

    def __call__(self, question: str) -> str:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("function", "name", "description", "parameter"),
    [
        (Desk().file, "file", "File a paper.", "paper"),
        (Desk.file, "file", "File a paper.", "paper"),
        (Desk.made, "made", "Function made", "size"),
        (Desk.__dict__["made"], "made", "Function made", "size"),
        (Desk.clean, "clean", "Function clean", "hard"),
        (Desk.__dict__["clean"], "clean", "Function clean", "hard"),
        (Desk(), "Desk", "Where things are filed.", "question"),
        (functools.partial(Desk()), "Desk", "Where things are filed.", "question"),
    ],
)
def test_methods_and_callable_instances_work(
    function: Callable[..., Any], name: str, description: str, parameter: str
) -> None:
    shape = read_function(function)
    assert (shape.name, shape.description, list(shape.input_schema["properties"])) == (name, description, [parameter])


def test_what_a_partial_has_fixed_is_hidden() -> None:
    shape = read_function(functools.partial(functools.partial(get_weather, "Lisbon"), days=3))
    assert shape.name == "get_weather"
    assert set(shape.input_schema["properties"]) == {"when", "near"}


def test_a_wrapped_function_is_read_as_the_one_inside() -> None:
    @functools.wraps(get_weather)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    outer, inner = read_function(wrapper), read_function(get_weather)
    assert (outer.name, outer.description, outer.input_schema) == (inner.name, inner.description, inner.input_schema)


def test_a_class_inside_a_function_is_found_while_that_function_runs() -> None:
    @dataclass
    class Node:
        day: date
        next: Node | None = None

    def walk(start: Node) -> Node:
        raise NotImplementedError

    shape = read_function(walk)
    assert shape.converters["start"]({"day": "2025-01-31", "next": {"day": "2025-02-01"}}) == Node(
        date(2025, 1, 31), Node(date(2025, 2, 1))
    )
    assert shape.output_schema is not None


def make_tool() -> Callable[..., Any]:
    class Local(TypedDict):
        a: int

    def use(local: Local) -> int:
        return len(Local.__annotations__)

    return use


def test_a_class_that_the_function_closes_over_is_found_later() -> None:
    assert set(read_function(make_tool()).input_schema["properties"]["local"]["properties"]) == {"a"}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (int, {"type": "integer"}),
        (Awaitable[int], {"type": "integer"}),
        (Coroutine[Any, Any, int], {"type": "integer"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Any, None),
        (AsyncIterator[int], None),
        (Iterator[int], None),
        (ToolResult, None),
        (Output, None),
        (int | Output, None),
        (Invocation, None),
        (type_samples.Opaque, None),
        (list[type_samples.Opaque], None),
        ("OnlyWhenChecking", None),
    ],
)
def test_the_return_hint_gives_the_output_schema(annotation: Any, schema: dict[str, Any] | None) -> None:
    def function() -> None:
        raise NotImplementedError

    function.__annotations__["return"] = annotation
    assert read_function(function).output_schema == schema


def test_a_secret_parameter_shows_no_default() -> None:
    def login(key: Secret = Secret("sk-0123456789")) -> None:
        raise NotImplementedError

    assert read_function(login).input_schema["properties"] == {"key": {"type": "string", "writeOnly": True}}


def test_the_schema_of_every_call_is_closed_and_self_contained() -> None:
    def plant(tree: type_samples.Tree, other: type_samples.Tree | None = None) -> type_samples.Tree:
        raise NotImplementedError

    schema = read_function(plant).input_schema
    assert set(schema["$defs"]) == {"Tree"}
    validator = Validator(schema, "plant")
    assert validator.problems({"tree": {"value": 1, "children": [{"value": 2}]}}) == []
    assert validator.problems({"tree": {"value": 1, "children": [{"value": "2"}]}})
    assert validator.problems({"tree": {"value": 1}, "bogus": 1})
