"""What is done to the disk where a file is changed: put there whole in one step, added to, or moved.

A file is written beside its place and put there by a rename, so that nobody ever
reads half of it and a crash leaves the old one. What a link leads to is not changed
through the link: a rename would replace the link, and then two files differ that
somebody thinks are one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from handrail.core.errors import ToolError
from handrail.core.ids import NewId
from handrail.library.io.confined_files import ConfinedPath, check_ordinary_file, sync_renames
from handrail.library.io.openat2 import rename_without_overwrite
from handrail.library.io.settings import IoLimits
from handrail.library.io.system_failures import system_failure

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What file systems say that have no hard links."""


def existing_file(place: ConfinedPath, folder: int, name: str) -> os.stat_result | None:
    """What is there now.

    Raises:
        ToolError: It is no ordinary file.
    """
    if place.path.endswith("/"):
        raise ToolError("not_a_file", f"{place.shown!r} ends with '/', as only folders do; name a file")
    try:
        about = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(about.st_mode):
        target = os.readlink(name, dir_fd=folder)
        raise ToolError("link", f"{place.shown!r} is a link to {target!r}; name the file that it leads to")
    check_ordinary_file(place, about)
    return about


def replace_file(folder: int, name: str, data: bytes, before: os.stat_result | None, ids: NewId) -> None:
    """Put a whole file in the place of what was there, with the rights that it had."""

    def put(temporary: str) -> None:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)

    _replace_by_temporary(folder, name, data, before, put, ids)


def create_file(folder: int, name: str, data: bytes, ids: NewId) -> None:
    """Put a whole file where nothing is.

    Raises:
        FileExistsError: Something is.
    """

    def put(temporary: str) -> None:
        move_without_overwrite(temporary, name, folder, folder)

    if _exists(folder, name):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    _replace_by_temporary(folder, name, data, None, put, ids)


def _replace_by_temporary(
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
    sync_renames(folder)


def _fill(descriptor: int, data: bytes, like: os.stat_result | None) -> None:
    if like is not None:
        if (like.st_uid, like.st_gid) != (os.getuid(), os.getgid()):
            with suppress(PermissionError):
                os.fchown(descriptor, like.st_uid, like.st_gid)
        os.fchmod(descriptor, like.st_mode & 0o777)  # but nothing new runs with the rights of another
    _write_all(descriptor, data)
    os.fsync(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def append_to_file(place: ConfinedPath, folder: int, name: str, data: bytes, limits: IoLimits) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o666, dir_fd=folder)
    try:
        about = os.fstat(descriptor)
        check_ordinary_file(place, about)
        if about.st_size + len(data) > limits.file:
            raise ToolError("too_large", f"{place.shown!r} would have more than {limits.file:,} bytes")
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        except OSError as error:
            _take_back(place, descriptor, about.st_size, error)
            raise
    finally:
        os.close(descriptor)
    sync_renames(folder)


def _take_back(place: ConfinedPath, descriptor: int, size: int, error: OSError) -> None:
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        why = system_failure(error, place.shown)
        raise ToolError("in_part", f"{why}; a part of the text was added all the same") from error


def move_without_overwrite(
    source: str, target: str, from_: int, to: int, rename: Callable[..., None] = rename_without_overwrite
) -> None:
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
    """Moves in two steps: a new second name, then the first is removed. Folders have only one name."""
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
