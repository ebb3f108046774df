"""The side that asks: every way in which a peer can be wrong is an error with a name, and never an empty answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RequestRefused, UsageError
from handrail.core.framing import FrameError, FrameSplitter, length_prefixed
from handrail.rlm.socket.wire import ask, request_of, response_of, send_lm_request
from handrail.rlm.values import LMRequest, LMResponse, RLMChatCompletion

ANSWER = LMResponse(chat_completion=RLMChatCompletion(root_model="m", prompt="?", response="yes"))
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def packed(message: Any) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


@asynccontextmanager
async def peer(serve: Serve) -> AsyncIterator[tuple[str, int]]:
    """Somebody who answers a connection as a test says."""
    tasks: set[asyncio.Task[None]] = set()

    def arrived(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def go() -> None:
            try:
                await serve(reader, writer)
            finally:
                writer.close()

        tasks.add(asyncio.get_running_loop().create_task(go()))

    server = await asyncio.start_server(arrived, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def blocking_peer(*pieces: bytes) -> Iterator[tuple[str, int]]:
    """Reads one whole request and sends these pieces, each by itself; then hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(20)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            frames = FrameSplitter()
            while not list(frames.feed(connection.recv(65_536))):
                pass
            for piece in pieces:
                connection.sendall(piece)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        thread.join()
        listener.close()


