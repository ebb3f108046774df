"""The tools that change files: `write_file`, `move`, `delete`, `make_folder`. `edit_file` is in `edit`.

A file is written beside its place and put there in one step, so that nobody ever
reads half of it and a crash leaves the old one. What a link leads to is not changed
through the link: a rename would replace the link, and then two files differ that
somebody thinks are one.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal

from handrail.core.errors import ToolError
from handrail.core.ids import NewId, new_id
from handrail.standard.io.confined import Confined, Place, check_ordinary
from handrail.standard.io.openat2 import rename_new
from handrail.standard.io.settings import IoLimits
from handrail.tools.tool import Tool, tool

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What file systems say that have no hard links."""


def write_tools(confined: Confined, limits: IoLimits, ids: NewId = new_id) -> list[Tool]:
    return [_write(confined, limits, ids), _move(confined), _delete(confined), _make_folder(confined)]


def _write(confined: Confined, limits: IoLimits, ids: NewId) -> Tool:
    @tool(side_effects=True, resource=lambda arguments: confined.key(arguments["path"]))
    def write_file(
        path: str, text: str, mode: Literal["create", "overwrite", "append"] = "create", parents: bool = False
    ) -> str:
        """Write a text file, in UTF-8. To change a part of one, use edit_file.

        Args:
            path: Relative to the first root, `root:path`, or absolute inside a root.
            text: All of the new content, or with append what comes after the old.
            mode: create fails if the file is there; overwrite replaces it; append adds to it.
            parents: Make the folders that it is in, if they are not there.
        """
        place = confined.place(path, write=True)
        data = _encoded(text, limits)
        with confined.writing, confined.telling(place), confined.made(place, parents=parents) as (folder, name):
            before = existing(place, folder, name)
            match mode:
                case "append":
                    _append(place, folder, name, data, limits)
                case "create":
                    put_new(folder, name, data, ids)
                case "overwrite":
                    replace(folder, name, data, before, ids)
        done = {"append": "added to", "create": "written to", "overwrite": "written to"}[mode]
        was = f"; it had {before.st_size:,} before" if before is not None else ""
        return f"{len(data):,} bytes {done} {place.shown!r}{was}"

    return write_file


def _encoded(text: str, limits: IoLimits) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ToolError("bad_text", f"the text has half of a character at position {error.start:,}") from None
    if len(data) > limits.file:
        raise ToolError(
            "too_large", f"{len(data):,} bytes are more than the {limits.file:,} that may be written at once"
        )
    return data


def existing(place: Place, folder: int, name: str) -> os.stat_result | None:
    """What is there now.

    Raises:
        ToolError: It is no ordinary file.
    """
    try:
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(about.st_mode):
        target = os.readlink(name, dir_fd=folder)
        raise ToolError("link", f"{place.shown!r} is a link to {target!r}; name the file that it leads to")
    check_ordinary(place, about)
    return about


def replace(folder: int, name: str, data: bytes, before: os.stat_result | None, ids: NewId) -> None:
    """Put a whole file in the place of what was there, with the rights that it had."""

    def put(temporary: str) -> None:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    _beside(folder, name, data, before, put, ids)


def put_new(folder: int, name: str, data: bytes, ids: NewId) -> None:
    """Put a whole file where nothing is.

    Raises:
        FileExistsError: Something is.
    """

    def put(temporary: str) -> None:
        move_new(temporary, name, folder, folder)

    if _exists(folder, name):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    _beside(folder, name, data, None, put, ids)


def _beside(
    folder: int, name: str, data: bytes, like: os.stat_result | None, put: Callable[[str], None], ids: NewId
) -> None:
    temporary = f".{ids('handrail')}.tmp"  # not with the name in it, which may be as long as a name can be
    created = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666, dir_fd=folder
    )
    try:
        try:
            _fill(created, data, like)
        finally:
            os.close(created)
        put(temporary)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    sync(folder)


