"""`stt.transcribe@1.0`: each segment is sent as it is understood; whoever does not listen gets them all at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from handrail.core.errors import BusError
from handrail.core.installation import install_command
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.node.bus.interfaces import Handler
from handrail.node.bus.request import RouteRequest
from handrail.node.services import schema_parts as shape
from handrail.node.services.blobs import BlobStore
from handrail.node.services.stt.recording import read_recording
from handrail.node.services.stt.remote import RemoteRecogniser
from handrail.node.services.stt.sphinx import SphinxRecogniser

_SECONDS = {"type": "number", "minimum": 0}
_SEGMENT = shape.full_object({"start": _SECONDS, "end": _SECONDS, "text": shape.TEXT})
TRANSCRIBE = CapabilityDescriptor(
    name="stt.transcribe",
    description="Transcribe a recording, segment by segment.",
    request_schema=shape.request_schema_of(
        shape.closed_object(
            {
                "audio_cid": shape.CID,
                "language": {
                    **shape.LANGUAGE,
                    "description": "The spoken language, such as `de`. The local recogniser knows `en`.",
                },
                "diarize": {"type": "boolean", "default": False, "description": "Tell the speakers apart."},
                "translate_to_en": {"type": "boolean", "default": False},
            },
            ["audio_cid"],
        ),
        shape.closed_object(
            {
                "backend": shape.choice("local", "service"),
                "model": shape.text(0, 100, "A model of the service; `local` has only one."),
            }
        ),
    ),
    response_schema=shape.full_object({"text": shape.TEXT, "segments": shape.array(_SEGMENT)}),
    stream_schema={"segment": _SEGMENT},
    timeout_seconds=600,
    max_concurrent=2,
    untrusted=True,
)


class SttService:
    """The service `stt` of a node: speech as text."""

    def __init__(
        self,
        blobs: BlobStore,
        *,
        recogniser: SphinxRecogniser | None = None,
        service: RemoteRecogniser | None = None,
    ) -> None:
        self._blobs = blobs
        self._recogniser = recogniser if recogniser is not None or SphinxRecogniser.missing() else SphinxRecogniser()
        self._service = service

    def capabilities(self) -> Iterator[tuple[CapabilityDescriptor, Handler]]:
        yield TRANSCRIBE, self.transcribe

    async def transcribe(self, request: RouteRequest) -> dict[str, Any]:
        if request.input.get("diarize"):
            raise BusError("not_implemented", "this node cannot tell speakers apart; leave `diarize` out")
        backend = request.params.get("backend") or ("local" if self._service is None else "service")
        media_type, data = await self._blobs.read(request.input["audio_cid"], request.caller.id)
        found = []
        heard = self._recognise(request, data) if backend == "local" else self._ask_service(request, media_type, data)
        async with aclosing(heard):
            async for segment in heard:
                found.append(segment)
                await request.send("segment", segment)
        text = " ".join(each["text"] for each in found)
        return {"output": {"text": text, "segments": found}, "meta": {"backend": backend}}

    async def _ask_service(
        self, request: RouteRequest, media_type: str, data: bytes
    ) -> AsyncGenerator[dict[str, Any], None]:
        if self._service is None:
            raise BusError("not_implemented", f"this node has no service for speech; on that node: {_how_to_add()}")
        language, english = request.input.get("language"), bool(request.input.get("translate_to_en"))
        model = request.params.get("model")
        for segment in await self._service.segments(media_type, data, language=language, english=english, model=model):
            yield segment

    async def _recognise(self, request: RouteRequest, data: bytes) -> AsyncGenerator[dict[str, Any], None]:
        language = request.input.get("language", "en").lower()
        if self._recogniser is None:
            raise BusError("not_implemented", f"this node cannot transcribe speech; on that node: {_how_to_add()}")
        if language != self._recogniser.language:
            known = f"the local recogniser knows {self._recogniser.language!r}, not {language!r}"
            raise BusError("not_implemented", f"{known}; on that node: {_how_to_add()}")
        sound = await asyncio.to_thread(read_recording, data)
        async with aclosing(self._recogniser.segments(sound)) as segments:
            async for segment in segments:
                yield segment


def _how_to_add() -> str:
    add = install_command("stt", shows_folder=False)
    return f'{add} for English, or name a service: [services] stt = {{ url = "…", key = "env:…" }}'
