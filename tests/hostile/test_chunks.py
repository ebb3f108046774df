"""However the bytes of a hostile reply are cut, it gives the same events or the same error, and never half a call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from botocore.eventstream import EventStream
from botocore.parsers import EventStreamJSONParser
from hypothesis import given, settings, strategies as st

from handrail.core.errors import ModelError
from handrail.core.events import ModelEvent
from handrail.models.bedrock.transport import BedrockTransport
from handrail.models.codec_model import CodecModel
from handrail.models.retry_policy import RetryPolicy
from handrail.models.transport import Endpoint
from tests.examples import examples
from tests.hostile.reply_corpus import CorpusStream, of_wires, streams
from tests.hostile.reply_outcomes import ASKED, MODELS, Outcome, codec_of, cut, decoded, judge
from tests.models.bedrock.botocore_checks import operation

HTTP = of_wires("openai_chat", "openai_responses", "anthropic", "gemini", "ollama")
CONVERSE = of_wires("bedrock")
CUTS = 24


class _Body:
    """A reply's bytes as botocore reads them from a connection."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks

    def stream(self, amount: int = 1024) -> Iterator[bytes]:
        return iter(self._chunks)

    def close(self) -> None:
        """There is no connection."""


class _Client:
    """As much of botocore's client as reads a stream."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks

    def converse_stream(self, **request: Any) -> dict[str, Any]:
        shape = operation("ConverseStream").output_shape.members["stream"]
        return {"stream": EventStream(_Body(self._chunks), shape, EventStreamJSONParser(), "ConverseStream")}

    def close(self) -> None:
        """There is no connection."""


async def conversed(stream: CorpusStream, chunks: Iterable[bytes]) -> Outcome:
    """Through botocore's reader of frames, in exactly these chunks."""
    transport = BedrockTransport(lambda endpoint: _Client(chunks))
    model = CodecModel(
        codec_of(stream), transport, Endpoint("http://localhost"), MODELS["bedrock"], retry=RetryPolicy(attempts=1)
    )
    events: list[ModelEvent] = []
    try:
        async with asyncio.timeout(20), aclosing(model.stream(ASKED)) as arriving:
            async for event in arriving:
                events.append(event)
    except ModelError as error:
        return Outcome(tuple(events), error)
    return Outcome(tuple(events))


def read(stream: CorpusStream, chunks: Iterable[bytes]) -> Outcome:
    return asyncio.run(conversed(stream, chunks)) if stream.wire == "bedrock" else decoded(stream, chunks)


def bytewise(data: bytes) -> list[bytes]:
    return cut(data, range(len(data)))


@pytest.mark.parametrize("stream", streams(), ids=lambda stream: stream.id)
def test_a_stream_gives_the_same_at_once_and_byte_by_byte(stream: CorpusStream) -> None:
    at_once = read(stream, [stream.data])
    judge(stream, at_once)
    assert read(stream, bytewise(stream.data)).same == at_once.same


@settings(max_examples=examples(400))
@given(st.sampled_from(HTTP), st.lists(st.integers(0, 4000), max_size=40))
def test_any_chunking_gives_the_same_events_or_the_same_error(stream: CorpusStream, places: list[int]) -> None:
    assert read(stream, cut(stream.data, places)).same == read(stream, [stream.data]).same


@settings(max_examples=examples(50))
@given(st.sampled_from(CONVERSE), st.lists(st.integers(0, 2000), max_size=20))
def test_any_chunking_of_frames_gives_the_same_events_or_the_same_error(
    stream: CorpusStream, places: list[int]
) -> None:
    assert read(stream, cut(stream.data, places)).same == read(stream, [stream.data]).same


@pytest.mark.parametrize("stream", HTTP, ids=lambda stream: stream.id)
def test_a_stream_cut_anywhere_gives_only_calls_that_the_whole_stream_gives(stream: CorpusStream) -> None:
    whole = [(call.name, call.arguments) for call in read(stream, [stream.data]).calls]
    for part in range(CUTS):
        outcome = read(stream, [stream.data[: part * len(stream.data) // CUTS]])
        given = [(call.name, call.arguments) for call in outcome.calls]
        assert given == whole[: len(given)]
