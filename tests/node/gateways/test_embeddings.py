"""The official OpenAI client gets texts as vectors, by the node's own embedder."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Sequence
from typing import Any

import openai
import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import MissingExtra
from handrail.core.ports import Embedder
from handrail.node.gateways.gateway import GatewayEmbedder
from handrail.node.gateways.openai.embeddings import _shortened
from handrail.sessions.store.embedding import WordLlamaEmbedder
from handrail.testing.embedding import WordEmbedder
from handrail.testing.model import ScriptedModel
from tests.node.gateways.gateway_server import scene


def product(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


WORDS = GatewayEmbedder("words", WordEmbedder)
TEXTS = ["the weather in Lisbon", "weather in the Lisbon", "the price of boots"]


async def test_texts_become_the_vectors_of_the_nodes_embedder_in_either_encoding() -> None:
    expected = WordEmbedder().embed(TEXTS)
    async with scene(ScriptedModel(), embedder=WORDS) as there:
        client = there.openai()
        by_default = await client.embeddings.create(model="words", input=TEXTS)
        as_floats = await client.embeddings.create(model="words", input=TEXTS, encoding_format="float")
        one = await client.embeddings.create(model="words", input=TEXTS[0], user="alice")
        raw: Any = await client.post(
            "/embeddings", body={"model": "words", "input": TEXTS, "encoding_format": "base64"}, cast_to=object
        )

    assert [each.embedding for each in as_floats.data] == expected
    assert [each.embedding for each in by_default.data] == [pytest.approx(vector) for vector in expected]
    assert [each.index for each in by_default.data] == [0, 1, 2]
    assert (by_default.object, by_default.model, by_default.data[0].object) == ("list", "words", "embedding")
    assert by_default.usage.prompt_tokens == by_default.usage.total_tokens > 3
    assert len(one.data) == 1 and one.data[0].embedding == pytest.approx(expected[0])
    assert all(isinstance(each["embedding"], str) for each in raw["data"])


async def test_near_texts_are_near_in_fewer_dimensions_too() -> None:
    async with scene(ScriptedModel(), embedder=GatewayEmbedder("wordllama", WordLlamaEmbedder)) as there:
        client = there.openai()
        for dimensions in (64, 256):
            texts = ["The cat sat on the mat.", "A kitten lay on the rug.", "Interest rates rose in June."]
            made = await client.embeddings.create(model="wordllama", input=texts, dimensions=dimensions)
            cat, kitten, bank = (each.embedding for each in made.data)
            assert len(cat) == dimensions and math.hypot(*cat) == pytest.approx(1, abs=1e-6)
            assert product(cat, kitten) > product(cat, bank)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=9), st.data())
def test_a_shorter_vector_has_length_one_whatever_is_left_of_it(vector: list[float], data: st.DataObject) -> None:
    length = math.hypot(*vector) or 1.0
    size = data.draw(st.integers(1, len(vector)))
    made = _shortened([each / length for each in vector], size)

    assert len(made) == size and math.hypot(*made) == pytest.approx(1)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"input": []}, "input"),
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": [1, 2, 3]}, "input[0]"),
        ({"input": [[1, 2, 3]]}, "input[0]"),
        ({"input": ["a"] * 2049}, "input"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": 258}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"truncate": True}, "truncate"),
    ],
    ids=str,
)
async def test_what_is_wrong_is_named(fields: dict[str, Any], place: str) -> None:
    async with scene(ScriptedModel(), embedder=WORDS) as there:
        with pytest.raises(openai.BadRequestError) as error:
            body = {"model": "words", "input": "a", **fields}
            await there.openai().post("/embeddings", body=body, cast_to=object)
    assert error.value.param == place


async def test_another_model_or_no_embedder_is_not_found_and_one_that_is_not_installed_is_said_so() -> None:
    def missing() -> Embedder:
        raise MissingExtra("semantic matching", "semantic")

    async with scene(ScriptedModel(), embedder=WORDS) as there:
        with pytest.raises(openai.NotFoundError, match="there is 'words'"):
            await there.openai().embeddings.create(model="text-embedding-3-small", input="a")
        assert [each.id for each in (await there.openai().models.list()).data] == ["m", "words"]
        assert (await there.openai().models.retrieve("words")).id == "words"
        with pytest.raises(openai.PermissionDeniedError):
            await there.openai("nothing").embeddings.create(model="words", input="a")
        with pytest.raises(openai.AuthenticationError):
            await there.openai("nobody").embeddings.create(model="words", input="a")
    async with scene(ScriptedModel()) as there:
        with pytest.raises(openai.NotFoundError, match="no model for embeddings"):
            await there.openai().embeddings.create(model="words", input="a")
    async with scene(ScriptedModel(), embedder=GatewayEmbedder("words", missing)) as there:
        with pytest.raises(openai.InternalServerError) as error:
            await there.openai().embeddings.create(model="words", input="a")
    assert error.value.status_code == 501 and error.value.response.headers["x-should-retry"] == "false"


async def test_the_embedder_is_made_once_and_asked_beside_the_loop() -> None:
    made: list[int] = []

    class Noting(WordEmbedder):
        def __init__(self) -> None:
            made.append(threading.get_ident())
            super().__init__()

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            assert threading.get_ident() != loop
            return super().embed(texts)

    loop = threading.get_ident()
    async with scene(ScriptedModel(), embedder=GatewayEmbedder("words", Noting)) as there:
        client = there.openai()
        await asyncio.gather(*(client.embeddings.create(model="words", input=each) for each in TEXTS))
    assert len(made) == 1
