"""Calls that mean the same, and calls that only look as if they did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.ports import Embedder
from handrail.execute.dedupe.create import SemanticDeduplicator
from handrail.sessions.store.embedding import WordLlamaEmbedder
from handrail.testing.embedding import WordEmbedder
from tests.execute.dedupe.reuse_fixtures import ManualClock, answer


class Blind:
    """The worst embedder: to it every text means the same. What holds with it holds with all."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]


def is_answered(first: dict[str, Any], second: dict[str, Any], embedder: Embedder, threshold: float = 0.92) -> bool:
    memory = SemanticDeduplicator(embedder, threshold)
    memory.remember("s", "search", first, None, answer())
    return memory.find("s", "search", second, None) is not None


@pytest.mark.requirement("converser.deduplicator")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("weather in Lisbon today", "the weather in Lisbon for today"),
        ("What is the weather in Lisbon?", "What's the weather like in Lisbon?"),
        ("what is the refund policy for damaged items", "refund policy for damaged items"),
    ],
)
def test_the_real_model_answers_a_question_in_other_words(first: str, second: str) -> None:
    assert is_answered({"query": first, "limit": 5}, {"query": second, "limit": 5}, WordLlamaEmbedder())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("what is the refund policy", "how is the weather at the coast"),
        ("the weather in lisbon", "the weather in porto"),
        ("invoices that are paid", "invoices that are unpaid"),
    ],
)
def test_the_real_model_tells_other_questions_apart(first: str, second: str) -> None:
    assert not is_answered({"query": first}, {"query": second}, WordLlamaEmbedder())


def test_a_text_below_the_threshold_is_another_call() -> None:
    near = {"query": "the history of solar power"}
    assert is_answered({"query": "a history of solar power"}, near, WordEmbedder(), 0.79)
    assert not is_answered({"query": "a history of solar power"}, near, WordEmbedder(), 0.81)


@pytest.mark.requirement("converser.deduplicator")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("find invoice 17", "find invoice 18"),
        ("find invoice A-17", "find invoice B-17"),
        ("report of 2024-05-01", "report of 2024-05-02"),
        ("orders over -5 euros", "orders over 5 euros"),
        ("a rate of .5 percent", "a rate of 5 percent"),
        ("price > 5", "price < 5"),
        ("swap 3 and 5", "swap 5 and 3"),
        ("invoices that are paid", "invoices that are not paid"),
        ("the server is up", "the server isn't up"),
        ("mails sent by alice", "mails sent to alice"),
        ("mails sent last monday", "mails sent last tuesday"),
        ("two open tickets", "three open tickets"),
        ("convert usd to eur", "convert eur to usd"),
        ("dog bites man", "man bites dog"),
        ("weather in Paris", "weather in Rome"),
        ("weather in Paris", "weather in autumn"),
        ("read docs/a.md please", "read docs/b.md please"),
        ("write to bob@example.com", "write to eve@example.com"),
        ("python -legacy guides", "python legacy guides"),
        ('"solar power" subsidies', "solar power subsidies"),
        ("learn C now", "learn C++ now"),
        ("celsius", "fahrenheit"),
        ("docs/a.md", "docs/b.md"),
        ("天気は晴れです", "天気は雨です"),
        ("word " * 16 + "tea", "word " * 16 + "coffee"),
    ],
)
def test_what_decides_the_meaning_must_agree_however_near_the_vectors(first: str, second: str) -> None:
    assert not is_answered({"query": first}, {"query": second}, Blind())
    assert not is_answered({"query": second}, {"query": first}, Blind())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"q": "some short text", "n": 5}, {"q": "some brief text", "n": 6}),
        ({"q": "some short text", "n": 1}, {"q": "some brief text", "n": True}),
        ({"q": "some short text"}, {"q": "some brief text", "n": None}),
        ({"q": "some short text"}, {"p": "some brief text"}),
        ({"q": ["some short text"]}, {"q": "some short text"}),
        ({"q": ["some short text"]}, {"q": ["some brief text", "some brief text"]}),
        ({"q": "some short text", "unit": "c"}, {"q": "some short text", "unit": "f"}),
        ({"q": "some short text"}, {"q": ["prose"]}),
    ],
)
def test_everything_but_the_texts_must_be_equal(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert not is_answered(first, second, Blind())


def test_every_text_must_be_near() -> None:
    first = {"to": "the whole team", "about": "notes of the meeting"}
    assert is_answered(first, {"about": "notes of the meeting", "to": "the whole team please"}, WordEmbedder(), 0.8)
    assert not is_answered(first, {"about": "notes of the meeting", "to": "a quite unlike group"}, WordEmbedder(), 0.8)


def test_another_tool_is_another_call() -> None:
    memory = SemanticDeduplicator(Blind())
    memory.remember("s", "search", {"q": "some short text"}, None, answer())
    assert memory.find("s", "delete", {"q": "some brief text"}, None) is None


def test_a_near_call_on_another_resource_is_not_answered() -> None:
    memory = SemanticDeduplicator(Blind())
    memory.remember("s", "search", {"q": "some short text"}, "one", answer())
    assert memory.find("s", "search", {"q": "some brief text"}, "one") is not None
    assert memory.find("s", "search", {"q": "some brief text"}, "two") is None


def test_the_nearest_of_several_answers() -> None:
    memory = SemanticDeduplicator(WordEmbedder(), 0.5)
    memory.remember("s", "search", {"q": "solar power plants"}, None, answer("far"))
    memory.remember("s", "search", {"q": "solar power plants of spain"}, None, answer("near"))
    memory.remember("s", "search", {"q": "solar power"}, None, answer("farther"))
    found = memory.find("s", "search", {"q": "solar power plants of southern spain"}, None)
    assert found is not None and found.content == "near"


def test_a_semantic_window_closes_too() -> None:
    clock = ManualClock()
    memory = SemanticDeduplicator(Blind(), seconds=10, clock=clock)
    memory.remember("s", "search", {"q": "some short text"}, None, answer())
    assert memory.find("s", "search", {"q": "some brief text"}, None) is not None
    clock.seconds += 10
    assert memory.find("s", "search", {"q": "some brief text"}, None) is None


@given(st.text())
def test_every_text_is_a_duplicate_of_itself(text: str) -> None:
    memory = SemanticDeduplicator(WordEmbedder(), 1.0)
    memory.record("search", {"q": text})
    assert memory.is_duplicate("search", {"q": text})


@given(
    st.lists(st.sampled_from(["invoice", "paid", "the", "of"]), min_size=1, max_size=6), st.integers(), st.integers()
)
def test_a_number_inside_a_text_is_never_taken_for_another(words: list[str], one: int, other: int) -> None:
    text = " ".join(words)
    answered = is_answered({"q": f"{text} {one}"}, {"q": f"{text} {other}"}, Blind())
    assert answered == (one == other)
