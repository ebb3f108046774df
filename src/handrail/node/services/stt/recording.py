"""Recordings: 16-bit PCM in a WAV file, as one channel. Anything else is refused with how to convert it."""

from __future__ import annotations

import array
import io
import sys
import wave

from msgspec import Struct

from handrail.core.errors import BusError

LONGEST = 3_600.0
"""Seconds."""
_RATES = range(16_000, 48_001)
_HOW = "convert it: ffmpeg -i IN -ar 16000 -ac 1 -c:a pcm_s16le OUT.wav"


class PcmRecording(Struct, frozen=True):
    rate: int
    samples: bytes
    """Little-endian, 16 bits each, of one channel."""

    @property
    def seconds(self) -> float:
        return len(self.samples) / 2 / self.rate


def read_recording(data: bytes) -> PcmRecording:
    """The samples of a WAV file, mixed to one channel.

    Raises:
        BusError: It is no such recording (`bad_request`).
    """
    try:
        with wave.open(io.BytesIO(data)) as file:
            channels, width, rate = file.getnchannels(), file.getsampwidth(), file.getframerate()
            frames = file.readframes(file.getnframes())
    except (wave.Error, EOFError, ValueError, RuntimeError, MemoryError) as error:  # the module raises all of these
        raise BusError("bad_request", f"these bytes are not a WAV recording; {_HOW}") from error
    if width != 2 or rate not in _RATES or channels not in (1, 2):
        found = f"{8 * width} bits, {rate} Hz, {channels} channels"
        raise BusError("bad_request", f"a recording has 16 bits, 16 to 48 kHz and 1 or 2 channels, not {found}; {_HOW}")
    frames = frames[: len(frames) // (2 * channels) * 2 * channels]  # a file that was cut may end in half a sample
    sound = PcmRecording(rate, frames if channels == 1 else _mixed(frames))
    if sound.seconds > LONGEST:
        raise BusError("bad_request", f"a recording has at most {LONGEST:g} seconds; send it in pieces")
    return sound


def _mixed(frames: bytes) -> bytes:
    """Two channels as one."""
    both = array.array("h", frames)
    if sys.byteorder == "big":
        both.byteswap()
    mixed = array.array("h", ((left + right) // 2 for left, right in zip(both[::2], both[1::2], strict=True)))
    if sys.byteorder == "big":
        mixed.byteswap()
    return mixed.tobytes()