def _fill(descriptor: int, data: bytes, like: os.stat_result | None) -> None:
    if like is not None:
        if (like.st_uid, like.st_gid) != (os.getuid(), os.getgid()):
            with suppress(PermissionError):
                os.fchown(descriptor, like.st_uid, like.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(like.st_mode))
    _write_all(descriptor, data)
    os.fsync(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _append(place: Place, folder: int, name: str, data: bytes, limits: IoLimits) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        about = os.fstat(descriptor)
        check_ordinary(place, about)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        except OSError:
            with suppress(OSError):  # then the error that came first tells more
                os.ftruncate(descriptor, about.st_size)
            raise
    finally:
        os.close(descriptor)
    sync(folder)


def sync(folder: int) -> None:
    """Have a change of names on disk. Where that cannot be asked for, a name is as safe as the system makes it."""
    try:
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except PermissionError:  # a folder in which names may be changed but not listed; the change is made
        return
    try:
        os.fsync(readable)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(readable)


def move_new(source: str, target: str, from_: int, to: int, rename: Callable[..., None] = rename_new) -> None:
    """Rename, but never over something that is there; in two steps where the system has no way in one.

    Raises:
        FileExistsError: There is something.
    """
    try:
        rename(source, target, src_dir_fd=from_, dst_dir_fd=to)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        _linked(source, target, from_, to)


def _linked(source: str, target: str, from_: int, to: int) -> None:
    """In two steps: a second name that must be new, then the first is taken away. Folders have only one name."""
    is_folder = stat.S_ISDIR(os.stat(source, dir_fd=from_, follow_symlinks=False).st_mode)
    if not is_folder:
        try:
            os.link(source, target, src_dir_fd=from_, dst_dir_fd=to, follow_symlinks=False)
            os.unlink(source, dir_fd=from_)
            return
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
    if _exists(to, target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    os.rename(source, target, src_dir_fd=from_, dst_dir_fd=to)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _move(confined: Confined) -> Tool:
    @tool(side_effects=True)  # it touches two places and all that is below them: every reading is forgotten
    def move(source: str, target: str, overwrite: bool = False, parents: bool = False) -> str:
        """Move or rename a file or folder.

        Args:
            source: What to move: relative to the first root, `root:path`, or absolute inside a root.
            target: Its new path, with its new name.
            overwrite: Replace a file that is there.
            parents: Make the folders that the target is in, if they are not there.
        """
        old, new = confined.place(source, write=True), confined.place(target, write=True)
        with confined.writing, confined.telling(old), confined.parent(old) as (from_, name):
            os.stat(name, dir_fd=from_, follow_symlinks=False)
            with confined.telling(new), confined.made(new, parents=parents) as (to, new_name):
                try:
                    (_rename_over if overwrite else move_new)(name, new_name, from_, to)
                except OSError as error:
                    if error.errno == errno.EXDEV:
                        raise ToolError(
                            "other_disk", "it would go to another disk; write it there, then delete it"
                        ) from error
                    raise
                sync(to)
            sync(from_)
        return f"{old.shown!r} is now {new.shown!r}"

    return move


def _rename_over(source: str, target: str, from_: int, to: int) -> None:
    os.rename(source, target, src_dir_fd=from_, dst_dir_fd=to)


def _delete(confined: Confined) -> Tool:
    def touched(arguments: Mapping[str, Any]) -> str | None:
        return None if arguments.get("recursive") else confined.key(arguments["path"])

    @tool(side_effects=True, resource=touched)
    def delete(path: str, recursive: bool = False) -> str:
        """Delete a file, a link or a folder. It cannot be taken back.

        Args:
            path: Relative to the first root, `root:path`, or absolute inside a root.
            recursive: Delete a folder with all that is in it.
        """
        place = confined.place(path, write=True)
        with confined.writing, confined.telling(place), confined.parent(place) as (folder, name):
            is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
            if not is_folder:
                os.unlink(name, dir_fd=folder)
            elif recursive:
                shutil.rmtree(name, dir_fd=folder)
            else:
                os.rmdir(name, dir_fd=folder)
            sync(folder)
        return f"{place.shown!r} is deleted"

    return delete


def _make_folder(confined: Confined) -> Tool:
    @tool(side_effects=True, idempotent=True, resource=lambda arguments: confined.key(arguments["path"]))
    def make_folder(path: str) -> str:
        """Make a folder, and those it is in. If it is there, nothing changes.

        Args:
            path: Relative to the first root, `root:path`, or absolute inside a root.
        """
        place = confined.place(path, write=True)
        with confined.writing, confined.telling(place):
            new = confined.make_folders(place)
        return f"{place.shown!r} is made" if new else f"{place.shown!r} was there before"

    return make_folder
