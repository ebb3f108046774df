"""How people sign in to MCP servers that ask for it. The protocol is in `oauth`; this costs nothing to import."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from handrail.core.ports import Clock, SystemClock

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
    """The port that the browser comes back to, which the registration names."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """The sign-in for all servers of a host."""

    store: Path
    """The folder of what is kept, one file per server."""
    show: Callable[[str], Awaitable[None] | None]
    """Tells the person which address to open. Nothing is opened by itself."""
    patience: float = 300.0
    """Seconds for the person."""
    pause: float = 60.0
    """Seconds in which a sign-in that failed is not tried again: requests that follow it fail with the same words."""
    client_name: str = "handrail"
    """What a service shows to the person who is asked."""
    clock: Clock = field(default_factory=SystemClock, repr=False)
    _asked: list[str] = field(default_factory=list, repr=False, compare=False)

    def file(self, url: str) -> TokenFile:
        return TokenFile(self.store, url)

    def forget(self, url: str) -> bool:
        """Sign out of the server at `url`, on this machine. Whether anything was known of it."""
        return self.file(url).forget()

    def waiting(self, url: str) -> bool:
        """Whether a person is being waited for right now; a deadline on a server should not run then."""
        return url in self._asked

    @contextmanager
    def asking(self, url: str) -> Iterator[None]:
        self._asked.append(url)
        try:
            yield
        finally:
            self._asked.remove(url)
