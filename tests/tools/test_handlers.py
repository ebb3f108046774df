"""Handlers in all the styles of the seeds, plain and async, wrapped and bound."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.errors import InvalidDefinition
from handrail.core.invocation import Invocation
from handrail.tools.definition import ToolDefinition
from handrail.tools.handlers import Style, handler_style, is_async
from handrail.tools.tool import Tool

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
ARGUMENTS = {"city": "Lisbon"}


def by_arguments(city: str) -> Any:
    return city


def by_context(context: Invocation, arguments: dict[str, Any]) -> Any:
    return arguments["city"]


def by_invocation(invocation: Invocation) -> Any:
    return invocation.input["city"]


def by_annotation(it: Invocation, unit: str = "celsius") -> Any:
    return it.input["city"]


def by_name(name: str, args: dict[str, Any]) -> Any:
    return args["city"]


async def by_arguments_async(city: str) -> Any:
    return by_arguments(city)


async def by_context_async(ctx: Invocation, args: dict[str, Any]) -> Any:
    return by_context(ctx, args)


async def by_invocation_async(invocation: Invocation) -> Any:
    return by_invocation(invocation)


async def by_annotation_async(it: Invocation) -> Any:
    return by_annotation(it)


async def by_name_async(tool_name: str, arguments: dict[str, Any]) -> Any:
    return by_name(tool_name, arguments)


class Service:
    def method(self, city: str) -> Any:
        return city

    async def method_async(self, context: Invocation, arguments: dict[str, Any]) -> Any:
        return arguments["city"]

    @staticmethod
    def static(invocation: Invocation) -> Any:
        return invocation.input["city"]

    @classmethod
    def of_class(cls, name: str, args: dict[str, Any]) -> Any:
        return args["city"]


class Plain:
    def __call__(self, invocation: Invocation) -> Any:
        return invocation.input["city"]


class Asynchronous:
    async def __call__(self, context: Invocation, arguments: dict[str, Any]) -> Any:
        return arguments["city"]


def with_unit(unit: str, city: str) -> Any:
    return city


async def with_unit_async(unit: str, context: Invocation, arguments: dict[str, Any]) -> Any:
    return arguments["city"]


HANDLERS: list[tuple[Callable[..., Any], Style, bool]] = [
    (by_arguments, "arguments", False),
    (by_context, "context", False),
    (by_invocation, "invocation", False),
    (by_annotation, "invocation", False),
    (by_name, "named", False),
    (by_arguments_async, "arguments", True),
    (by_context_async, "context", True),
    (by_invocation_async, "invocation", True),
    (by_annotation_async, "invocation", True),
    (by_name_async, "named", True),
    (Service().method, "arguments", False),
    (Service().method_async, "context", True),
    (Service.static, "invocation", False),
    (Service.of_class, "named", False),
    (Plain(), "invocation", False),
    (Asynchronous(), "context", True),
    (functools.partial(with_unit, "celsius"), "arguments", False),
    (functools.partial(with_unit, unit="celsius"), "arguments", False),
    (functools.partial(functools.partial(with_unit_async, "celsius")), "context", True),
    (functools.partial(Asynchronous()), "context", True),
    (lambda city: city, "arguments", False),
]


def invocation_of(tool: Tool) -> Invocation:
    return Invocation(ToolCall("c1", tool.name, ARGUMENTS), ARGUMENTS, Context(auxdata={"a": 1}, namespace={"b": 2}))


@pytest.mark.requirement("nrv.handler")
@pytest.mark.requirement("converser.invoker")
@pytest.mark.parametrize(("handler", "style", "asynchronous"), HANDLERS)
async def test_a_handler_is_called_in_its_own_style(
    handler: Callable[..., Any], style: Style, asynchronous: bool
) -> None:
    tool = Tool(ToolDefinition("weather", "", SCHEMA), handler)

    value = tool.start(invocation_of(tool), ARGUMENTS)

    assert (tool.style, is_async(handler)) == (style, asynchronous)
    assert tool.isolation == ("loop" if asynchronous else "thread")
    assert (await value if inspect.isawaitable(value) else value) == "Lisbon"


@pytest.mark.requirement("nrv.handler")
@pytest.mark.requirement("converser.invoker")
def test_an_invocation_holds_name_id_input_and_what_the_caller_passed_along() -> None:
    seen: list[Invocation] = []
    tool = Tool(ToolDefinition("weather", "", SCHEMA), lambda invocation: seen.append(invocation))

    tool.start(invocation_of(tool), ARGUMENTS)

    (invocation,) = seen
    assert (invocation.tool_name, invocation.id, invocation.input) == ("weather", "c1", ARGUMENTS)
    assert (invocation.auxdata, invocation.namespace) == ({"a": 1}, {"b": 2})


def test_the_required_parameter_decides_not_the_first_one() -> None:
    def handler(unit: str = "celsius", *, it: Invocation) -> None: ...

    def other(*, invocation: str, city: str) -> None: ...

    assert handler_style(handler, "weather") == "invocation"
    assert handler_style(other, "weather") == "arguments"


def test_a_style_can_be_given_where_names_mislead() -> None:
    def run(name: str, args: list[str]) -> str:
        return f"{name} {args}"

    schema = {"type": "object", "properties": {"name": {}, "args": {}}}
    tool = Tool(ToolDefinition("run", "", schema), run, style="arguments")

    assert tool.start(invocation_of(tool), {"name": "ls", "args": ["-l"]}) == "ls ['-l']"


def test_a_callable_without_a_readable_signature_gets_its_arguments_by_name() -> None:
    assert handler_style(dict.fromkeys, "weather") == "arguments"
    assert handler_style(max, "weather") == "arguments"


def test_what_cannot_be_called_is_refused() -> None:
    not_callable: Any = "weather"
    with pytest.raises(InvalidDefinition, match="not callable"):
        handler_style(not_callable, "weather")
