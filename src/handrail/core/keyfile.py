"""A file that holds one secret: it belongs to its owner, who alone may read it, and it is written whole or not at
all."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from handrail.core.git_index import is_tracked

Doubt = Literal["owner", "writable"]


def ownership_doubt(path: Path, environ: Mapping[str, str] = os.environ) -> Doubt | None:
    """Why a file or folder may be another user's work: they own it, or they may write it. None if it may not.

    Raises:
        OSError: It cannot be looked at.
    """
    about = os.stat(path)
    if not is_owned(about, environ):
        return "owner"
    return "writable" if _others_may_write(about) else None


def is_owned(about: os.stat_result, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether it belongs to this user or to root; to root under sudo, also whether to the user who called it."""
    user = os.geteuid()
    caller = environ.get("SUDO_UID", "")
    return about.st_uid in (user, 0) or (user == 0 and caller.isdecimal() and about.st_uid == int(caller))


def owner_of(path: Path) -> str:
    """The name of a file's owner, or their number."""
    user = os.stat(path).st_uid
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _others_may_write(about: os.stat_result) -> bool:
    mode = about.st_mode
    return bool(mode & stat.S_IWOTH) or (bool(mode & stat.S_IWGRP) and not _is_own_group(about.st_gid, about.st_uid))


def _is_own_group(group: int, user: int) -> bool:
    """Whether only its user is in the group. Many systems give each user one, and let it write by default."""
    try:
        found = grp.getgrgid(group)
        return found.gr_name == pwd.getpwuid(user).pw_name and set(found.gr_mem) <= {found.gr_name}
    except KeyError:
        return False


_LONGEST = 4096
_AWAY = "move it away, and a new key is made"


class UnsafeKeyFile(Exception):
    """The path is no file, others can read it, or it may be somebody else's. The message says what to do."""


def read_key(path: Path) -> str:
    """The text of a key file.

    Raises:
        UnsafeKeyFile: It must not be used as it is.
        OSError: It cannot be read.
    """
    # Without O_NONBLOCK a pipe in the place of the file would hang the caller.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        mode = about.st_mode
        if not stat.S_ISREG(mode):
            raise UnsafeKeyFile(f"{str(path)!r} is not a file; give the path of a key file")
        if not is_owned(about):
            raise UnsafeKeyFile(f"the key in {str(path)!r} is not used: the file belongs to another user; {_AWAY}")
        if is_tracked(path):
            raise UnsafeKeyFile(
                f"the key in {str(path)!r} is not used: git tracks the file, so everybody who has the repository has"
                f" the key; take it out (git rm --cached) and {_AWAY}"
            )
        if mode & 0o077:
            shown = f"{str(path)!r} (mode {stat.S_IMODE(mode):04o})"
            raise UnsafeKeyFile(
                f"others can use the key in {shown}; if you made it on this machine, run: chmod 600 {path};"
                f" if it came with the files of others, {_AWAY}"
            )
        return file.read(_LONGEST).decode("ascii", "replace")


def check_state_folder(folder: Path, *, alone: bool = True) -> None:
    """Make sure that a folder of journals, keys and tokens is this user's own work. One that is not there yet is.
    One in which they do not stand `alone` may hold files that git tracks.

    Raises:
        UnsafeKeyFile: It came with a repository, or another user owns it, with what to do.
        OSError: It cannot be looked at.
    """
    if not os.path.lexists(folder):
        return
    if not is_owned(os.lstat(folder)) or not is_owned(os.stat(folder)):
        raise UnsafeKeyFile(
            f"the folder {str(folder)!r} is not used: it belongs to another user ({owner_of(folder)}), and so may the"
            " keys and the record in it; move it away, or name another place with --journal PATH"
        )
    if alone and is_tracked(folder):
        raise UnsafeKeyFile(
            f"the folder {str(folder)!r} is not used: git tracks it, so its keys, tokens and record are whatever the"
            f" repository brought; take it out (git rm -r --cached {folder.name}) and move it away, and a new one is"
            " made; or name another place with --journal PATH"
        )


def create_key(path: Path, text: str) -> bool:
    """Write a new key file, never in the place of another: if there is one by then, that one stands, and it is False.

    Raises:
        OSError: It cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(handle, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
        sync_folder(path.parent)
    return True


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_P = 2**255 - 19
_ORDER_8 = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
_SMALL = frozenset({0, 1, _P - 1, _P, _P + 1, _ORDER_8, _P - _ORDER_8})
"""Their y coordinates, also those that are written in another way than the usual one."""


def is_small_order(public: bytes) -> bool:
    return int.from_bytes(public, "little") % 2**255 in _SMALL
