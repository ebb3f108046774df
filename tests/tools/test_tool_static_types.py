"""What type checkers know of a decorated function: mypy reads this with `make check`, pyright with the docs' examples.

Each `type: ignore` stands where a checker refuses what is wrong; one that is not needed any more fails either check.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from handrail import Ensemble, Executor, Invocation, Session, Tool, tool
from handrail.testing import ScriptedModel, cassette, invocation


@tool
def forecast(city: str, days: int = 1, *, unit: str = "celsius") -> list[str]:
    return [f"{city}: 21 {unit}"] * days


@tool(timeout=3)
async def measure(city: str) -> float:
    return 21.0


@tool(side_effects=True)
def warn(invocation: Invocation[str], city: str, times: int = 1) -> str:
    return f"{invocation.deps} warns {city} {times} times"


@tool
def hours(until: int) -> Iterator[int]:
    yield from range(until)


class Station:
    def __init__(self, city: str) -> None:
        self._city = city

    def read(self, sensor: int) -> str:
        return f"{self._city} {sensor}"

    @tool
    @staticmethod
    def sensors(first: int) -> list[int]:
        return [first]


read = tool(Station("Kleve").read)
renamed = tool(name="read_again")(Station("Kleve").read)


def given(value: str, function: Callable[[str], list[str]]) -> list[str]:
    return function(value)


def test_a_tool_is_called_as_its_function_is() -> None:
    assert assert_type(forecast("Kleve", days=1, unit="kelvin"), list[str]) == ["Kleve: 21 kelvin"]
    assert list(assert_type(hours(2), Iterator[int])) == [0, 1]
    assert assert_type(read(sensor=1), str) == assert_type(renamed(1), str) == "Kleve 1"
    assert assert_type(Station.sensors(first=1), list[int]) == [1]
    assert assert_type(forecast.changed(name="weather")("Kleve"), list[str]) == ["Kleve: 21 celsius"]
    assert assert_type(warn(invocation("Ada"), "Kleve", times=2), str) == "Ada warns Kleve 2 times"


async def test_an_async_tool_is_awaited_as_its_function_is() -> None:
    waiting: Coroutine[Any, Any, float] = measure("Kleve")

    assert assert_type(await waiting, float) == assert_type(await measure(city="Goch"), float) == 21.0


def test_it_may_stand_where_its_function_may() -> None:
    assert given("Kleve", forecast) == ["Kleve: 21 celsius"]


def test_a_checker_refuses_what_the_function_refuses() -> None:
    with pytest.raises(TypeError):
        forecast("Kleve", 1, "kelvin")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        read(1, unit="kelvin")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        hours("two").__next__()  # type: ignore[arg-type]


def test_different_tools_fit_into_one_list() -> None:
    several = [forecast, measure, hours, read, Station.sensors]
    named: dict[str, Tool] = {each.name: each for each in several}
    by_hand = Tool(forecast.definition, forecast.handler)

    with Session(ScriptedModel(), tools=several), Session(ScriptedModel(), tools=[*named.values()]):
        assert sorted(named) == ["forecast", "hours", "measure", "read", "sensors"]
    assert len(Executor([*several, Ensemble("none")]).tools) == 5
    assert by_hand("Kleve") == ["Kleve: 21 celsius"]


def test_a_tool_in_an_annotation_may_name_its_dependencies_alone() -> None:
    """Also where annotations are evaluated, as in programs without `from __future__ import annotations`."""
    needs_text: Tool[str] = warn

    assert needs_text is warn
    assert str(Tool[str]) == "handrail.tools.tool.Tool[str]"


if TYPE_CHECKING:

    @cassette("orders")
    def replayed(number: int, *, name: str = "") -> bool:
        return bool(name) and number > 0

    @cassette("orders")
    async def replayed_later(number: int) -> bool:
        return number > 0

    async def a_cassette_keeps_the_signature_too() -> None:
        assert_type(replayed(1, name="A"), bool)
        assert_type(await replayed_later(number=1), bool)
        replayed("1")  # type: ignore[arg-type]
