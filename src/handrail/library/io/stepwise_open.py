"""Opening a path beneath a folder step by step, where the kernel cannot do it in one.

Each step opens one name in a folder that is already open, without following a link;
links are read and their names gone through in the same way. `..` goes back to a
folder that was opened before. So whatever is renamed or relinked meanwhile, every
folder on the way was reached from the root.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from types import TracebackType
from typing import Self

PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
"""Enough to name a folder. Where there is no such thing, the folder must be readable."""
FOLDER = PATH_ONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LINKS = 40
"""The most links that are followed: as many as Linux follows."""
_TRIES = 8
"""A name may be a link when it is opened and none any more when it is read."""


def open_stepwise(root: int, path: str, flags: int, mode: int = 0, *, links: int = _LINKS) -> int:
    """Open a path beneath a folder.

    Raises:
        OSError: EXDEV if it leads out; else as `os.open`.
    """
    if path.startswith("/"):
        raise _outside(path)
    if not path:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    names = deque(_names(path))
    flags |= os.O_CLOEXEC | _folder_if_said(path)
    with _FolderTrail(root) as trail:
        while names:
            name = names.popleft()
            if name == "..":
                trail.up(path)
                continue
            opened = _open(trail.here, name, FOLDER if names else flags, mode)
            if isinstance(opened, int) and not names:
                return opened
            if isinstance(opened, int):
                trail.down(opened)
                continue
            if links == 0:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if opened.startswith("/"):
                raise _outside(path)
            links -= 1
            flags |= 0 if names else _folder_if_said(opened)
            names.extendleft(reversed(_names(opened)))
        return os.open(".", flags & ~os.O_NOFOLLOW, mode, dir_fd=trail.here)


def open_root(path: str) -> int:
    """Open a folder by its whole path, in which nothing may be a link: a root is where it was when it was set."""
    top = os.open("/", FOLDER)
    try:
        return open_stepwise(top, path.strip("/") or ".", FOLDER, links=0)
    finally:
        os.close(top)


class _FolderTrail:
    """The open folders from the root down to where we are."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._below: list[int] = []

    @property
    def here(self) -> int:
        return self._below[-1] if self._below else self._root

    def down(self, folder: int) -> None:
        self._below.append(folder)

    def up(self, path: str) -> None:
        if not self._below:
            raise _outside(path)
        os.close(self._below.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        while self._below:
            os.close(self._below.pop())


def _open(folder: int, name: str, flags: int, mode: int) -> int | str:
    """The open file, or where the link leads that the name is."""
    follow = not flags & os.O_NOFOLLOW
    for _ in range(_TRIES):
        try:
            opened = os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=folder)
        except OSError as error:
            # A link where a folder should be is said to be no folder.
            if not follow or error.errno not in (errno.ELOOP, errno.ENOTDIR):
                raise
            failed = error
        else:
            if not follow or not stat.S_ISLNK(os.fstat(opened).st_mode):
                return opened
            os.close(opened)
            failed = OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        if (target := _link(folder, name)) is not None:
            return target
    raise failed


def _link(folder: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _folder_if_said(path: str) -> int:
    return os.O_DIRECTORY if path.endswith(("/", "/.")) else 0


def _outside(path: str) -> OSError:
    return OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
