"""`read_file`: text by lines or bytes, in which encoding it is, and a note on what is no text or does not fit."""

from __future__ import annotations

import codecs
import os
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from handrail.core.errors import ToolError
from handrail.library.io.confined_files import ConfinedFiles, ConfinedPath
from handrail.library.io.settings import IoLimits
from handrail.tools.tool import Tool, tool

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (
    # how it begins      what it is
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive, or a document that is one"),
    (b"\x1f\x8b", "gzip data"),
    (b"\x7fELF", "a program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"RIFF", "audio, video or a WebP image"),
    (b"OggS", "audio"),
    (b"ID3", "audio"),
)
_SAMPLE = 8_192
_CONTROLS = frozenset(range(32)) - frozenset(b"\t\n\r\f\x1b\b")


@dataclass(frozen=True, slots=True)
class TextEncoding:
    name: str
    mark: bytes = b""
    """What the file begins with to say so."""
    certain: bool = True

    def decode(self, data: bytes) -> str:
        return data.removeprefix(self.mark).decode(self.name, "replace")

    def encode(self, text: str) -> bytes:
        return self.mark + text.encode(self.name)

    @property
    def note(self) -> str:
        """What a reader should know, or nothing."""
        if not self.certain:
            return "it is not UTF-8 and was read as latin-1, so letters with accents may be wrong"
        return "" if self.name == "utf-8" else f"encoding {self.name}"


def encoding_of(data: bytes, *, whole: bool = True) -> TextEncoding | None:
    """The encoding of the bytes; None if they are no text. Without `whole` the last character may be cut."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return TextEncoding(name, mark)
    if b"\0" in data[:_SAMPLE]:
        return _utf16(data[:_SAMPLE])
    if binary_kind(data) is not None and not data[:_SAMPLE].isascii():
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data, final=whole)
    except UnicodeDecodeError:
        controls = sum(byte in _CONTROLS for byte in data[:_SAMPLE])
        return None if controls else TextEncoding("latin-1", certain=False)
    return TextEncoding("utf-8")


def binary_kind(data: bytes) -> str | None:
    """What binary data is, by how it begins."""
    return next((kind for begins, kind in _MAGIC if data.startswith(begins)), None)


def _utf16(sample: bytes) -> TextEncoding | None:
    """UTF-16 without a mark: every other byte of mostly western text is zero, and the others are not."""
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    half = len(sample) // 2
    for name, zeros, others in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if half and zeros > 0.7 * half and others == 0 and _readable(sample, name):
            return TextEncoding(name)
    return None


def _readable(sample: bytes, name: str) -> bool:
    try:
        text = codecs.getincrementaldecoder(name)().decode(sample)
    except UnicodeDecodeError:
        return False
    return not any(ord(character) in _CONTROLS for character in text)


_PIECE = 1024 * 1024
Count = Annotated[int, Meta(ge=0)]


def read_tool(confined: ConfinedFiles, limits: IoLimits) -> Tool:
    @tool(resource=lambda arguments: confined.territory(arguments["path"]))
    def read_file(
        path: str,
        offset: Count = 0,
        limit: Count | None = None,
        unit: Literal["lines", "bytes"] = "lines",
        numbered: bool = False,
    ) -> str:
        """Read a text file, or a part of it. A last line in brackets says what was left out or is odd.

        Args:
            path: Relative to the first root, `root:path`, or absolute inside a root.
            offset: How many lines (or bytes) to leave out at the beginning.
            limit: How many lines (or bytes) to read at most.
            unit: What offset and limit count.
            numbered: Put its number before each line.
        """
        place = confined.place(path)
        with confined.telling(place), confined.file(place) as (descriptor, about):
            if unit == "bytes":
                return _bytes(place, descriptor, about.st_size, offset, limit, limits)
            data = file_content(place, descriptor, about.st_size, limits)
        encoding = text_encoding(place, data, len(data))
        return _lines(encoding.decode(data), encoding, offset, limit, numbered, limits.read)

    return read_file


def file_content(place: ConfinedPath, descriptor: int, size: int, limits: IoLimits) -> bytes:
    """The whole content of a file that is not too large.

    Raises:
        ToolError: It is.
    """
    if size > limits.file:
        raise ToolError(
            "too_large",
            f"{place.shown!r} has {size:,} bytes, and at most {limits.file:,} are read as lines; "
            "read parts of it with unit='bytes'",
        )
    data = bytearray()
    while len(data) <= limits.file and (piece := os.read(descriptor, _PIECE)):
        data += piece
    if len(data) > limits.file:  # it grew, or is one of the files of the system that do not know their size
        raise ToolError("too_large", f"{place.shown!r} has no end within {limits.file:,} bytes")
    return bytes(data)


def text_encoding(place: ConfinedPath, data: bytes, size: int, *, whole: bool = True) -> TextEncoding:
    """Tells in which encoding a file's text is.

    Raises:
        ToolError: It is no text.
    """
    encoding = encoding_of(data, whole=whole)
    if encoding is None:
        kind = binary_kind(data) or "binary data"
        raise ToolError("binary", f"{place.shown!r} is not text but {kind} of {size:,} bytes")
    return encoding


def _lines(text: str, encoding: TextEncoding, offset: int, limit: int | None, numbered: bool, room: int) -> str:
    total = text.count("\n") + (text[-1:] not in ("", "\n"))
    # A file of nothing but line ends would else be millions of lines; each of those shown takes a place of the room.
    most = min(offset, total) + min(room + 1, room + 1 if limit is None else limit)
    chosen = text.split("\n", most)[offset : min(most, total)]
    shown: list[str] = []
    used = 0
    for number, line in enumerate(chosen, offset + 1):
        written = f"{number:>6}\t{line}" if numbered else line
        used += len(written) + 1
        if used > room and shown:
            break
        shown.append(written[:room])
    end = offset + len(shown)
    notes = [encoding.note]
    if offset or end < total:
        more = f"; go on with offset={end}" if end < total else ""
        notes.append(_part(offset, end, total, "lines") + more)
    elif not total:
        notes.append("the file is empty")
    if any(len(line) > room for line in chosen[: len(shown)]):
        notes.append(f"a line is longer than {room:,} characters and was cut; read it with unit='bytes'")
    return with_note("\n".join(shown), notes)


def _bytes(place: ConfinedPath, descriptor: int, size: int, offset: int, limit: int | None, limits: IoLimits) -> str:
    wanted = min(limits.read, limits.read if limit is None else limit)
    sample = os.pread(descriptor, 8_192, 0)
    data = os.pread(descriptor, wanted, offset)
    mark = text_encoding(place, sample, size, whole=False)
    encoding = mark if offset == 0 or mark.name != "utf-8" else TextEncoding("utf-8")
    end = offset + len(data)
    more = f"; go on with offset={end}" if end < size else ""
    return with_note(encoding.decode(data), [mark.note, _part(offset, end, size, "bytes") + more])


def _part(start: int, end: int, total: int, unit: str) -> str:
    if end <= start:
        return f"nothing there: the file has {total:,} {unit}"
    return f"{unit} {start + 1:,} to {end:,} of {total:,}"


def with_note(text: str, notes: list[str]) -> str:
    """A text with what is to be said of it, in brackets on a line of its own."""
    said = "; ".join(note for note in notes if note)
    if not said:
        return text
    return f"{text}\n[{said}]" if text else f"[{said}]"
