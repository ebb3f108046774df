"""`POST /v1/embeddings`: texts as vectors, by the embedder that the node has."""

from __future__ import annotations

import asyncio
import base64
import math
import struct
import threading
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from handrail.core.errors import BusError
from handrail.core.ports import Embedder
from handrail.node.gateways.field_rules import FieldTable, check_fields, honoured_fields
from handrail.node.gateways.gateway import Admit, GatewayEmbedder
from handrail.node.gateways.openai.body import OPENAI_REFUSED
from handrail.node.gateways.request_parsing import convert_field, read_json_object, refuse_field
from handrail.node.gateways.token_count import estimated_tokens_of_text

PATH = "/v1/embeddings"
MOST = 2048
"""Texts of one request, as OpenAI has it."""


class EmbeddingsBody(Struct):
    """What is read of an Embeddings body."""

    input: str | Annotated[list[str | int | list[int]], Meta(min_length=1, max_length=MOST)]
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1)] | None = None


EMBEDDINGS: FieldTable = {**honoured_fields(EmbeddingsBody), "user": OPENAI_REFUSED["user"]}


class EmbeddingsEndpoint:
    """Makes the embedder when it is first asked, and asks it in a thread, one request at a time."""

    def __init__(self, embedder: GatewayEmbedder | None, most: int) -> None:
        self._given = embedder
        self._most = most
        self._made: Embedder | None = None
        self._lock = threading.Lock()

    async def answer(self, data: bytes, headers: Mapping[str, str], admit: Admit) -> dict[str, Any]:
        """The vectors of the texts in a request.

        Raises:
            BusError: The request is wrong, or the node has no embedder of that name.
            MissingExtra: The embedder's package is not installed.
        """
        given = read_json_object(data, self._most)
        check_fields(given, EMBEDDINGS)
        body = convert_field(given, EmbeddingsBody)
        texts = _texts(body.input)
        embedder = self._named(body.model)
        await admit(embedder.name)
        vectors = await asyncio.to_thread(self._embed, embedder, texts)
        tokens = sum(map(estimated_tokens_of_text, texts))
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "index": index, "embedding": _encoded(vector, body)}
                for index, vector in enumerate(vectors)
            ],
            "model": embedder.name,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    def _named(self, model: str | None) -> GatewayEmbedder:
        if self._given is None:
            raise BusError("not_found", "this node has no model for embeddings", param="model")
        if model not in (None, self._given.name):
            words = f"there is no model {model[:60]!r} for embeddings here; there is {self._given.name!r}"
            raise BusError("not_found", words, param="model")
        return self._given

    def _embed(self, embedder: GatewayEmbedder, texts: list[str]) -> list[list[float]]:
        with self._lock:
            if self._made is None:
                self._made = embedder.make()
            return self._made.embed(texts)


def _texts(said: str | list[str | int | list[int]]) -> list[str]:
    items = [said] if isinstance(said, str) else said
    texts: list[str] = []
    for at, item in enumerate(items):
        place = "input" if isinstance(said, str) else f"input[{at}]"
        if not isinstance(item, str):
            refuse_field(place, "send text; numbers of tokens mean something else to each model")
        if not item:
            refuse_field(place, "is empty")
        texts.append(item)
    return texts


def _encoded(vector: Sequence[float], body: EmbeddingsBody) -> list[float] | str:
    size = len(vector) if body.dimensions is None else body.dimensions
    if size > len(vector):
        refuse_field("dimensions", f"this model has {len(vector)} dimensions at most")
    made = _shortened(vector, size)
    if body.encoding_format == "base64":
        return base64.b64encode(struct.pack(f"<{size}f", *made)).decode()
    return made


def _shortened(vector: Sequence[float], size: int) -> list[float]:
    """The first dimensions at length 1. A vector that has nothing there gets the last of them as its direction."""
    part = list(vector[:size])
    length = math.hypot(*part)
    if length == 0:
        return [*part[:-1], 1.0]
    return part if size == len(vector) else [each / length for each in part]
