"""Going through folders: `list_folder`, and what `find_text` looks at.

Links are named and not followed. Every folder is opened beneath the one it is in, so
that nothing that is relinked meanwhile leads out.
"""

from __future__ import annotations

import datetime
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from handrail.library.io.confined_files import LISTED, READ, ConfinedFiles, ConfinedPath
from handrail.library.io.patterns import IgnoreRules, glob_pattern
from handrail.library.io.read_file import with_note
from handrail.library.io.settings import IoLimits
from handrail.tools.tool import Tool, tool

_DEEPEST = 64
_RULES = 64 * 1024
"""Bytes of a .gitignore."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    way: str
    """The path from the folder where the walk began."""
    name: str
    folder: int
    """The open folder it is in; good until the next entry is asked for."""
    mode: int

    @property
    def shown(self) -> str:
        return f"{self.way}/" if stat.S_ISDIR(self.mode) else f"{self.way}@" if stat.S_ISLNK(self.mode) else self.way


@dataclass(slots=True)
class FolderWalk:
    """What is to be gone through, and how far it came."""

    recurse: bool = True
    hidden: bool = False
    gitignore: bool = False
    most: int = 100_000
    visited: int = 0
    skipped: list[str] = field(default_factory=list)
    """What could not be opened."""
    cut: bool = False

    def entries(
        self, folder: int, way: str = "", ignored: IgnoreRules = IgnoreRules(), depth: int = 0
    ) -> Iterator[FolderEntry]:
        """The entries in the order of their names, a folder before what is in it."""
        names = sorted(self._names(folder))
        if self.gitignore and ".gitignore" in names:
            ignored = ignored.more(way, _rules(folder))
        for name in names:
            if self.cut or (not self.hidden and name.startswith(".")):
                continue
            below = f"{way}/{name}" if way else name
            try:
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            except OSError:  # it is gone
                continue
            is_folder = stat.S_ISDIR(mode)
            if self.gitignore and (name == ".git" or ignored.has(below, is_folder=is_folder)):
                continue
            yield FolderEntry(below, name, folder, mode)
            if is_folder and self.recurse:
                yield from self._into(folder, name, below, ignored, depth + 1)

    def _names(self, folder: int) -> Iterator[str]:
        with os.scandir(folder) as found:
            for entry in found:
                self.visited += 1
                if self.visited > self.most:
                    self.cut = True
                    return
                yield entry.name

    def _into(self, folder: int, name: str, way: str, ignored: IgnoreRules, depth: int) -> Iterator[FolderEntry]:
        if depth >= _DEEPEST:
            self.skipped.append(way)
            return
        try:
            inner = os.open(name, LISTED | os.O_NOFOLLOW, dir_fd=folder)
        except OSError:
            self.skipped.append(way)
            return
        try:
            yield from self.entries(inner, way, ignored, depth)
        finally:
            os.close(inner)


@contextmanager
def open_listed_file(entry: FolderEntry) -> Iterator[tuple[int, os.stat_result] | None]:
    """An ordinary file that a walk found; None if it is none any more, or cannot be read."""
    try:
        descriptor = os.open(entry.name, READ | os.O_NOFOLLOW, dir_fd=entry.folder)
    except OSError:
        yield None
        return
    try:
        about = os.fstat(descriptor)
        yield (descriptor, about) if stat.S_ISREG(about.st_mode) else None
    finally:
        os.close(descriptor)


def _rules(folder: int) -> str:
    with open_listed_file(FolderEntry("", ".gitignore", folder, 0)) as found:
        return "" if found is None else os.read(found[0], _RULES).decode("utf-8", "replace")


def list_tool(confined: ConfinedFiles, limits: IoLimits) -> Tool:
    @tool()
    def list_folder(
        path: str = ".",
        recurse: bool = False,
        pattern: str | None = None,
        hidden: bool = False,
        gitignore: bool = False,
        details: bool = False,
        limit: Annotated[int, Meta(ge=1)] | None = None,
    ) -> str:
        """List a folder, one name on a line: `name/` is a folder, `name@` a link.

        A last line in brackets says if it was cut.

        Args:
            path: Relative to the first root, `root:path`, or absolute inside a root.
            recurse: List the folders in it too. Links are not followed.
            pattern: Only what matches: `*.py` is for names, `src/**/*.py` for the whole way from the folder.
            hidden: Also names that begin with a dot.
            gitignore: Leave out what .gitignore files say, and .git itself.
            details: Size and time of change before each name.
            limit: At most so many.
        """
        place = confined.place(path)
        most = min(limit or limits.entries, limits.entries)
        wanted = None if pattern is None else glob_pattern(pattern)
        walk = FolderWalk(recurse=recurse, hidden=hidden, gitignore=gitignore, most=limits.visited)
        shown: list[str] = []
        total = 0
        with confined.telling(place), confined.opened(place, LISTED) as folder:
            for entry in walk.entries(folder):
                if wanted is None or wanted.within(entry.way):
                    total += 1
                    if total <= most:
                        shown.append(_detailed(entry) if details else entry.shown)
        return with_note("\n".join(shown), _notes(place, walk, total, most))

    return list_folder


def _notes(place: ConfinedPath, walk: FolderWalk, total: int, most: int) -> list[str]:
    notes = []
    if walk.cut:
        notes.append(f"it was given up after {walk.most:,} names; list a folder further down")
    if total > most:
        notes.append(f"{most:,} of {total:,} are shown; give a pattern, or list a folder further down")
    if walk.skipped:
        notes.append(first_names("not opened", walk.skipped))
    return notes or ([] if total else [f"nothing in {place.shown!r} fits" if walk.visited else "the folder is empty"])


def first_names(what: str, names: list[str]) -> str:
    """The first of many names, and whether there are more."""
    return f"{what}: {', '.join(names[:5])}{' and more' if names[5:] else ''}"


def _detailed(entry: FolderEntry) -> str:
    try:
        about: Any = os.stat(entry.name, dir_fd=entry.folder, follow_symlinks=False)
    except OSError:
        return f"{'gone':>12}  {'':16}  {entry.shown}"
    changed = datetime.datetime.fromtimestamp(about.st_mtime, datetime.UTC)
    size = f"{about.st_size:,}" if stat.S_ISREG(about.st_mode) else "-"
    return f"{size:>12}  {changed:%Y-%m-%d %H:%M}  {entry.shown}"
