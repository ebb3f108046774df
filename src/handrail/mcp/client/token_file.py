"""What a sign-in leaves behind, in one file per server that only its owner can read.

A file appears whole or not at all. One that cannot be understood counts as
absent: the person signs in once more. What it held is never logged.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

logger = logging.getLogger(__name__)

_LONGEST = 256 * 1024


class StoredSignIn(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server's sign-in. The inner objects are as OAuth spells them."""

    server: str
    client: dict[str, Any] | None = None
    tokens: dict[str, Any] | None = None
    expires: float | None = None
    """Seconds since 1970 when the access token ends; None: it was not said."""
    service: dict[str, Any] | None = None
    """The authorization server's description of itself; a refresh needs its addresses after a restart."""
    resource: dict[str, Any] | None = None
    port: int = 0
    """Where the browser was told to come back to; the registration names it."""


@dataclass(frozen=True, slots=True)
class TokenFile:
    folder: Path
    server: str

    @property
    def path(self) -> Path:
        return self.folder / f"{hashlib.sha256(self.server.encode()).hexdigest()[:32]}.json"

    async def read(self) -> StoredSignIn:
        return await asyncio.to_thread(self._read)

    async def write(self, kept: StoredSignIn) -> None:
        await asyncio.to_thread(self._write, kept)

    def forget(self) -> bool:
        """Whether there was something to forget."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        return True

    def _read(self) -> StoredSignIn:
        nothing = StoredSignIn(server=self.server)
        try:
            with self.path.open("rb") as file:
                kept = msgspec.json.decode(file.read(_LONGEST), type=StoredSignIn)
        except FileNotFoundError:
            return nothing
        except (msgspec.MsgspecError, UnicodeDecodeError):
            logger.warning("the sign-in kept in %s cannot be read; sign in again", self.path)
            return nothing
        return kept if kept.server == self.server else nothing

    def _write(self, kept: StoredSignIn) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = self.path.with_name(f".{self.path.name}.{os.getpid()}.{os.urandom(4).hex()}")
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with open(handle, "wb") as file:
                file.write(msgspec.json.encode(kept))
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self.path)
        finally:
            unfinished.unlink(missing_ok=True)
