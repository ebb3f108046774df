"""Whose a file is: whether somebody else than this user could have written it."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

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
