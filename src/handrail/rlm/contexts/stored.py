"""Where a text lies while a run reads it: in a file of the user's, which must not change, or in one without a name."""

from __future__ import annotations

import codecs
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from handrail.rlm.contexts.scan import open_unchanged, stamp

Form = Literal["utf-8", "utf-16", "pdf", "binary"]

_HEAD = 4096
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A file as it was when it was listed. It is opened for each look and held open by none."""

    path: Path
    stamp: list[int]
    form: Form
    start: int
    """Its text begins behind a byte order mark, if there is one."""

    @classmethod
    def at(cls, path: Path, status: os.stat_result) -> OnDisk:
        """Looks at its first bytes.

        Raises:
            Changed: It cannot be opened, or is another one already.
        """
        file = open_unchanged(str(path), stamp(status))
        try:
            head = os.pread(file, _HEAD, 0)
        finally:
            os.close(file)
        return cls(path, stamp(status), *_recognised(head))

    @property
    def end(self) -> int:
        return self.stamp[2]

    def open(self) -> int:
        """Raises:
        Changed: It is not the same file any more.
        """
        return open_unchanged(str(self.path), self.stamp)

    def for_scan(self) -> dict[str, Any]:
        return {"path": str(self.path), "stamp": self.stamp, "start": self.start, "end": self.end}

    def fingerprint(self) -> str:
        return f"{self.end} bytes of {self.stamp[3]}"

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class Spilled:
    """A text that was handed to us, or that we made of a file: on disk, so that it takes no memory while it waits."""

    file: BinaryIO
    """Several texts may lie in one file."""
    start: int
    end: int
    digest: str
    form: Form = "utf-8"

    def open(self) -> int:
        return os.dup(self.file.fileno())

    def for_scan(self) -> dict[str, Any]:
        return {"fd": self.file.fileno(), "start": self.start, "end": self.end}

    def fingerprint(self) -> str:
        return self.digest

    def close(self) -> None:
        self.file.close()


Stored = OnDisk | Spilled


def spill(pieces: Iterable[bytes]) -> Spilled:
    return spill_all([pieces])[0]


def spill_all(texts: Iterable[Iterable[bytes]]) -> list[Spilled]:
    """Write texts to one file that has no name: it is gone when it is closed, however we end."""
    file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - it lives as long as the texts do
    try:
        written = [_written(file, pieces) for pieces in texts]
        file.flush()
    except BaseException:
        file.close()
        raise
    return written


def _written(file: BinaryIO, pieces: Iterable[bytes]) -> Spilled:
    start, hashed = file.tell(), sha256()
    for piece in pieces:
        file.write(piece)
        hashed.update(piece)
    return Spilled(file, start, file.tell(), hashed.hexdigest())


def encoded(text: str) -> Iterator[bytes]:
    """UTF-8, piece by piece. Half a surrogate pair is no character, and becomes a question mark."""
    for at in range(0, len(text), _PIECE):
        yield text[at : at + _PIECE].encode("utf-8", "replace")


def streamed(stream: BinaryIO) -> Iterator[bytes]:
    """All that comes, without a byte order mark."""
    if head := stream.read(_PIECE):
        yield head.removeprefix(codecs.BOM_UTF8)
    while piece := stream.read(_PIECE):
        yield piece


def from_utf16(stored: Stored) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    with os.fdopen(stored.open(), "rb") as file:
        while piece := file.read(_PIECE):
            yield decoder.decode(piece).encode()
    yield decoder.decode(b"", True).encode()


def _recognised(head: bytes) -> tuple[Form, int]:
    if head.startswith(b"%PDF-"):
        return "pdf", 0
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", 0
    if b"\0" in head:
        return "binary", 0
    return "utf-8", len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
