"""`@tool` in all its forms, and what a tool checks when it is made."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.errors import InvalidArguments, InvalidDefinition, InvalidSchema
from handrail.core.invocation import Invocation
from handrail.core.redact import Secret
from handrail.tools.definition import Binding, ToolDefinition
from handrail.tools.tool import Retry, Tool, as_tool, tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"default": "celsius"}, "days": {"default": [1, 2]}},
    "required": ["city"],
}


def started(made: Tool, **arguments: Any) -> Any:
    invocation = Invocation(ToolCall("c1", made.name, arguments), arguments, Context())
    return made.start(invocation, made.convert(made.complete(arguments)))


def weather(city: str, unit: str = "celsius") -> str:
    """Get the weather."""
    return f"{city} in {unit}"


FORMS: dict[str, Callable[[], Tool]] = {
    "@tool": lambda: tool(weather),
    "@tool()": lambda: tool()(weather),
    "@tool(...)": lambda: tool(name="weather")(weather),
    "tool(f, ...)": lambda: tool(weather, name="weather"),
    "Tool.from_function": lambda: Tool.from_function(weather),
    "as_tool": lambda: as_tool(weather),
    "as_tool(tool)": lambda: as_tool(tool(weather)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_makes_the_same_tool(form: str) -> None:
    made = FORMS[form]()

    assert made.definition == tool(weather).definition
    assert (made.name, made.definition.description) == ("weather", "Get the weather.")
    assert started(made, city="Lisbon") == "Lisbon in celsius"
    assert made("Lisbon", unit="kelvin") == "Lisbon in kelvin"


def test_options_are_facts_of_the_definition_or_treatment_of_its_calls() -> None:
    made = tool(
        name="forecast",
        description="Say how it will be.",
        side_effects=True,
        idempotent=True,
        timeout=5.0,
        binding=Binding("weather.get"),
        models=("m",),
        tags=("t",),
        isolation="process",
        concurrency=2,
        resource=lambda arguments: arguments["city"],
        retry=Retry(2),
        max_output=500,
        repair=True,
        deduplicator="exact",
        share=False,
        reconcile=lambda invocation: None,
    )(weather)

    assert made.definition == ToolDefinition(
        "forecast",
        "Say how it will be.",
        tool(weather).definition.input_schema,
        {"type": "string"},
        side_effects=True,
        idempotent=True,
        timeout=5.0,
        binding=Binding("weather.get"),
        models=("m",),
        tags=("t",),
    )
    assert (made.isolation, made.concurrency, made.retry, made.max_output) == ("process", 2, Retry(2), 500)
    assert (made.repair, made.deduplicator, made.share) == (True, "exact", False)
    assert made.reusable
    assert not made.reads


def test_options_beside_the_function_are_not_forgotten() -> None:
    assert tool(weather, side_effects=True).definition.side_effects


@pytest.mark.requirement("converser.invoker")
async def test_with_a_schema_any_handler_is_a_tool() -> None:
    @tool(name="get_weather", schema=SCHEMA)
    async def get_weather(context: Invocation, arguments: dict[str, Any]) -> dict[str, Any]:
        """Get the weather."""
        return arguments

    assert get_weather.definition == ToolDefinition("get_weather", "Get the weather.", SCHEMA)
    assert get_weather.style == "context"
    assert await started(get_weather, city="Lisbon") == {"city": "Lisbon", "unit": "celsius", "days": [1, 2]}


def test_defaults_of_the_schema_are_filled_in_and_never_win() -> None:
    made = Tool(ToolDefinition("weather", "", SCHEMA), lambda **arguments: arguments)

    assert made.complete({"city": "Lisbon"}) == {"city": "Lisbon", "unit": "celsius", "days": [1, 2]}
    assert made.complete({"city": "Lisbon", "unit": None})["unit"] is None


def test_a_handler_that_changes_a_default_changes_it_for_itself_only() -> None:
    made = Tool(ToolDefinition("weather", "", SCHEMA), lambda **arguments: arguments)

    made.complete({})["days"].append(3)

    assert made.complete({})["days"] == [1, 2]
    assert made.definition.input_schema == SCHEMA


def test_a_partial_and_an_object_are_named_and_described_by_what_they_hold() -> None:
    class Weather:
        """Get the weather."""

        def __call__(self, **arguments: Any) -> None: ...

    of_partial = tool(functools.partial(weather, unit="kelvin"), schema=SCHEMA)

    assert (of_partial.name, of_partial.definition.description) == ("weather", "Get the weather.")
    of_object = tool(Weather(), schema=SCHEMA)
    assert (of_object.name, of_object.definition.description) == ("Weather", "Get the weather.")


def test_another_style_without_a_schema_is_refused() -> None:
    with pytest.raises(InvalidDefinition, match="schema"):
        tool(weather, style="context")


def test_an_invocation_parameter_is_given_and_not_shown() -> None:
    @tool
    def where(city: str, invocation: Invocation) -> str:
        """Say who asks."""
        return f"{invocation.id} {city}"

    assert started(where, city="Lisbon") == "c1 Lisbon"
    assert list(where.definition.input_schema["properties"]) == ["city"]


def test_arguments_arrive_as_the_types_of_the_function() -> None:
    @tool
    def day(when: date) -> str:
        """Name a day."""
        return when.strftime("%A")

    assert started(day, when="2024-02-29") == "Thursday"


def test_a_value_that_its_type_refuses_is_an_invalid_argument_by_name() -> None:
    @tool
    def day(when: date) -> str:
        """Name a day."""
        return ""

    with pytest.raises(InvalidArguments, match=r"^invalid_arguments: when: "):
        day.convert({"when": "2023-02-29"})


def test_a_type_that_fails_in_its_own_way_is_an_invalid_argument_too() -> None:
    @dataclasses.dataclass
    class Even:
        n: int

        def __post_init__(self) -> None:
            raise LookupError("no even number")

    # Its annotation is given by hand, since a local name cannot be looked up.
    def take(even: Any) -> None: ...

    take.__annotations__ = {"even": Even, "return": None}

    with pytest.raises(InvalidArguments, match=r"even: .*no even number"):
        tool(take).convert({"even": {"n": 1}})


def test_what_the_model_sends_is_never_changed() -> None:
    @tool
    def day(when: date, other: date = date(2024, 1, 1)) -> str:
        """Name a day."""
        return ""

    sent = {"when": "2024-02-29"}
    day.convert(day.complete(sent))

    assert sent == {"when": "2024-02-29"}


def test_a_change_keeps_everything_else() -> None:
    made = tool(
        weather,
        side_effects=True,
        idempotent=True,
        timeout=5.0,
        tags=("t",),
        isolation="process",
        concurrency=2,
        resource=str,
        retry=Retry(2),
        max_output=500,
        repair=True,
        deduplicator="exact",
        share=False,
        reconcile=print,
    )

    changed = made.changed(name="other", concurrency=3, ensemble="sky")

    assert changed.definition == ToolDefinition.from_dict({**made.definition.to_dict(), "name": "other"})
    kept = [field.name for field in dataclasses.fields(Tool) if field.init]
    different = [name for name in kept if getattr(made, name) != getattr(changed, name)]
    assert different == ["definition", "concurrency", "ensemble"]
    assert (made.name, made.concurrency, made.ensemble) == ("weather", 2, None)
    assert (changed.scoped_name, changed.names) == ("sky:other", ("other", "sky:other"))


def test_a_change_of_the_schema_is_enforced() -> None:
    changed = tool(weather).changed(input_schema={"type": "object", "required": ["town"]})

    assert changed.validator.problems({"city": "Lisbon"})
    assert not changed.validator.problems({"town": "Lisbon"})


def test_a_scope_may_call_a_bound_tool_by_its_capability() -> None:
    made = tool(weather, binding=Binding("weather.get", (2, 0))).changed(ensemble="sky")

    assert made.names == ("weather", "sky:weather", "weather.get@2.0")


@pytest.mark.parametrize(
    ("side_effects", "idempotent", "reads", "reusable"),
    [(False, False, True, True), (True, False, False, False), (True, True, False, True)],
)
def test_only_what_changes_nothing_more_may_run_again(
    side_effects: bool, idempotent: bool, reads: bool, reusable: bool
) -> None:
    made = tool(weather, side_effects=side_effects, idempotent=idempotent)

    assert (made.reads, made.reusable) == (reads, reusable)


def test_what_works_by_calls_of_others_may_run_again_but_its_answer_serves_nobody_else() -> None:
    plain, made = tool(weather), tool(weather, replays=True)

    assert (plain.reusable, plain.repeatable) == (True, True)
    assert (made.reusable, made.repeatable) == (True, False)
    assert not tool(weather, side_effects=True).repeatable


def test_secret_parameters_are_known() -> None:
    @tool
    def login(user: str, key: Secret, spare: Secret | None = None, more: tuple[Secret, ...] = ()) -> str:
        """Log in."""
        return ""

    assert login.secrets == {"key", "spare", "more"}


def test_a_plain_function_may_not_stop_the_loop() -> None:
    with pytest.raises(InvalidDefinition, match="event loop"):
        tool(weather, isolation="loop")


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"concurrency": -1}, {"max_output": 0}])
def test_a_limit_that_lets_nothing_through_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition, match="at least 1"):
        tool(**options)(weather)


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"attempts": -1}, {"first_delay": -0.1}, {"factor": -1.0}])
def test_a_retry_that_never_tries_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition):
        Retry(**wrong)


@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"properties": 5}, {"$ref": "http://example.org/x"}])
def test_an_invalid_schema_is_refused_when_the_tool_is_made(schema: dict[str, Any]) -> None:
    with pytest.raises((InvalidSchema, InvalidDefinition)):
        tool(weather, schema=schema)
    with pytest.raises(InvalidSchema):
        tool(weather, output_schema=schema)


@pytest.mark.parametrize("value", [None, "weather", 5, {"name": "weather"}])
def test_what_is_no_tool_is_refused(value: Any) -> None:
    with pytest.raises(InvalidDefinition):
        as_tool(value)


def test_a_tool_cannot_be_changed_in_place() -> None:
    field = "handler"
    with pytest.raises(AttributeError):
        setattr(tool(weather), field, print)
