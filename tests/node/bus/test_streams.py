"""A stream of the bus by itself: bounded, numbered, ended once, and answered by whoever was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import BusError
from handrail.node.bus.stream_frame import StreamFrame
from handrail.node.bus.streams import CapabilityResponse, FrameStream

PATIENCE = 30.0


async def collected(stream: FrameStream) -> list[StreamFrame]:
    async with asyncio.timeout(PATIENCE), stream:
        return [frame async for frame in stream]


def saying(count: int, ending: BusError | dict[str, Any] | None) -> Callable[[FrameStream], Any]:
    async def serve(stream: FrameStream) -> CapabilityResponse:
        for n in range(count):
            await stream.send("token", {"n": n})
        if isinstance(ending, BusError):
            raise ending
        return CapabilityResponse(ending, {"count": count})

    return serve


@given(
    count=st.integers(0, 40),
    room=st.integers(1, 5),
    ending=st.sampled_from([None, {"text": "x"}, BusError("not_found", "no")]),
)
async def test_whatever_is_sent_arrives_in_order_with_one_end(
    count: int, room: int, ending: BusError | dict[str, Any] | None
) -> None:
    frames = await collected(FrameStream(saying(count, ending), room=room))

    assert [frame.seq for frame in frames] == list(range(1, len(frames) + 1))
    assert [frame.data["n"] for frame in frames if frame.event == "token"] == list(range(count))
    assert [frame.is_last for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert frames[-1].event == ("error" if isinstance(ending, BusError) else "done")
    assert [frame.data for frame in frames if frame.event == "result"] == ([ending] if isinstance(ending, dict) else [])


async def test_a_handler_is_never_further_ahead_than_there_is_room() -> None:
    sent: list[int] = []

    async def serve(stream: FrameStream) -> CapabilityResponse:
        for n in range(100):
            await stream.send("token", {})
            sent.append(n)
        return CapabilityResponse(None, {})

    async with FrameStream(serve, room=4) as stream:
        for read in range(1, 50):
            await anext(stream)
            for _ in range(20):  # as far as it gets
                await asyncio.sleep(0)
            assert len(sent) <= read + 4


async def test_progress_never_waits_and_is_dropped_for_a_reader_that_is_behind() -> None:
    told = asyncio.Event()

    async def serve(stream: FrameStream) -> CapabilityResponse:
        for n in range(100):
            stream.progress(n, 100, "")
        told.set()
        return CapabilityResponse({}, {})

    async with asyncio.timeout(PATIENCE), FrameStream(serve, room=3) as stream:
        await told.wait()
        frames = [frame async for frame in stream]

    assert [frame.event for frame in frames] == ["progress"] * 3 + ["result", "done"]


async def test_a_stream_that_nobody_reads_never_begins() -> None:
    async def serve(stream: FrameStream) -> CapabilityResponse:
        raise NotImplementedError

    stream = FrameStream(serve)
    await stream.cancel()

    assert [frame.data["error"] async for frame in stream] == ["cancelled"]


async def test_cancelling_a_stream_that_has_ended_changes_nothing() -> None:
    stream = FrameStream(saying(1, None))
    frames = await collected(stream)
    await stream.cancel()

    assert [frame.event for frame in frames] == ["token", "done"]
    assert [frame async for frame in stream] == []


async def test_what_is_sent_after_the_end_is_refused() -> None:
    late: list[asyncio.Task[None]] = []

    async def serve(stream: FrameStream) -> CapabilityResponse:
        async def straggle() -> None:
            await gate.wait()
            await stream.send("token", {})

        late.append(asyncio.create_task(straggle()))
        return CapabilityResponse(None, {})

    gate = asyncio.Event()
    frames = await collected(FrameStream(serve))
    gate.set()
    with pytest.raises(BusError, match="nobody reads"):
        await late[0]

    assert [frame.event for frame in frames] == ["done"]


async def test_a_sender_that_waits_when_the_stream_ends_is_let_go() -> None:
    others: list[asyncio.Task[None]] = []

    async def serve(stream: FrameStream) -> CapabilityResponse:
        async def flood() -> None:
            while True:
                await stream.send("token", {})

        others.append(asyncio.create_task(flood()))
        await stream.send("token", {})
        return CapabilityResponse(None, {})

    async with asyncio.timeout(PATIENCE):
        frames = await collected(FrameStream(serve, room=1))
        with pytest.raises(BusError):
            await others[0]

    assert frames[-1].event == "done"


async def test_an_answer_is_taken_once_and_only_while_somebody_waits() -> None:
    async def serve(stream: FrameStream) -> CapabilityResponse:
        await stream.send("tool_call", {"id": "t"})
        return CapabilityResponse(await stream.answer("t"), {})

    async with asyncio.timeout(PATIENCE), FrameStream(serve, interactive=True) as stream:
        await anext(stream)
        await stream.tool_result("t", [1])
        for wrong in ("t", "other"):
            with pytest.raises(BusError, match="waits for an answer"):
                await stream.tool_result(wrong, [2])
        result, _ = [frame async for frame in stream]
        with pytest.raises(BusError):
            await stream.tool_result("t", [3])

    assert result.data == {"body": [1], "is_error": False}


async def test_a_handler_that_gave_up_waiting_once_may_wait_again_and_ask_again() -> None:
    async def serve(stream: FrameStream) -> CapabilityResponse:
        await stream.send("tool_call", {"id": "t"})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await stream.answer("t")
        await stream.send("token", {})
        first = await stream.answer("t")
        await stream.send("tool_call", {"id": "t"})
        return CapabilityResponse({"said": [first["body"], (await stream.answer("t"))["body"]]}, {})

    async with asyncio.timeout(PATIENCE), FrameStream(serve, interactive=True) as stream:
        await anext(stream)
        for said in ("one", "two"):
            assert (await anext(stream)).event in ("token", "tool_call")
            await stream.tool_result("t", said)
        result, _ = [frame async for frame in stream]

    assert result.data == {"said": ["one", "two"]}


async def test_who_cannot_answer_is_not_waited_for() -> None:
    async def serve(stream: FrameStream) -> CapabilityResponse:
        await stream.send("tool_call", {"id": "t"})
        with pytest.raises(RuntimeError, match="nobody was asked"):
            await stream.answer("t")
        return CapabilityResponse(None, {})

    frames = await collected(FrameStream(serve))

    assert [frame.event for frame in frames] == ["tool_call", "done"]


async def test_an_unforeseen_exception_is_an_end_too_and_its_words_stay_here(caplog: pytest.LogCaptureFixture) -> None:
    async def serve(stream: FrameStream) -> CapabilityResponse:
        raise ValueError("swordfish")

    (last,) = await collected(FrameStream(serve))

    assert last.data["error"] == "internal_error"
    assert "swordfish" not in str(last) + caplog.text
