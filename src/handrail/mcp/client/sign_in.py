"""How people sign in to MCP servers that ask for it. The protocol is in `oauth`; this costs nothing to import."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from handrail.core.ports import Clock, SystemClock
from handrail.mcp.client.token_file import TokenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """One for all servers of a host."""

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
