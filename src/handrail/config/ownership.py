"""Whose file a configuration is. One that another user could have written is not taken up just because it was found.

It is the rule of git's `safe.directory`, and OpenSSH's for its own files: the file and its folder belong to the
user or to root, and nobody else may write them. A file that is named on the command line is the user's own choice.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from handrail.core.errors import UsageError
from handrail.core.keyfile import owner_of, ownership_doubt


def check_owner(file: Path, environ: Mapping[str, str] = os.environ) -> None:
    """
    Raises:
        UsageError: Another user owns the file or its folder, or may write one of them; with what to do.
    """
    named = f"--config {shlex.quote(str(file))}"
    for path, what in ((file, "the file"), (file.parent, "its folder")):
        match ownership_doubt(path, environ):
            case "owner":
                raise UsageError(
                    f"{str(file)!r} was found but is not used: {what} belongs to another user ({owner_of(path)}),"
                    f" who could change it at any time; if you trust them, name it: {named}"
                )
            case "writable":
                raise UsageError(
                    f"{str(file)!r} was found but is not used: others may write {what}; run: chmod go-w"
                    f" {shlex.quote(str(path))}, or name it: {named}"
                )
