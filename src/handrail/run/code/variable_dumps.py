"""The variables of a REPL on disk, after each call that is settled: where there is one, no code need run again.

They are a short cut. One that is missing, torn or changed is passed over, and the code is run again on what the
journal has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from hashlib import sha256
from pathlib import Path

from handrail.core.errors import UsageError
from handrail.core.keyfile import UnsafeKeyFile, create_key, read_key

logger = logging.getLogger(__name__)

MOST = 64 * 2**20
"""Bytes; a larger one costs more than it saves."""
_KEPT = 2
"""The last may be of a call whose end is not on record; then the one before is wanted."""


def dump_key(folder: Path) -> bytes:
    """What the dumps in a folder are sealed with: made once, for their owner alone.

    Raises:
        UsageError: The folder or the file cannot be used, with what to do about it.
    """
    path = folder / "dumps.key"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            create_key(path, os.urandom(32).hex())
        return bytes.fromhex(read_key(path))
    except UnsafeKeyFile as error:
        raise UsageError(str(error)) from error
    except ValueError:
        raise UsageError(f"{str(path)!r} holds no key; remove it, and another is made") from None
    except OSError as error:
        raise UsageError(f"the state of REPLs cannot be kept in {str(folder)!r}: {error.strerror}") from error


class VariableDumps:
    """The dumps of one run."""

    def __init__(self, folder: Path, run: str) -> None:
        self._folder = folder / sha256(run.encode()).hexdigest()[:32]
        self._kept: list[Path] = []

    async def save(self, call_id: str, state: bytes) -> None:
        """A disk that is full costs the short cut, and not the run."""
        if len(state) > MOST:
            return
        try:
            await asyncio.to_thread(self._write, self._path(call_id), state)
        except OSError as error:
            logger.warning("the state of a REPL cannot be kept in %s: %s", self._folder, error.strerror)

    async def find(self, call_id: str) -> bytes | None:
        try:
            return await asyncio.to_thread(self._path(call_id).read_bytes)
        except OSError:
            return None

    async def discard(self) -> None:
        """The run has its answer: nobody takes it up again."""
        await asyncio.to_thread(self._remove)

    def _path(self, call_id: str) -> Path:
        return self._folder / f"{sha256(call_id.encode()).hexdigest()[:32]}.dump"

    def _write(self, path: Path, state: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_suffix(".part")
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(state)
        if not self._kept:  # those of the process that died
            self._kept = sorted(self._folder.glob("*.dump"), key=lambda each: each.stat().st_mtime_ns)
        os.replace(part, path)
        self._kept = [*(each for each in self._kept if each != path), path]
        while len(self._kept) > _KEPT:
            self._kept.pop(0).unlink(missing_ok=True)

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                path.unlink()
            self._folder.rmdir()
