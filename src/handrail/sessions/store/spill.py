"""Whole outputs, kept as files: they outlive the process, and memory does not hold them.

One folder belongs to one process at a time. Another that shares it reads the same
outputs, but each removes by its own count.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import UsageError
from handrail.core.ids import NewId, new_id
from handrail.core.ports import Spill

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_CHARACTERS_AT_ONCE = 65_536
_SUFFIX = ".txt"
_UNFINISHED = ".part"


def is_output_id(id: str) -> bool:
    return _ID.fullmatch(id) is not None


class KeptOutput(NamedTuple):
    id: str
    at: int
    """The time at which the output was stored, in milliseconds since 1970."""
    size: int


class KeptOutputs(Spill, Protocol):
    """A `Spill` that can be looked through, and from which outputs are removed."""

    async def known(self) -> list[KeptOutput]:
        """All outputs, the oldest first."""
        ...

    async def delete(self, ids: Iterable[str]) -> int:
        """Keep these no longer; how many of them there were."""
        ...


class DirectorySpill:
    """A `Spill`. Keeps the newest outputs up to a total number of bytes; the oldest are dropped first."""

    def __init__(self, folder: Path, most_bytes: int = 1_000_000_000, new_id: NewId = new_id) -> None:
        self._folder = folder
        self._most = most_bytes
        self._new_id = new_id
        self._lock = threading.Lock()
        self._sizes: BoundedMemory[str, int] | None = None
        """Of the files there are, the oldest first; None until the folder was looked at."""

    async def put(self, text: str) -> str:
        id = self._new_id("out")
        if not _ID.fullmatch(id):
            raise UsageError(f"id {id!r} cannot name a file; take A-Z a-z 0-9 _ - only")
        await asyncio.to_thread(self._put, id, text)
        return id

    async def read(self, id: str, start: int, length: int) -> tuple[str, int]:
        if not _ID.fullmatch(id):
            raise KeyError(id)
        try:
            return await asyncio.to_thread(_piece, self._folder / f"{id}{_SUFFIX}", start, length)
        except FileNotFoundError:
            raise KeyError(id) from None

    async def known(self) -> list[KeptOutput]:
        return await asyncio.to_thread(self._list)

    async def delete(self, ids: Iterable[str]) -> int:
        return await asyncio.to_thread(lambda: sum(map(self._delete, ids)))

    def _list(self) -> list[KeptOutput]:
        if not self._folder.is_dir():
            return []
        found = []
        for path in self._folder.glob(f"*{_SUFFIX}"):
            with suppress(FileNotFoundError):  # another process removed it meanwhile
                about = path.stat()
                found.append(KeptOutput(path.stem, about.st_mtime_ns // 1_000_000, about.st_size))
        return sorted(found, key=lambda output: (output.at, output.id))

    def _delete(self, id: str) -> bool:
        if not _ID.fullmatch(id):
            return False
        try:
            (self._folder / f"{id}{_SUFFIX}").unlink()
        except FileNotFoundError:
            return False
        return True

    def _put(self, id: str, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        with self._lock:
            sizes = self._sizes_on_disk()
            _write(self._folder / f"{id}{_SUFFIX}", data)
            sizes[f"{id}{_SUFFIX}"] = len(data)

    def _sizes_on_disk(self) -> BoundedMemory[str, int]:
        """What lies in the folder. What a killed process left half written is among it, and goes in its turn."""
        if self._sizes is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = [entry for entry in os.scandir(self._folder) if entry.name.endswith((_SUFFIX, _UNFINISHED))]
            found.sort(key=lambda entry: (entry.stat().st_mtime_ns, entry.name))
            self._sizes = BoundedMemory(weight=int, most_weight=self._most, keep_newest=True, on_forget=self._unlink)
            for entry in found:
                self._sizes[entry.name] = entry.stat().st_size
        return self._sizes

    def _unlink(self, name: str, size: int) -> None:
        (self._folder / name).unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    """Writes a file so that its name has the whole output or nothing, whenever the process ends."""
    unfinished = path.with_suffix(_UNFINISHED)
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _piece(path: Path, start: int, length: int) -> tuple[str, int]:
    """Some characters of a file, and how many it has. Only a small part is in memory at a time."""
    pieces: list[str] = []
    total = 0
    with path.open(encoding="utf-8", errors="surrogatepass", newline="") as file:
        while chunk := file.read(_CHARACTERS_AT_ONCE):
            pieces.append(chunk[max(start - total, 0) : max(start + length - total, 0)])
            total += len(chunk)
    return "".join(pieces), total
