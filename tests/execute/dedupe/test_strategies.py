"""The three deduplicators and the memory they share."""

from __future__ import annotations

from typing import Any

import pytest

from handrail.core.calls import Problem, ToolResult
from handrail.core.errors import UsageError
from handrail.execute.dedupe.create import ExactDeduplicator, SemanticDeduplicator, WindowDeduplicator
from handrail.execute.dedupe.matching import Deduplicator
from handrail.testing.embedding import WordEmbedder
from tests.execute.dedupe.reuse_fixtures import ManualClock, answer


def every_strategy() -> list[Deduplicator]:
    return [ExactDeduplicator(), WindowDeduplicator(60, ManualClock()), SemanticDeduplicator(WordEmbedder())]


strategies = pytest.mark.parametrize("memory", every_strategy(), ids=lambda each: type(each).__name__)


@pytest.mark.requirement("converser.deduplicator")
@pytest.mark.parametrize("make", range(3))
def test_the_protocol_of_the_seed_works_as_it_is_shown(make: int) -> None:
    deduplicator = every_strategy()[make]
    assert not deduplicator.is_duplicate("read_file", {"path": "/data/report.txt"})
    deduplicator.record("read_file", {"path": "/data/report.txt"})
    assert deduplicator.is_duplicate("read_file", {"path": "/data/report.txt"})
    assert not deduplicator.is_duplicate("read_file", {"path": "/data/other.txt"})
    assert not deduplicator.is_duplicate("write_file", {"path": "/data/report.txt"})


@strategies
def test_each_is_a_deduplicator(memory: Deduplicator) -> None:
    assert isinstance(memory, Deduplicator)


@pytest.mark.requirement("converser.deduplicator")
@strategies
def test_a_repeated_call_is_answered_from_its_first_result(memory: Deduplicator) -> None:
    memory.remember("s", "read", {"a": 1, "b": 2}, None, answer({"rows": [1]}))
    assert memory.find("s", "read", {"b": 2, "a": 1}, None) == answer({"rows": [1]})


@strategies
def test_another_scope_is_never_answered(memory: Deduplicator) -> None:
    memory.remember("run/ann", "read", {"a": "secret"}, None, answer("for ann"))
    assert memory.find("run/bob", "read", {"a": "secret"}, None) is None
    assert memory.find("", "read", {"a": "secret"}, None) is None


def test_a_call_recorded_without_a_result_is_known_and_answers_nothing() -> None:
    memory = ExactDeduplicator()
    memory.record("read", {})
    assert memory.is_duplicate("read", {})
    assert memory.find("", "read", {}, None) is None


def test_a_call_recorded_with_its_result_is_answered_from_it() -> None:
    memory = ExactDeduplicator()
    memory.record("read", {}, answer("text"))
    assert memory.find("", "read", {}, None) == answer("text")


@pytest.mark.requirement("converser.deduplicator")
@strategies
def test_a_failure_is_not_remembered(memory: Deduplicator) -> None:
    failure = ToolResult("call_1", "fetch", "down", outcome="failed", error=Problem("failed", "down"))
    memory.remember("s", "fetch", {"u": 1}, None, failure)
    memory.record("fetch", {"u": 1}, failure)
    assert memory.find("s", "fetch", {"u": 1}, None) is None
    assert not memory.is_duplicate("fetch", {"u": 1})


def test_whoever_changes_a_result_does_not_change_the_memory() -> None:
    memory = ExactDeduplicator()
    first: dict[str, Any] = {"rows": [1]}
    memory.remember("s", "read", {}, None, answer(first))
    first["rows"].append(2)
    second = memory.find("s", "read", {}, None)
    assert second is not None and second.content == {"rows": [1]}
    second.content["rows"].append(3)
    assert memory.find("s", "read", {}, None) == answer({"rows": [1]})


def test_a_write_to_a_resource_forgets_its_reads_and_those_of_no_resource() -> None:
    memory = ExactDeduplicator()
    memory.remember("s", "read", {"path": "a"}, "a", answer())
    memory.remember("s", "read", {"path": "b"}, "b", answer())
    memory.remember("s", "list", {}, None, answer())
    memory.remember("other", "read", {"path": "a"}, "a", answer())
    memory.forget("s", "a")
    assert memory.find("s", "read", {"path": "a"}, "a") is None
    assert memory.find("s", "list", {}, None) is None
    assert memory.find("s", "read", {"path": "b"}, "b") is not None
    assert memory.find("other", "read", {"path": "a"}, "a") is not None


def test_a_write_without_a_resource_forgets_the_whole_scope_and_no_other() -> None:
    memory = ExactDeduplicator()
    memory.remember("s", "read", {"path": "a"}, "a", answer())
    memory.remember("other", "read", {"path": "a"}, "a", answer())
    memory.forget("s")
    assert memory.find("s", "read", {"path": "a"}, "a") is None
    assert memory.find("other", "read", {"path": "a"}, "a") is not None


def test_the_result_unused_for_longest_goes_first() -> None:
    memory = ExactDeduplicator(max_entries=2)
    memory.remember("s", "read", {"n": 1}, None, answer())
    memory.remember("s", "read", {"n": 2}, None, answer())
    memory.find("s", "read", {"n": 1}, None)
    memory.remember("s", "read", {"n": 3}, None, answer())
    kept = [n for n in (1, 2, 3) if memory.find("s", "read", {"n": n}, None)]
    assert kept == [1, 3]


def test_the_scope_unused_for_longest_goes_first() -> None:
    memory = ExactDeduplicator(max_scopes=2)
    for scope in ("one", "two"):
        memory.remember(scope, "read", {}, None, answer())
    memory.find("one", "read", {}, None)
    memory.remember("three", "read", {}, None, answer())
    kept = [scope for scope in ("one", "two", "three") if memory.find(scope, "read", {}, None)]
    assert kept == ["one", "three"]


@pytest.mark.requirement("converser.deduplicator")
def test_a_window_closes_when_its_seconds_are_over() -> None:
    clock = ManualClock()
    memory = WindowDeduplicator(30, clock)
    memory.remember("s", "read", {}, None, answer())
    clock.seconds += 29.9
    assert memory.find("s", "read", {}, None) == answer()
    clock.seconds += 0.1
    assert memory.find("s", "read", {}, None) is None


def test_being_asked_does_not_prolong_a_window() -> None:
    clock = ManualClock()
    memory = WindowDeduplicator(30, clock)
    memory.record("read", {})
    for _ in range(2):
        clock.seconds += 14
        assert memory.is_duplicate("read", {})
    clock.seconds += 14
    assert not memory.is_duplicate("read", {})


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_window_that_cannot_be_is_refused(seconds: float) -> None:
    with pytest.raises(UsageError):
        WindowDeduplicator(seconds)


@pytest.mark.parametrize("limits", [{"max_entries": 0}, {"max_scopes": 0}])
def test_a_memory_without_room_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        ExactDeduplicator(**limits)


@pytest.mark.parametrize("threshold", [0, 1.1, float("nan")])
def test_a_threshold_that_cannot_be_is_refused(threshold: float) -> None:
    with pytest.raises(UsageError):
        SemanticDeduplicator(WordEmbedder(), threshold)
