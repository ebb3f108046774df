"""Understands one recording in a process of its own: samples on standard input, a line of JSON for each segment.

It is run as a file and knows nothing of handrail. PocketSphinx lets no other thread of
its process run while it listens, and cannot be interrupted; a process can be killed.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator

_MEMORY = 2 << 30
_LONGEST = 30.0
"""Seconds of speech after which a segment ends even without a pause."""
_BEFORE, _AFTER = 0.4, 0.2
"""Seconds around it that are listened to as well: soft sounds at its ends are taken for silence."""


def main() -> int:
    from pocketsphinx import Decoder

    rate = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    samples = sys.stdin.buffer.read()
    decoder = Decoder(samprate=rate, loglevel="FATAL")
    for start, end, speech in _speech(samples, rate):
        decoder.start_utt()
        decoder.process_raw(speech, full_utt=True)
        decoder.end_utt()
        heard = decoder.hyp()
        if heard is not None and heard.hypstr.strip():
            segment = {"start": round(start, 2), "end": round(end, 2), "text": heard.hypstr.strip()}
            _say(segment)
    _say(None)
    return 0


def _say(segment: dict[str, object] | None) -> None:
    """Writes one line; None is the end."""
    sys.stdout.write(f"{json.dumps(segment)}\n")
    sys.stdout.flush()


def _speech(samples: bytes, rate: int) -> Iterator[tuple[float, float, bytes]]:
    """The stretches in which somebody speaks: from when, until when, and the samples."""
    last, whole = 0.0, len(samples) / 2 / rate
    for start, end in _stretches(samples, rate):
        from_, until = max(last, start - _BEFORE), min(whole, end + _AFTER)
        yield start, end, samples[2 * int(from_ * rate) : 2 * int(until * rate)]
        last = end


def _stretches(samples: bytes, rate: int) -> Iterator[tuple[float, float]]:
    from pocketsphinx import Endpointer

    pauses = Endpointer(sample_rate=rate)
    size, began = pauses.frame_bytes, None
    for at in range(0, len(samples), size):
        piece = samples[at : at + size]
        if len(piece) < size:
            pauses.end_stream(piece)
        else:
            pauses.process(piece)
        now = at / 2 / rate
        if began is None and pauses.in_speech:
            began = pauses.speech_start
        elif began is not None and not pauses.in_speech:
            yield began, pauses.speech_end
            began = None
        elif began is not None and now - began > _LONGEST:
            yield began, now
            began = now
    if began is not None:
        yield began, len(samples) / 2 / rate


if __name__ == "__main__":
    sys.exit(main())
