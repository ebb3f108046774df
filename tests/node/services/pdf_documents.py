"""PDF files, written here byte by byte, whole and hostile."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence


def pdf(pages: Sequence[Sequence[str]], title: str = "", year: int | None = None) -> bytes:
    """One page for each list of lines."""
    contents = []
    for lines in pages:
        shown = " ".join(f"({_escaped(line)}) Tj T*" for line in lines)
        contents.append(f"BT /F1 12 Tf 14 TL 50 750 Td {shown} ET".encode("cp1252"))
    return pdf_of(contents, info=f"/Title ({_escaped(title)})" + (f" /CreationDate (D:{year}0101)" if year else ""))


def pdf_of(contents: Sequence[bytes], info: str = "", filter: str = "") -> bytes:
    """One page for each stream of drawing commands."""
    kids = " ".join(f"{5 + 2 * n} 0 R" for n in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        f"<< {info} >>".encode("cp1252"),
    ]
    for n, content in enumerate(contents):
        font = "/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {font} /Contents {6 + 2 * n} 0 R >>".encode())
        objects.append(f"<< /Length {len(content)} {filter} >>\nstream\n".encode() + content + b"\nendstream")
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    places = []
    for number, each in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n" % number + each + b"\nendobj\n")
    start = out.tell()
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table)
    out.write(b"trailer\n<< /Size %d /Root 1 0 R /Info 4 0 R >>\n" % (len(objects) + 1))
    out.write(b"startxref\n%d\n%%%%EOF\n" % start)
    return out.getvalue()


def bomb() -> bytes:
    """A page of a few kilobytes that unpacks to 128 megabytes."""
    packer = zlib.compressobj(1)
    zeros = bytes(1 << 20)
    layer = b"".join(packer.compress(zeros) for _ in range(128)) + packer.flush()
    return pdf_of([layer], filter="/Filter /FlateDecode")


def locked(data: bytes, password: str) -> bytes:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    writer.encrypt(password, algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _escaped(text: str) -> str:
    return text.translate({ord(each): f"\\{each}" for each in "()\\"})
