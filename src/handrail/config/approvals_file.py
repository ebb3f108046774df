"""The file of what a person has approved: configurations, MCP servers, and standing rules.

It is a file of the user, never one beside a project's configuration, which anybody who
can change a project could change too.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from handrail.core.errors import UsageError
from handrail.sessions.store.content import make_folder, write_atomically

FILE = "approvals.json"


class ServerApproval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's word on one server."""

    binds: str
    """What it is good for: the digest of the command, or of the address."""
    at: int = 0
    """Milliseconds since 1970."""
    by: str = ""
    tools: dict[str, dict[str, Any]] | None = None
    """Its tools as they were described; None until it was first connected."""


class ConfigApproval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A person's approval of what one configuration would do beyond the defaults."""

    binds: str
    """The digest of its powers and of every file that decides them."""
    files: dict[str, str] = field(default_factory=dict)
    """The digest of each of those files by its path, to say later which of them changed."""
    at: int = 0
    """Milliseconds since 1970."""
    by: str = ""


class ApprovalsContent(Struct, frozen=True, omit_defaults=True):
    version: int = 1
    configs: dict[str, ConfigApproval] = field(default_factory=dict)
    """By the path of the configuration file."""
    servers: dict[str, dict[str, ServerApproval]] = field(default_factory=dict)
    """By the path of the configuration file, then by the name of the server."""
    rules: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By the path of the configuration file: standing rules, the newest first."""


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the user's programs keep what they must remember.

    Raises:
        UsageError: The user has no home.
    """
    stated = environ.get("XDG_STATE_HOME", "")
    if stated.startswith("/"):
        return Path(stated) / "handrail"
    try:
        home = Path(environ.get("HOME") or Path.home())
    except RuntimeError as error:
        raise UsageError("nobody knows where you keep things: set HOME, or XDG_STATE_HOME to a folder") from error
    return home / ".local" / "state" / "handrail"


class ApprovalsFile:
    """The file. Several processes may use it at once; each change reads it anew under a lock."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def read(self) -> ApprovalsContent:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return ApprovalsContent()
        except OSError as error:
            raise UsageError(f"the approvals at {str(self.path)!r} cannot be read: {error.strerror}") from error
        try:
            book = msgspec.json.decode(data, type=ApprovalsContent)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise UsageError(
                f"the approvals at {str(self.path)!r} are damaged ({error}); move the file away and approve again"
            ) from error
        if book.version != 1:
            raise UsageError(f"the approvals at {str(self.path)!r} were written by a newer handrail; use that one")
        return book

    def change(self, edit: Callable[[ApprovalsContent], ApprovalsContent]) -> None:
        """Exchange the content for what is made of it, with nobody else writing meanwhile."""
        try:
            make_folder(self.path.parent)
            handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                before = self.read()
                if (after := edit(before)) is not before:
                    self._write(after)
            finally:
                os.close(handle)
        except OSError as error:
            raise UsageError(
                f"the approvals at {str(self.path)!r} cannot be written: {error.strerror};"
                " make the folder writable, or set XDG_STATE_HOME to one that is"
            ) from error

    def _write(self, book: ApprovalsContent) -> None:
        servers = {file: named for file, named in book.servers.items() if named}
        rules = {file: stated for file, stated in book.rules.items() if stated}
        kept = msgspec.json.encode(replace(book, servers=servers, rules=rules))
        write_atomically(self.path, msgspec.json.format(kept, indent=1) + b"\n")


def config_key(config: Path) -> str:
    """By where it stands: a link elsewhere to the same file has another folder, in which its commands would run."""
    return str(config.parent.resolve() / config.name)
