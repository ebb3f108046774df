"""Deduplicators as a file names them."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from handrail.core.errors import UsageError
from handrail.execute.dedupe.create import create
from handrail.execute.dedupe.strategies import ExactDeduplicator, SemanticDeduplicator, WindowDeduplicator
from handrail.testing.embedding import WordEmbedder
from tests.execute.dedupe.scene import HandClock


def from_toml(text: str) -> Any:
    return create(tomllib.loads(text).get("deduplicator"), embedder=WordEmbedder())


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
    clock = HandClock()
    window = create({"kind": "window", "seconds": 5}, clock=clock)
    assert window is not None
    window.record("read", {})
    assert window.is_duplicate("read", {})
    clock.seconds += 5
    assert not window.is_duplicate("read", {})


def test_a_deduplicator_that_is_made_already_is_returned_as_it_is() -> None:
    own = ExactDeduplicator()
    assert create(own) is own


@pytest.mark.parametrize("name", ["exakt", {"kind": "exakt"}, {"kind": 3}, {}, {"seconds": 5}])
def test_an_unknown_name_is_refused_with_the_choices(name: Any) -> None:
    with pytest.raises(UsageError, match="'exact', 'semantic', 'window'"):
        create(name)


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
        create(name, embedder=WordEmbedder())


def test_the_semantic_one_says_that_it_needs_an_embedder() -> None:
    with pytest.raises(UsageError, match="embedder"):
        create("semantic")


def test_an_object_without_the_methods_is_refused() -> None:
    class OnlyTheSeeds:
        def is_duplicate(self, name: str, arguments: dict[str, Any]) -> bool:
            raise NotImplementedError

        def record(self, name: str, arguments: dict[str, Any]) -> None:
            raise NotImplementedError

    own: Any = OnlyTheSeeds()
    with pytest.raises(UsageError, match="methods"):
        create(own)
