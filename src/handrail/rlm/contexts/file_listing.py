"""The files that a run is asked about: those that were named, and those of a directory, in an order that stays."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from handrail.core.errors import MissingExtra, UsageError
from handrail.rlm.contexts.scan import ContextFileChanged
from handrail.rlm.contexts.text_storage import Form, ListedFile, Stored

MOST_FILES = 20_000
_NO_TEXT: dict[Form, str] = {
    "binary": "is not a text; give text, Markdown, source code or a PDF",
    "special": "is made up by the system as it is read; pipe it in instead",
}


@dataclass(frozen=True, slots=True)
class ContextFileListing:
    texts: dict[str, Stored]
    """The texts by the names that a cell uses."""
    left_out: Counter[str] = field(default_factory=Counter)
    """What a directory has beside them, and how often."""


def list_files(paths: Iterable[Path], can_read_pdf: bool, most: int = MOST_FILES) -> ContextFileListing:
    """All files of these paths. A named file is taken or refused; a file in a directory is taken or counted.

    Raises:
        UsageError: A path is not there, or is no text.
        MissingExtra: A PDF was named, and nothing here reads it.
    """
    given = list(paths)
    found = ContextFileListing({})
    for path in given:
        try:
            if path.is_dir():
                prefix = "" if len(given) == 1 else f"{_name(path)}/"
                _take_directory(path.resolve(), prefix, found, can_read_pdf, most)
            else:
                name = _name(Path(path.name) if len(given) == 1 else path)
                _take(found, name, _named(path, can_read_pdf))
        except (OSError, ValueError, ContextFileChanged) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"{str(path)!r} cannot be read: {why}") from error
    return found


def _named(path: Path, can_read_pdf: bool) -> Stored:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        # Who opens a pipe waits until somebody writes, and that may be never.
        raise UsageError(f"{str(path)!r} is neither a file nor a directory; what it gives can be piped in")
    # A link was named on purpose; what it leads to is what must not change.
    stored = ListedFile.at(path.resolve(strict=True), status)
    if stored.form in _NO_TEXT:
        raise UsageError(f"{str(path)!r} {_NO_TEXT[stored.form]}")
    if stored.form == "pdf" and not can_read_pdf:
        raise MissingExtra("reading a PDF", "rag")
    return stored


def _take_directory(root: Path, prefix: str, found: ContextFileListing, can_read_pdf: bool, most: int) -> None:
    for path, status in _files(root, found.left_out):
        if len(found.texts) >= most:
            found.left_out["too many"] += 1
            continue
        try:
            stored = ListedFile.at(path, status)
        except ContextFileChanged:
            found.left_out["unreadable"] += 1
            continue
        if stored.form in _NO_TEXT or (stored.form == "pdf" and not can_read_pdf):
            found.left_out[stored.form] += 1
            continue
        _take(found, prefix + _name(path.relative_to(root)), stored)


def _files(root: Path, left_out: Counter[str]) -> Iterator[tuple[Path, os.stat_result]]:
    """Regular files below, sorted. No link is followed: what it leads to is listed by its own name, or is outside."""
    waiting = [root]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                items = sorted(entries, key=lambda each: each.name)
        except OSError:
            left_out["unreadable"] += 1
            continue
        for item in items:
            why = _refused(item)
            if not why and not _is_directory(item):
                try:
                    yield here / item.name, item.stat(follow_symlinks=False)
                except OSError:
                    why = "unreadable"
            if why:
                left_out[why] += 1
        waiting += [here / item.name for item in reversed(items) if not _refused(item) and _is_directory(item)]


def _refused(item: os.DirEntry[str]) -> str:
    if item.name.startswith("."):
        return "hidden"
    if item.is_symlink():
        return "link"
    return "" if _is_directory(item) or item.is_file(follow_symlinks=False) else "special"


def _is_directory(item: os.DirEntry[str]) -> bool:
    return item.is_dir(follow_symlinks=False)


def _take(found: ContextFileListing, name: str, stored: Stored) -> None:
    if name in found.texts:
        raise UsageError(f"two files are called {name!r}; name each only once")
    found.texts[name] = stored


def _name(path: Path) -> str:
    """Bytes of a name that are no text are written as escapes: a name has to cross as JSON."""
    return path.as_posix().encode("utf-8", "backslashreplace").decode()
