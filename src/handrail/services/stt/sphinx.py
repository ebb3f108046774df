"""PocketSphinx: English, on this machine alone. It is small and often wrong; the docs say so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from handrail.services.stt.sound import Sound

Segment = dict[str, Any]
_LONGEST = 30.0
"""Seconds of speech after which a segment ends even without a pause."""
_BEFORE, _AFTER = 0.4, 0.2
"""Seconds around it that are listened to as well: soft sounds at its ends are taken for silence."""


class SphinxRecogniser:
    """Its model is loaded for each recording: a decoder remembers the last speaker."""

    language = "en"

    @staticmethod
    def missing() -> bool:
        return find_spec("pocketsphinx") is None

    def segments(self, sound: Sound, stop: threading.Event) -> Iterator[Segment]:
        """What is said between two pauses, one after the other. In a thread; ends soon after `stop` is set."""
        from pocketsphinx import Decoder

        decoder = Decoder(samprate=sound.rate, loglevel="FATAL")
        for start, end, speech in _speech(sound, stop):
            if stop.is_set():
                return
            decoder.start_utt()
            decoder.process_raw(speech, full_utt=True)
            decoder.end_utt()
            heard = decoder.hyp()
            if heard is not None and heard.hypstr.strip():
                yield {"start": round(start, 2), "end": round(end, 2), "text": heard.hypstr.strip()}


def _speech(sound: Sound, stop: threading.Event) -> Iterator[tuple[float, float, bytes]]:
    """The stretches in which somebody speaks: from when, until when, and the samples."""
    last = 0.0
    for start, end in _stretches(sound, stop):
        from_, until = max(last, start - _BEFORE), min(sound.seconds, end + _AFTER)
        yield start, end, sound.samples[2 * int(from_ * sound.rate) : 2 * int(until * sound.rate)]
        last = end


def _stretches(sound: Sound, stop: threading.Event) -> Iterator[tuple[float, float]]:
    from pocketsphinx import Endpointer

    pauses = Endpointer(sample_rate=sound.rate)
    size, began = pauses.frame_bytes, None
    for at in range(0, len(sound.samples), size):
        if stop.is_set():
            return
        piece = sound.samples[at : at + size]
        if len(piece) < size:
            pauses.end_stream(piece)
        else:
            pauses.process(piece)
        now = at / 2 / sound.rate
        if began is None and pauses.in_speech:
            began = pauses.speech_start
        elif began is not None and not pauses.in_speech:
            yield began, pauses.speech_end
            began = None
        elif began is not None and now - began > _LONGEST:
            yield began, now
            began = now
    if began is not None:
        yield began, sound.seconds
