"""`stt.transcribe` on recordings of a synthetic voice (made with flite), with the real recogniser."""

from __future__ import annotations

import asyncio
import io
import sys
import wave
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given, strategies as st

from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.node.capability_bus import CapabilityBus
from handrail.node.services.blobs import BlobStore
from handrail.node.services.stt.recording import read_recording
from handrail.node.services.stt.remote import RemoteRecogniser
from handrail.node.services.stt.service import SttService
from tests.processes import children

DATA = Path(__file__).parent / "data"
GO, DOOR = ((DATA / name).read_bytes() for name in ("go-forward.wav", "open-the-door.wav"))


def recording(*pieces: bytes, rate: int = 16_000, channels: int = 1, width: int = 2) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(b"".join(pieces))
    return out.getvalue()


def samples(data: bytes) -> bytes:
    with wave.open(io.BytesIO(data)) as file:
        frames: bytes = file.readframes(file.getnframes())
        return frames


SILENCE = bytes(2 * 16_000)
BOTH = recording(SILENCE, samples(GO), SILENCE, samples(DOOR), SILENCE)


class Node:
    def __init__(self, folder: Path, **options: Any) -> None:
        self.blobs = BlobStore(folder)
        self.bus = CapabilityBus()
        self.bus.register_service(SttService(self.blobs, **options))

    async def body(self, data: bytes, **asked: Any) -> dict[str, Any]:
        return {"input": {"audio_cid": await self.blobs.put(data, "audio/wav", "self"), **asked}}


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = Node(tmp_path)
    async with made.bus:
        yield made
    made.blobs.close()


async def test_segments_come_one_by_one_and_then_done(node: Node) -> None:
    async with node.bus.stream("stt.transcribe", (1, 0), await node.body(BOTH)) as stream:
        frames = [frame async for frame in stream]

    assert [frame.event for frame in frames] == ["segment", "segment", "done"]
    first, second = (frame.data for frame in frames[:2])
    assert first["text"].startswith("go forward ten")
    assert second["text"].endswith("turn on the light")
    assert 0.5 < first["start"] < first["end"] < second["start"] < second["end"] < 7


async def test_who_does_not_listen_gets_the_whole_text(node: Node) -> None:
    said = await node.bus.call("stt.transcribe", (1, 0), await node.body(GO))

    assert said["output"]["text"].startswith("go forward ten")
    assert said["output"]["segments"][0]["text"] == said["output"]["text"]
    assert said["meta"]["backend"] == "local"
    assert "pocketsphinx" not in sys.modules  # in this process it would hold up everything else


async def test_two_channels_are_heard_as_one(node: Node) -> None:
    mono = samples(GO)
    stereo = b"".join(mono[at : at + 2] * 2 for at in range(0, len(mono), 2))
    said = await node.bus.call("stt.transcribe", (1, 0), await node.body(recording(stereo, channels=2)))
    assert said["output"]["text"].startswith("go forward ten")


async def test_silence_says_nothing(node: Node) -> None:
    said = await node.bus.call("stt.transcribe", (1, 0), await node.body(recording(SILENCE)))
    assert said["output"] == {"text": "", "segments": []}


@pytest.mark.parametrize(
    ("asked", "why"),
    [({"language": "de"}, "knows 'en', not 'de'"), ({"diarize": True}, "cannot tell speakers apart")],
)
async def test_what_the_small_recogniser_cannot_do_is_not_implemented(
    node: Node, asked: dict[str, Any], why: str
) -> None:
    with pytest.raises(BusError, match=why) as seen:
        await node.bus.call("stt.transcribe", (1, 0), await node.body(GO, **asked))
    assert seen.value.code == "not_implemented"


@pytest.mark.parametrize(
    "wrong", [b"", b"RIFF", GO[:30], recording(SILENCE, rate=8_000), recording(SILENCE, width=1)], ids=len
)
async def test_another_format_is_refused_with_how_to_convert_it(node: Node, wrong: bytes) -> None:
    with pytest.raises(BusError, match="ffmpeg") as seen:
        await node.bus.call("stt.transcribe", (1, 0), await node.body(wrong))
    assert seen.value.code == "bad_request"


@given(st.binary(max_size=200), st.integers(0, 60))
def test_any_bytes_are_a_recording_or_refused(rest: bytes, kept: int) -> None:
    try:
        sound = read_recording(GO[:kept] + rest)
    except BusError as error:
        assert error.code == "bad_request"
    else:
        assert sound.seconds >= 0
        assert len(sound.samples) % 2 == 0


async def test_a_service_is_asked_instead_where_one_is_named(tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    async def transcriptions(request: web.Request) -> web.Response:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        asked.update(path=request.path, key=request.headers["authorization"], language=form.get("language"))
        asked["model"] = form["model"]
        asked["file"] = file.file.read()
        return web.json_response({"text": "hallo", "segments": [{"id": 0, "start": 0.5, "end": 1, "text": " hallo"}]})

    app = web.Application()
    app.router.add_post("/v1/audio/transcriptions", transcriptions)
    async with TestServer(app) as server:
        service = RemoteRecogniser(str(server.make_url("/v1")), key=Secret("key-1"))
        node = Node(tmp_path, service=service)
        async with node.bus:
            body = {"params": {"model": "small"}, **await node.body(GO, language="de")}
            said = await node.bus.call("stt.transcribe", (1, 0), body)
        await service.aclose()

    assert said["output"] == {"text": "hallo", "segments": [{"start": 0.5, "end": 1.0, "text": "hallo"}]}
    assert asked.pop("file") == GO
    assert asked == {
        "path": "/v1/audio/transcriptions",
        "key": "Bearer key-1",
        "language": "de",
        "model": "small",
    }


@pytest.mark.parametrize(("status", "code"), [(401, "internal_error"), (429, "rate_limited"), (500, "internal_error")])
async def test_a_service_that_refuses_gives_its_code_and_no_key(tmp_path: Path, status: int, code: str) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=status, text="key-1 is wrong")

    app = web.Application()
    app.router.add_post("/audio/transcriptions", refuse)
    async with TestServer(app) as server:
        service = RemoteRecogniser(str(server.make_url("")), key=Secret("key-1"))
        node = Node(tmp_path, service=service)
        async with node.bus:
            with pytest.raises(BusError) as seen:
                await node.bus.call("stt.transcribe", (1, 0), await node.body(GO))
        await service.aclose()
    assert (seen.value.code, "key-1" in str(seen.value)) == (code, False)


async def test_leaving_early_ends_the_work(node: Node) -> None:
    before, there = asyncio.all_tasks(), children()
    async with node.bus.stream("stt.transcribe", (1, 0), await node.body(BOTH)) as stream:
        assert (await anext(stream)).event == "segment"
    async with asyncio.timeout(20):
        while asyncio.all_tasks() - before:
            await asyncio.wait(asyncio.all_tasks() - before)
    assert children() == there


async def test_a_recogniser_that_ends_before_it_is_done_is_an_error(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dies.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    monkeypatch.setattr("handrail.node.services.stt.sphinx._WORKER", tmp_path / "dies.py")

    with pytest.raises(BusError, match="before it was done") as seen:
        await node.bus.call("stt.transcribe", (1, 0), await node.body(GO))
    assert seen.value.code == "internal_error"
