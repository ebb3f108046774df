"""A JSON file in the user's state folder, which several processes may change at once."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from handrail.core.durable_files import make_folder, write_atomically
from handrail.core.errors import UsageError

T = TypeVar("T", bound="VersionedContent")


class VersionedContent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What such a file holds."""

    version: int = 1


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder in which the user's programs keep their state.

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


def config_key(config: Path) -> str:
    """The name of a configuration: its path. A link elsewhere to the same file has another folder, in which its
    commands would run."""
    return str(config.parent.resolve() / config.name)


class UserFile(Generic[T]):
    """The file. Only the user can read it; each change reads it again under a lock."""

    def __init__(self, path: Path, content: type[T], called: str) -> None:
        self.path = path
        self._content = content
        self._called = called
        """What a message calls the content, in the plural."""

    def read(self) -> T:
        """What it holds; nothing if there is no such file.

        Raises:
            UsageError: It cannot be read, or is damaged.
        """
        named = f"the {self._called} at {str(self.path)!r}"
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return self._content()
        except OSError as error:
            raise UsageError(f"{named} cannot be read: {error.strerror}") from error
        try:
            found = msgspec.json.decode(data, type=self._content)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise UsageError(f"{named} are damaged ({error}); move the file away and start anew") from error
        if found.version != 1:
            raise UsageError(f"{named} were written by a newer handrail; use that one")
        return found

    def change(self, edit: Callable[[T], T]) -> None:
        """Exchange the content for what is made of it, with nobody else writing meanwhile.

        Raises:
            UsageError: It cannot be read or written.
        """
        try:
            make_folder(self.path.parent)
            handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                before = self.read()
                if (after := edit(before)) is not before:
                    write_atomically(self.path, msgspec.json.format(msgspec.json.encode(after), indent=1) + b"\n")
            finally:
                os.close(handle)
        except OSError as error:
            raise UsageError(
                f"the {self._called} at {str(self.path)!r} cannot be written: {error.strerror};"
                " make the folder writable, or set XDG_STATE_HOME to one that is"
            ) from error
