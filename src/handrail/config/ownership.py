"""Whose file a configuration is. One that another user could have written is not taken up just because it was found.

It is the rule of git's `safe.directory`, and OpenSSH's for its own files: the file and its folder belong to the
user or to root, and nobody else may write them. A file that is named on the command line is the user's own choice.
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

from handrail.core.errors import UsageError


def check_owner(file: Path, environ: Mapping[str, str] = os.environ) -> None:
    """
    Raises:
        UsageError: Another user owns the file or its folder, or may write one of them; with what to do.
    """
    for path in (file, file.parent):
        about = os.stat(path)
        what = "the file" if path == file else "its folder"
        if about.st_uid not in _trusted(environ):
            raise UsageError(
                f"{str(file)!r} was found but is not used: {what} belongs to another user ({_name(about.st_uid)}),"
                f" who could change it at any time; if you trust them, name it: --config {shlex.quote(str(file))}"
            )
        if _others_may_write(about):
            raise UsageError(
                f"{str(file)!r} was found but is not used: others may write {what}; run: chmod go-w"
                f" {shlex.quote(str(path))}, or name it: --config {shlex.quote(str(file))}"
            )


def _trusted(environ: Mapping[str, str]) -> set[int]:
    """The user, root, and for root under sudo the user who called it."""
    user = os.geteuid()
    caller = environ.get("SUDO_UID", "")
    return {user, 0, int(caller)} if user == 0 and caller.isdecimal() else {user, 0}


def _others_may_write(about: os.stat_result) -> bool:
    mode = about.st_mode
    return bool(mode & stat.S_IWOTH) or (bool(mode & stat.S_IWGRP) and not _is_own_group(about.st_gid, about.st_uid))


def _is_own_group(group: int, user: int) -> bool:
    """Whether only its user is in the group. Many systems give each user one, and let it write by default."""
    try:
        name, members = grp.getgrgid(group).gr_name, grp.getgrgid(group).gr_mem
        return name == pwd.getpwuid(user).pw_name and set(members) <= {name}
    except KeyError:
        return False


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
