"""What every `Embedder` does."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from handrail.core.ports import Embedder
from handrail.sessions.store.embedding import WordLlamaEmbedder
from handrail.testing.embedding import WordEmbedder
from tests.examples import examples

KINDS: dict[str, Callable[[], Embedder]] = {"words": WordEmbedder, "wordllama": WordLlamaEmbedder}
texts = st.text() | st.text(st.characters(categories=["Cs", "Zs", "P"]))


@cache
def made(kind: str) -> Embedder:
    return KINDS[kind]()


@pytest.fixture(params=KINDS)
def embedder(request: pytest.FixtureRequest) -> Embedder:
    if request.param == "wordllama":
        pytest.importorskip("wordllama")
    return made(request.param)


def nearness(embedder: Embedder, one: str, other: str) -> float:
    first, second = embedder.embed([one, other])
    return sum(a * b for a, b in zip(first, second, strict=True))


shared_fixture = settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)


@shared_fixture
@given(given_texts=st.lists(texts, max_size=4))
def test_every_text_has_a_vector_of_length_1(embedder: Embedder, given_texts: list[str]) -> None:
    vectors = embedder.embed(given_texts)
    assert len(vectors) == len(given_texts)
    for vector in vectors:
        assert math.isclose(math.hypot(*vector), 1, abs_tol=1e-6)
        assert all(type(part) is float for part in vector)


@shared_fixture
@given(text=texts, company=texts)
def test_a_text_has_the_same_vector_in_any_company(embedder: Embedder, text: str, company: str) -> None:
    (alone,) = embedder.embed([text])
    _, beside = embedder.embed([company, text])
    assert alone == pytest.approx(beside, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "paraphrase", "unrelated"),
    [
        ("how to reset a password", "how can I reset my password", "the boiling point of water at sea level"),
        ("weather in Lisbon today", "what is the weather today in Lisbon", "invoice of the plumber for March"),
        ("refund policy for damaged items", "what is the policy for a refund of damaged goods", "train to Vienna"),
    ],
)
def test_a_paraphrase_is_nearer_than_an_unrelated_text(
    embedder: Embedder, text: str, paraphrase: str, unrelated: str
) -> None:
    assert nearness(embedder, text, paraphrase) > nearness(embedder, text, unrelated) + 0.2


def test_an_empty_text_is_near_no_text_with_words(embedder: Embedder) -> None:
    assert nearness(embedder, "", "weather in Lisbon") < 0.1
    assert nearness(embedder, "", "") == pytest.approx(1)


def test_no_texts_have_no_vectors(embedder: Embedder) -> None:
    assert embedder.embed([]) == []
