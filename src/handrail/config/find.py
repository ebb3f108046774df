"""Finds the configuration: the one that is named, or the one in this folder or the nearest above that only the user can
have written."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from handrail.core.errors import UsageError
from handrail.core.keyfile import owner_of, ownership_doubt

NAME = "handrail.toml"
VARIABLE = "HANDRAIL_CONFIG"


def find_config(named: Path | None, start: Path, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Find the file that is named here or by HANDRAIL_CONFIG; else `handrail.toml` in this folder or the nearest above.

    Raises:
        UsageError: One is named, and is not there; or the one that is found could be another user's work.
    """
    if named is None and environ.get(VARIABLE):
        named = Path(environ[VARIABLE])
    if named is not None:
        if not os.path.isfile(named):
            raise UsageError(f"there is no configuration at {str(named)!r}; check --config, or ${VARIABLE}")
        return named
    paths = (folder / NAME for folder in (start, *start.parents))
    found = next((path for path in paths if os.path.isfile(path)), None)
    if found is not None:
        check_owner(found, environ)
    return found


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
