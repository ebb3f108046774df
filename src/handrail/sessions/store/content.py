"""Texts and bytes by their SHA-256: what two conversations share is there once, and a changed file is noticed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from handrail.core.durable_files import make_folder, write_atomically
from handrail.core.errors import HandrailError

_DIGEST = re.compile(r"[0-9a-f]{64}")


class ContentError(HandrailError):
    """Something that was kept is not there any more, or is not what it was."""


class ContentFolder:
    """`<first two of the digest>/<digest>`, one file each. Nothing in it ever changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> str:
        """Keep bytes and return their digest."""
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        if not path.exists():
            make_folder(path.parent)
            write_atomically(path, data)
        return digest

    def get(self, digest: str) -> bytes:
        """The bytes with this digest.

        Raises:
            ContentError: It is missing, or was changed on disk.
        """
        path = self._path(digest)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ContentError(f"{str(path)!r} cannot be read ({error.strerror}); restore it from a copy") from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise ContentError(f"{str(path)!r} was changed: its bytes are not those of its name; restore it")
        return data

    def sweep(self, used: Iterable[str]) -> int:
        """Remove everything else, and say how much that was."""
        kept = set(used)
        gone = [path for path in self._files() if path.name not in kept]
        for path in gone:
            path.unlink(missing_ok=True)
        return len(gone)

    def _files(self) -> Iterator[Path]:
        return (path for path in self._folder.glob("??/*") if path.is_file())

    def _path(self, digest: str) -> Path:
        if not _DIGEST.fullmatch(digest):
            raise ContentError(f"{digest!r} is not a SHA-256 in hexadecimal digits")
        return self._folder / digest[:2] / digest
