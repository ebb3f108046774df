"""Where a text lies while a run reads it: in a file of the user's, which must not change, or in one without a name."""

from __future__ import annotations

import codecs
import dataclasses
import os
import select
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from handrail.core.errors import UsageError
from handrail.rlm.contexts.scan import ContextFileChanged, open_unchanged, stamp

Form = Literal["utf-8", "utf-16", "utf-32", "pdf", "binary", "special"]
"""Special: the kernel makes it up as it is read, and says that it is empty."""

_HEAD = 4096
_PIECE = 1 << 20
_LOOK_UP = 200
"""Milliseconds: a thread that waits for a pipe cannot be ended, and has to see for itself that it should."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file as it was when it was listed. It is opened for each look and held open by none."""

    path: Path
    stamp: list[int]
    form: Form
    start: int
    """Its text begins behind a byte order mark, if there is one."""

    @classmethod
    def at(cls, path: Path, status: os.stat_result) -> ListedFile:
        """Looks at its first bytes.

        Raises:
            ContextFileChanged: It cannot be read, or is another one already.
            OSError: Nothing can be opened just now.
        """
        file = open_unchanged(str(path), stamp(status))
        try:
            head = os.pread(file, _HEAD, 0)
        except OSError as error:
            raise ContextFileChanged(error.strerror or "it cannot be read") from error
        finally:
            os.close(file)
        return cls(path, stamp(status), *(detect_encoding(head) if status.st_size or not head else ("special", 0)))

    @property
    def end(self) -> int:
        return self.stamp[2]

    def open(self) -> int:
        """A descriptor of the file; `ContextFileChanged` if it is not the same any more."""
        return open_unchanged(str(self.path), self.stamp)

    def for_scan(self) -> dict[str, Any]:
        return {"path": str(self.path), "stamp": self.stamp, "start": self.start, "end": self.end}

    def fingerprint(self) -> str:
        return f"{self.end} bytes of {self.stamp[3]}"

    def close(self) -> None:
        """Does nothing: nothing is held."""


@dataclass(frozen=True, slots=True)
class SpilledText:
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


Stored = ListedFile | SpilledText


class TextPile:
    """Texts that are made one by one, in one file: however many they are, it takes one descriptor."""

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._one = threading.Lock()
        """Somebody who waits no more may have left a thread behind that still writes."""

    def add(self, pieces: Iterable[bytes]) -> SpilledText:
        with self._one:
            if self._file is None:
                self._file = _nameless()
            self._file.seek(0, os.SEEK_END)
            written = _written(self._file, pieces)
            self._file.flush()
            return written

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def spill(pieces: Iterable[bytes]) -> SpilledText:
    return spill_all([pieces])[0]


def spill_bytes(stream: BinaryIO, stop: threading.Event) -> SpilledText:
    """Stores all that comes, in the encoding that its first bytes tell.

    Raises:
        SpillAbandoned: It was told to stop before the end came.
    """
    raw = spill(_streamed(stream, stop))
    form, skipped = detect_encoding(os.pread(raw.file.fileno(), _HEAD, 0))
    return dataclasses.replace(raw, form=form, start=raw.start + skipped)


def spill_all(texts: Iterable[Iterable[bytes]]) -> list[SpilledText]:
    """Write texts to one file that has no name: it is gone when it is closed, however we end."""
    file = _nameless()
    try:
        written = [_written(file, pieces) for pieces in texts]
        file.flush()
    except BaseException:
        file.close()
        raise
    return written


def _nameless() -> BinaryIO:
    return cast(BinaryIO, tempfile.TemporaryFile())


def _written(file: BinaryIO, pieces: Iterable[bytes]) -> SpilledText:
    start, hashed = file.tell(), sha256()
    for piece in pieces:
        file.write(piece)
        hashed.update(piece)
    return SpilledText(file, start, file.tell(), hashed.hexdigest())


def encode_utf8(text: str) -> Iterator[bytes]:
    """UTF-8, piece by piece. Half a surrogate pair is no character, and becomes a question mark."""
    for at in range(0, len(text), _PIECE):
        yield text[at : at + _PIECE].encode("utf-8", "replace")


class SpillAbandoned(Exception):
    """Nobody waits for the text any more."""


def _streamed(stream: Any, stop: threading.Event) -> Iterator[bytes]:
    ready = _ready(stream)
    read = stream.read if ready is None else getattr(stream, "read1", stream.read)
    while not stop.is_set():
        if ready is not None and not ready(_LOOK_UP):
            continue
        piece = read(_PIECE)
        if not piece:
            return
        if not isinstance(piece, bytes):
            raise UsageError(f"a stream must give bytes, not {type(piece).__name__}; open the file with 'rb'")
        yield piece
    raise SpillAbandoned


def _ready(stream: Any) -> Callable[[int], object] | None:
    """Waits for so many milliseconds until something can be read, if that can be waited for."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, OSError):
        return None
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return waiting.poll


def raw_pieces(stored: Stored) -> Iterator[bytes]:
    """Its bytes as they are.

    Raises:
        ContextFileChanged: The file is not the same any more.
    """
    file, at = stored.open(), stored.start
    try:
        while at < stored.end:
            piece = os.pread(file, min(_PIECE, stored.end - at), at)
            if not piece:
                raise ContextFileChanged("it became shorter")
            at += len(piece)
            yield piece
    finally:
        os.close(file)


def as_utf8(stored: Stored) -> Iterator[bytes]:
    """What is in another encoding, which its form names."""
    decoder = codecs.getincrementaldecoder(stored.form)("replace")
    for piece in raw_pieces(stored):
        yield decoder.decode(piece).encode()
    yield decoder.decode(b"", True).encode()


def detect_encoding(head: bytes) -> tuple[Form, int]:
    """What the first bytes of a file say of it, and how many of them are not its text."""
    if head.startswith(b"%PDF-"):
        return "pdf", 0
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32", 0
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", 0
    if b"\0" in head:
        return "binary", 0
    return "utf-8", len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
