"""Deduplicators as a file names them."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from handrail import Context, Executor, ToolCall, tool
from handrail.core.errors import UsageError
from handrail.execute.dedupe.create import (
    ExactDeduplicator,
    SemanticDeduplicator,
    WindowDeduplicator,
    create_deduplicator,
)
from handrail.testing.embedding import WordEmbedder
from tests.execute.dedupe.reuse_fixtures import ManualClock


def from_toml(text: str) -> Any:
    return create_deduplicator(tomllib.loads(text).get("deduplicator"), embedder=WordEmbedder())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('deduplicator = "exact"', ExactDeduplicator),
        ('deduplicator = { kind = "exact", max_entries = 10 }', ExactDeduplicator),
        ('deduplicator = { kind = "window", seconds = 60 }', WindowDeduplicator),
        ('deduplicator = { kind = "window", seconds = 0.5, max_scopes = 3 }', WindowDeduplicator),
        ('deduplicator = "semantic"', SemanticDeduplicator),
        ('deduplicator = { kind = "semantic", threshold = 0.95, seconds = 60 }', SemanticDeduplicator),
        ("", type(None)),
    ],
)
def test_a_name_and_its_options_make_a_deduplicator(text: str, kind: type) -> None:
    assert type(from_toml(text)) is kind


def test_the_options_reach_the_deduplicator() -> None:
    clock = ManualClock()
    window = create_deduplicator({"kind": "window", "seconds": 5}, clock=clock)
    assert window is not None
    window.record("read", {})
    assert window.is_duplicate("read", {})
    clock.seconds += 5
    assert not window.is_duplicate("read", {})


def test_a_deduplicator_that_is_made_already_is_returned_as_it_is() -> None:
    own = ExactDeduplicator()
    assert create_deduplicator(own) is own


@pytest.mark.parametrize("name", ["exakt", {"kind": "exakt"}, {"kind": 3}, {}, {"seconds": 5}])
def test_an_unknown_name_is_refused_with_the_choices(name: Any) -> None:
    with pytest.raises(UsageError, match="'exact', 'semantic', 'window'"):
        create_deduplicator(name)


@pytest.mark.parametrize(
    "name",
    [
        "window",
        {"kind": "window", "seconds": "60"},
        {"kind": "window", "seconds": 0},
        {"kind": "window", "seconds": True},
        {"kind": "window", "secs": 60},
        {"kind": "exact", "seconds": 60},
        {"kind": "exact", "max_entries": 0},
        {"kind": "semantic", "threshold": 2},
    ],
)
def test_options_that_do_not_fit_are_refused(name: Any) -> None:
    with pytest.raises(UsageError):
        create_deduplicator(name, embedder=WordEmbedder())


def test_the_semantic_one_says_that_it_needs_an_embedder() -> None:
    with pytest.raises(UsageError, match="embedder"):
        create_deduplicator("semantic")


def test_an_object_without_the_methods_is_refused() -> None:
    class OnlyOne:
        def is_duplicate(self, name: str, arguments: dict[str, Any]) -> bool:
            raise NotImplementedError

    own: Any = OnlyOne()
    with pytest.raises(UsageError, match="methods"):
        create_deduplicator(own)


@pytest.mark.requirement("converser.deduplicator")
async def test_an_object_with_two_methods_answers_repeated_calls_from_their_first_result() -> None:
    class Remembers:
        """The `ExactDeduplicator` of converser-invocables.md."""

        def __init__(self) -> None:
            self._history: set[tuple[str, str]] = set()

        def is_duplicate(self, name: str, arguments: dict[str, Any]) -> bool:
            return (name, json.dumps(arguments, sort_keys=True)) in self._history

        def record(self, name: str, arguments: dict[str, Any]) -> None:
            self._history.add((name, json.dumps(arguments, sort_keys=True)))

    ran: list[int] = []

    async def look(n: int) -> int:
        ran.append(n)
        return n * 10

    deduplicator = Remembers()
    async with Executor([tool(look, deduplicator=deduplicator)]) as executor:
        results = [await executor.invoke(ToolCall(f"{at}", "look", {"n": n})) for at, n in enumerate((1, 1, 2))]
        elsewhere = await executor.invoke(ToolCall("9", "look", {"n": 1}), Context(run="another"))

    assert [result.content for result in results] == [10, 10, 20]
    assert [result.reused_from for result in results] == [None, "0", None]
    assert deduplicator.is_duplicate("look", {"n": 2})
    assert (elsewhere.content, elsewhere.reused_from) == (10, None), "nobody is answered from another run's memory"
    assert ran == [1, 2, 1]
