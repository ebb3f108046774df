"""`read_file`: text by lines or bytes, and a word about what is no text or does not fit."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from msgspec import Meta

from handrail.core.errors import ToolError
from handrail.library.io.confined_files import ConfinedFiles, ConfinedPath
from handrail.library.io.settings import IoLimits
from handrail.library.io.text_encoding import TextEncoding, binary_kind, encoding_of
from handrail.tools.tool import Tool, tool

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
    """All of a file that is not too large.

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
    """
    Raises:
        ToolError: It is no text.
    """
    encoding = encoding_of(data, whole=whole)
    if encoding is None:
        kind = binary_kind(data) or "binary data"
        raise ToolError("binary", f"{place.shown!r} is no text but {kind} of {size:,} bytes")
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
