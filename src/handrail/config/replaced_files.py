"""What `handrail mcp import --replace` did to the files of clients, so that `--undo` can take it back.

Each change is a record in the user's state folder, with the file as it was. The records of
one file are a stack: the newest is undone first, of those that are about the same keys.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from handrail.config.client_files import ClientFile, read_client_text
from handrail.config.client_rewrite import ProxyEntry, RewrittenText, replace_entries, restore_entries
from handrail.config.user_file import UserFile, VersionedContent, state_folder
from handrail.core.durable_files import write_atomically
from handrail.core.errors import UsageError

FILE = "replaced.json"


class ReplacedFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of one file."""

    keys: tuple[str, ...]
    before: str
    """The bytes of the file, in Base64."""
    after: str
    """The SHA-256 of what was written in their place."""
    name: str
    entry: dict[str, Any]
    added: bool
    """Whether the entry was new: else it was there already, and stays."""
    removed: dict[str, str] = field(default_factory=dict)


class ReplacedContent(VersionedContent, frozen=True, omit_defaults=True):
    files: dict[str, tuple[ReplacedFile, ...]] = field(default_factory=dict)
    """The changes by the path of the client's file, the oldest first."""


class ReplacedFiles:
    """The records of one user."""

    def __init__(self, folder: Path) -> None:
        self._file = UserFile(folder / FILE, ReplacedContent, "records of replaced files")

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ) -> ReplacedFiles:
        return cls(state_folder(environ))

    @property
    def path(self) -> Path:
        return self._file.path

    def has(self, file: ClientFile) -> bool:
        """Whether there is a change of these servers that can be undone."""
        return self._last(file) is not None

    def _last(self, file: ClientFile) -> ReplacedFile | None:
        """Their newest change. A file may hold the servers of several folders, each under keys of its own."""
        known = self._file.read().files.get(_key(file.path), ())
        return next((record for record in reversed(known) if record.keys == file.keys), None)

    def replace(self, file: ClientFile, text: str, done: RewrittenText, entry: ProxyEntry, *, added: bool) -> None:
        """Write the text to the file. The record comes first, so that a machine that stops in between loses nothing.

        Raises:
            UsageError: The file changed since it was read, or cannot be written.
        """
        before, after = text.encode(), done.text.encode()
        record = ReplacedFile(
            keys=file.keys,
            before=base64.b64encode(before).decode(),
            after=hashlib.sha256(after).hexdigest(),
            name=entry.name,
            entry=dict(entry.value),
            added=added,
            removed=dict(done.removed),
        )
        self._put(file.path, lambda known: (*known, record))
        try:
            _exchange(file.path, before, after)
        except BaseException:
            self._put(file.path, lambda known: known[:-1] if known[-1:] == (record,) else known)
            raise

    def undo(self, file: ClientFile) -> tuple[str, ...]:
        """Give the file back what the last change took out; the names of those entries. Where nothing else has changed
        in it since, it has the very bytes that it had.

        Raises:
            UsageError: Nothing was changed there, or its entry is no longer what was written.
        """
        record = self._last(file)
        if record is None:
            raise UsageError(f"handrail has changed nothing in {str(file.path)!r}")
        text = read_client_text(file.path)
        before = base64.b64decode(record.before)
        if hashlib.sha256(text.encode()).hexdigest() == record.after:
            after = before
        elif text.encode() == before:
            after = before  # it was never written, or somebody has put it back
        else:
            after = self._restored(file, record, text).encode()
        _exchange(file.path, text.encode(), after)
        self._put(file.path, lambda now: tuple(each for each in now if each != record))
        return tuple(record.removed)

    def _restored(self, file: ClientFile, record: ReplacedFile, text: str) -> str:
        entry = ProxyEntry(record.name, record.entry)
        try:
            return restore_entries(text, record.keys, record.removed, entry, keep=not record.added, toml=file.is_toml)
        except UsageError as error:
            raise UsageError(
                f"{str(file.path)!r} has changed since, and {error}; as it was before, it stands in Base64 in"
                f" {str(self.path)!r}"
            ) from error

    def _put(self, path: Path, change: Any) -> None:
        def edit(content: ReplacedContent) -> ReplacedContent:
            others = {file: records for file, records in content.files.items() if file != _key(path)}
            records = change(content.files.get(_key(path), ()))
            return replace(content, files={**others, _key(path): records} if records else others)

        self._file.change(edit)


def rewritten(file: ClientFile, text: str, names: tuple[str, ...], entry: ProxyEntry | None) -> RewrittenText:
    """The text of a client's file with one entry in the place of these.

    Raises:
        UsageError: It cannot be done without changing more; the file is named.
    """
    try:
        return replace_entries(text, file.keys, names, entry, toml=file.is_toml)
    except UsageError as error:
        raise UsageError(f"{str(file.path)!r} is left as it is: {error}") from error


def _exchange(path: Path, before: bytes, after: bytes) -> None:
    """Put other bytes into a file that still has those which were read. A link stays a link."""
    real = path.resolve()
    try:
        if real.read_bytes() != before:
            raise UsageError(f"{str(path)!r} was changed by another program meanwhile; try again")
        write_atomically(real, after, mode=real.stat().st_mode & 0o777)
    except OSError as error:
        raise UsageError(f"{str(path)!r} cannot be written: {error.strerror}") from error


def _key(path: Path) -> str:
    return str(path.parent.resolve() / path.name)