def saying(*pieces: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(length)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    return serve


WRONG: dict[str, tuple[bytes, type[ModelError]]] = {
    "nothing at all": (b"", ModelUnavailable),
    "half of a length": (b"\0\0", ProtocolError),
    "half of a message": (packed(ANSWER.to_dict())[:-3], ProtocolError),
    "an empty object, as rlms reads a dead peer": (packed({}), ProtocolError),
    "no text": (packed(b"\xff\xfe\xfd"), ProtocolError),
    "no JSON": (packed(b"HTTP/1.1 200 OK"), ProtocolError),
    "a list": (packed([1]), ProtocolError),
    "a number where an error belongs": (packed({"error": 3}), ProtocolError),
    "a completion without its parts": (packed({"chat_completion": {"response": "x"}}), ProtocolError),
    "a completion that is null inside": (
        packed({"chat_completion": {"root_model": "m", "prompt": "", "response": None}}),
        ProtocolError,
    ),
    "a length beyond the limit": (b"\xff\xff\xff\xff" + b"x" * 100, ProtocolError),
    "nothing but depth": (packed(b"[" * 100_000), ProtocolError),
}


@pytest.mark.parametrize(("said", "kind"), WRONG.values(), ids=WRONG)
async def test_a_wrong_answer_is_an_error_with_a_name(said: bytes, kind: type[ModelError]) -> None:
    async with peer(saying(said)) as address, asyncio.timeout(20):
        with pytest.raises(ModelError) as caught:
            await ask(address, LMRequest(prompt="?"), limit=1_000_000)
    assert type(caught.value) is kind


@pytest.mark.parametrize(("said", "kind"), WRONG.values(), ids=WRONG)
def test_the_blocking_client_says_the_same_in_its_response(said: bytes, kind: type[ModelError]) -> None:
    with blocking_peer(said) as address:
        response = send_lm_request(address, LMRequest(prompt="?"), 20, limit=1_000_000)

    assert not response.success and response.chat_completion is None
    assert response.metadata == {"error_type": kind.code}


async def test_an_answer_may_arrive_byte_by_byte() -> None:
    pieces = [bytes([each]) for each in packed(ANSWER.to_dict())]
    async with peer(saying(*pieces)) as address, asyncio.timeout(20):
        assert await ask(address, LMRequest(prompt="?")) == ANSWER
    with blocking_peer(*pieces) as address:
        assert await asyncio.to_thread(send_lm_request, address, LMRequest(prompt="?"), 20) == ANSWER


async def test_nobody_there_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        await ask(address, LMRequest(prompt="?"))
    for where in (address, ("127.0.0.1", 1_000_000), ("a..b", 80), "/nowhere/at/all.sock", Path("/nowhere")):
        assert "cannot be reached" in (send_lm_request(where, LMRequest(prompt="?")).error or "")


async def test_a_peer_that_never_answers_is_not_waited_for_beyond_the_timeout() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with peer(serve) as address, asyncio.timeout(20):
        with pytest.raises(ModelUnavailable, match=r"no answer within 0\.05 s"):
            await ask(address, LMRequest(prompt="?"), 0.05)
        late = await asyncio.to_thread(send_lm_request, address, LMRequest(prompt="?"), 0.05)
    assert "no answer within" in (late.error or "")


async def test_a_request_beyond_the_limit_is_not_sent() -> None:
    with pytest.raises(RequestRefused, match="at most 100"):
        await ask(("127.0.0.1", 1), LMRequest(prompt="x" * 200), limit=100)
    assert "at most 100" in (send_lm_request(("127.0.0.1", 1), LMRequest(prompt="x" * 200), limit=100).error or "")


async def test_half_a_surrogate_pair_is_refused_before_it_is_sent() -> None:
    with pytest.raises(RequestRefused, match="not JSON"):
        await ask(("127.0.0.1", 1), LMRequest(prompt="\ud800"))


async def test_who_stops_waiting_hangs_up() -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await reader.read()
        left.set()

    async with peer(serve) as address, asyncio.timeout(20):
        task = asyncio.create_task(ask(address, LMRequest(prompt="?")))
        await asked.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await left.wait()


def test_a_message_of_very_many_values_is_refused_before_they_are_made() -> None:
    many = b'{"prompts": [' + b",".join([b"[]"] * 300_000) + b"]}"
    with pytest.raises(UsageError, match="more than 250,000 values"):
        request_of(many)
    with pytest.raises(ProtocolError, match="more than 250,000 values"):
        response_of(many)
    long = json.dumps({"prompt": "[]," * 300_000}).encode()
    assert request_of(long).prompt == "[]," * 300_000


def test_a_request_is_written_as_rlms_writes_it() -> None:
    from rlm.core.comms_utils import LMRequest as Upstream

    for fields in ({"prompt": "a", "depth": 1}, {"prompts": ["a", "b"], "model": "m", "depth": 0}):
        assert LMRequest(**fields).to_dict() == Upstream(**fields).to_dict()  # type: ignore[arg-type]  # plain fields
        assert request_of(json.dumps(Upstream(**fields).to_dict()).encode()) == LMRequest(**fields)  # type: ignore[arg-type]  # plain fields


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PROMPT = TEXT | st.lists(st.fixed_dictionaries({"role": TEXT, "content": TEXT}), max_size=3)


@given(
    st.builds(
        LMRequest,
        prompt=st.none() | PROMPT,
        prompts=st.none() | st.lists(PROMPT, max_size=3),
        model=st.none() | TEXT,
        depth=st.integers(-1, 5),
        tool_choice=st.none() | TEXT,
    ),
    st.lists(st.integers(0, 400), max_size=6),
)
def test_a_request_is_read_back_however_its_bytes_are_cut(request: LMRequest, places: list[int]) -> None:
    data = length_prefixed(request.to_dict())
    at = sorted({0, len(data), *(min(place, len(data)) for place in places)})
    frames = FrameSplitter()
    found = [body for start, end in pairwise(at) for body in frames.feed(data[start:end])]

    assert [request_of(body) for body in found] == [request]


@given(st.binary())
def test_any_bytes_are_a_request_or_an_error_with_words(body: bytes) -> None:
    with contextlib.suppress(UsageError):
        assert isinstance(request_of(body), LMRequest)
    with contextlib.suppress(ProtocolError):
        assert isinstance(response_of(body), LMResponse)
    with pytest.raises(FrameError):
        list(FrameSplitter(10).feed(b"\xff" + b"x" * 3 + body))
