"""Hostile replies in every native wire, over real connections: the right calls or the right error, and no half call."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from handrail.core.errors import ModelError
from handrail.core.events import ModelEvent
from tests.hostile.conftest import Line
from tests.hostile.reply_corpus import WIRES, CorpusStream, streams
from tests.hostile.reply_outcomes import ASKED, Outcome, cut, judge
from tests.models.raw_reply_server import CUT, Reply, streamed, until_closed

pytestmark = pytest.mark.asyncio(loop_scope="module")

every_stream = pytest.mark.parametrize("stream", streams(), ids=lambda stream: stream.id)


async def answered(line: Line, stream: CorpusStream, reply: Reply) -> Outcome:
    line.server.replies[:] = [reply]
    events: list[ModelEvent] = []
    try:
        async with asyncio.timeout(20), aclosing(line.model(stream).stream(ASKED)) as arriving:
            async for event in arriving:
                events.append(event)
    except ModelError as error:
        return Outcome(tuple(events), error)
    return Outcome(tuple(events))


@pytest.mark.requirement("hearthnet.backends.native")
@every_stream
async def test_a_hostile_stream_gives_the_right_calls_or_the_right_error(line: Line, stream: CorpusStream) -> None:
    judge(stream, await answered(line, stream, streamed(stream.data, kind=stream.kind)))


@every_stream
async def test_a_stream_that_ends_with_its_connection_gives_the_same(line: Line, stream: CorpusStream) -> None:
    judge(stream, await answered(line, stream, until_closed(stream.data, kind=stream.kind)))


@pytest.mark.parametrize("size", [1, 7, 64])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_that_is_flushed_piece_by_piece_gives_the_same(line: Line, wire: str, size: int) -> None:
    for stream in streams()[::9]:
        if stream.wire == wire:
            pieces = cut(stream.data, range(size, len(stream.data), size))
            judge(stream, await answered(line, stream, streamed(*pieces, kind=stream.kind)))


@pytest.mark.parametrize("stream", [each for each in streams() if each.written.answer], ids=lambda stream: stream.id)
async def test_a_connection_that_drops_in_mid_stream_is_an_error_and_gives_no_half_call(
    line: Line, stream: CorpusStream
) -> None:
    whole = await answered(line, stream, streamed(stream.data, kind=stream.kind))
    dropped = await answered(line, stream, streamed(stream.data[: len(stream.data) // 2], CUT, kind=stream.kind))
    assert dropped.error is not None
    known = [(call.name, call.arguments) for call in whole.calls]
    given = [(call.name, call.arguments) for call in dropped.calls]
    assert given == known[: len(given)]
