"""Any service that speaks OpenAI's `/audio/transcriptions`."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from handrail.core.errors import BusError
from handrail.core.redact import Secret
from handrail.http import BadHttpAnswer, HttpAddress, HttpClient, request_head

Segment = dict[str, Any]
_STATUS = {429: "rate_limited"}
"""What is not the node's own fault, as a key that is not good would be."""
_LARGEST = 4 * 1024 * 1024


class _TranscriptionResponse(msgspec.Struct):
    text: str = ""
    segments: list[dict[str, Any]] = []


class RemoteRecogniser:
    def __init__(
        self, url: str, *, key: Secret | None = None, model: str = "whisper-1", client: HttpClient | None = None
    ):
        """`url` ends where the paths begin, as in `https://api.openai.com/v1`."""
        self._url = url.rstrip("/")
        self._key = key
        self._model = model
        self._client = client or HttpClient()

    async def segments(
        self, media_type: str, data: bytes, *, language: str | None, english: bool, model: str | None = None
    ) -> list[Segment]:
        """What is said in a recording, as the service understood it.

        Raises:
            BusError: The service cannot be reached, refuses, or answers something else.
        """
        path = "translations" if english else "transcriptions"
        border = os.urandom(12).hex()
        fields = {"model": model or self._model, "response_format": "verbose_json"}
        if language and not english:
            fields["language"] = language
        body = _form(border, fields, media_type, data)
        address = HttpAddress.of(f"{self._url}/audio/{path}")
        headers = {"content-type": f"multipart/form-data; boundary={border}", "accept": "application/json"}
        if self._key is not None:
            headers["authorization"] = f"Bearer {self._key}"
        return _read(*await self._ask(address, headers, body))

    async def _ask(self, address: HttpAddress, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        try:
            answer = await self._client.ask(address, request_head("POST", address, headers), body)
            try:
                read = bytearray()
                while piece := await answer.read():
                    read += piece
                    if len(read) > _LARGEST:
                        raise BusError("internal_error", "the answer of the speech service is too large")
            finally:
                answer.close()
        except (OSError, TimeoutError, BadHttpAnswer) as error:
            raise BusError("internal_error", f"the speech service cannot be reached: {error}") from error
        return answer.status, bytes(read)

    async def aclose(self) -> None:
        await self._client.aclose()


def _form(border: str, fields: dict[str, str], media_type: str, data: bytes) -> bytes:
    parts = [
        f'--{border}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
    ]
    file = f'--{border}\r\ncontent-disposition: form-data; name="file"; filename="sound"\r\n'
    return b"".join(
        [*parts, f"{file}content-type: {media_type}\r\n\r\n".encode(), data, f"\r\n--{border}--\r\n".encode()]
    )


def _read(status: int, body: bytes) -> list[Segment]:
    if status != 200:
        raise BusError(_STATUS.get(status, "internal_error"), f"the speech service answered with status {status}")
    try:
        said = msgspec.json.decode(body, type=_TranscriptionResponse)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BusError("internal_error", "the answer of the speech service cannot be read") from error
    if not said.segments:
        return [{"start": 0.0, "end": 0.0, "text": said.text.strip()}] if said.text.strip() else []
    return [_segment(each) for each in said.segments]


def _segment(said: dict[str, Any]) -> Segment:
    start, end, text = said.get("start"), said.get("end"), said.get("text")
    times = [float(each) if isinstance(each, int | float) else 0.0 for each in (start, end)]
    return {"start": times[0], "end": times[1], "text": str(text or "").strip()}
