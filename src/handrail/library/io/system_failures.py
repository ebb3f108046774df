"""What the system says of a file, in words for people and models."""

from __future__ import annotations

import errno
import os

from handrail.core.errors import ToolError

_SAYS = {
    # errno            code              what is wrong, and what to do
    errno.EXDEV: ("outside_root", "it leads out of its root, by '..' or by a link; only what is inside can be used"),
    errno.ELOOP: ("bad_link", "a link on the way cannot be followed; name what it leads to"),
    errno.ENOTDIR: ("not_a_folder", "a part of it is a file and no folder; list_folder shows what there is"),
    errno.EISDIR: ("not_a_file", "it is a folder; list_folder shows what is in it"),
    errno.EEXIST: ("exists", "it is already there; choose another name, or say that it may be overwritten"),
    errno.ENOTEMPTY: ("not_empty", "the folder is not empty; say recursive to delete all that is in it"),
    errno.EACCES: ("permission", "the system does not permit it"),
    errno.EPERM: ("permission", "the system does not permit it"),
    errno.EROFS: ("permission", "it is on a file system that cannot be written"),
    errno.ENAMETOOLONG: ("bad_path", "a name in it is too long"),
    errno.ENOSPC: ("no_space", "the disk is full; no file was changed"),
    errno.EDQUOT: ("no_space", "the disk quota is used up; no file was changed"),
    errno.EINVAL: ("bad_path", "the system cannot do that with this path"),
    errno.ENXIO: ("not_a_file", "it is not an ordinary file"),
}


def system_failure(error: OSError, shown: str, hint: str = "") -> ToolError:
    """An error of the system as the answer to a call. `hint` is for what is not there."""
    if error.errno == errno.ENOENT:
        return ToolError("not_found", f"{shown!r} is not there{hint}")
    known = _SAYS.get(error.errno or 0)
    if known is None:
        return ToolError("failed", f"{shown!r}: {os.strerror(error.errno) if error.errno else error}")
    code, words = known
    return ToolError(code, f"{shown!r}: {words}")
