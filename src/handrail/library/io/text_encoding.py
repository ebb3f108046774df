"""Bytes of a file as text: which encoding it is, whether it is text at all, and back again."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

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
    """How the bytes are to be read; None if they are no text. Without `whole` the last character may be cut."""
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
