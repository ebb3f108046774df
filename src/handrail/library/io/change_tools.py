"""The tools that change files: `write_file`, `move`, `delete`, `make_folder`. `edit_file` is in `edit`."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from typing import Literal

from handrail.core.errors import ToolError
from handrail.core.ids import NewId, new_id
from handrail.core.invocation import Invocation
from handrail.library.io.confined_files import BY_HAND, ConfinedFiles, ConfinedPath, sync_renames
from handrail.library.io.disk_changes import (
    append_to_file,
    create_file,
    existing_file,
    move_without_overwrite,
    replace_file,
)
from handrail.library.io.settings import IoLimits
from handrail.library.io.system_failures import system_failure
from handrail.tools.tool import Tool, tool


def write_tools(confined: ConfinedFiles, limits: IoLimits, ids: NewId = new_id) -> list[Tool]:
    return [_write(confined, limits, ids), _move(confined), _delete(confined), _make_folder(confined)]


def _write(confined: ConfinedFiles, limits: IoLimits, ids: NewId) -> Tool:
    @tool(
        side_effects=True,
        resource=lambda arguments: confined.territory(arguments["path"]),
        locate=lambda arguments: {"path": confined.location(arguments["path"])},
    )
    def write_file(
        path: str,
        text: str,
        mode: Literal["create", "overwrite", "append"] = "create",
        parents: bool = False,
        call: Invocation = BY_HAND,
    ) -> str:
        """Write a text file, in UTF-8. To change a part of one, use edit_file.

        Args:
            path: Relative to the first root, `root:path`, or absolute inside a root.
            text: All of the new content, or with append what comes after the old.
            mode: create fails if the file is there; overwrite replaces it; append adds to it.
            parents: Make the folders that it is in, if they are not there.
        """
        place = confined.place(path, write=True, decided=call.locations.get("path"))
        data = _encoded(text, limits)
        with confined.writing, confined.telling(place), confined.parent(place, make=parents) as (folder, name):
            before = existing_file(place, folder, name)
            match mode:
                case "append":
                    append_to_file(place, folder, name, data, limits)
                case "create":
                    create_file(folder, name, data, ids)
                case "overwrite":
                    replace_file(folder, name, data, before, ids)
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


def _move(confined: ConfinedFiles) -> Tool:
    @tool(
        side_effects=True,
        resource=lambda arguments: confined.territory(arguments["source"], arguments["target"]),
        locate=lambda arguments: {
            "source": confined.location(arguments["source"], tree=True),
            "target": confined.location(arguments["target"], tree=True),
        },
    )
    def move(
        source: str, target: str, overwrite: bool = False, parents: bool = False, call: Invocation = BY_HAND
    ) -> str:
        """Move or rename a file or folder.

        Args:
            source: What to move: relative to the first root, `root:path`, or absolute inside a root.
            target: Its new path, with its new name.
            overwrite: Replace a file that is there.
            parents: Make the folders that the target is in, if they are not there.
        """
        old = confined.place(source, write=True, decided=call.locations.get("source"))
        new = confined.place(target, write=True, decided=call.locations.get("target"))
        with confined.writing, confined.telling(old), confined.parent(old) as (from_, name):
            _is_folder(old, from_, name)
            with confined.telling(new), confined.parent(new, make=parents) as (to, new_name):
                try:
                    (_rename_over if overwrite else move_without_overwrite)(name, new_name, from_, to)
                except OSError as error:
                    if error.errno == errno.EXDEV:
                        raise ToolError(
                            "other_disk", "it would go to another disk; write it there, then delete it"
                        ) from error
                    raise
                sync_renames(to)
            sync_renames(from_)
        return f"{old.shown!r} is now {new.shown!r}"

    return move


def _is_folder(place: ConfinedPath, folder: int, name: str) -> bool:
    """Whether a path that is to be moved or deleted is one; what ends with '/' must be."""
    found = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    if place.path.endswith("/") and not found:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
    return found


def _rename_over(source: str, target: str, from_: int, to: int) -> None:
    os.rename(source, target, src_dir_fd=from_, dst_dir_fd=to)


def _delete(confined: ConfinedFiles) -> Tool:
    @tool(
        side_effects=True,
        resource=lambda arguments: confined.territory(arguments["path"]),
        locate=lambda arguments: {"path": confined.location(arguments["path"], tree=True)},
    )
    def delete(path: str, recursive: bool = False, call: Invocation = BY_HAND) -> str:
        """Delete a file, a link or a folder. It cannot be taken back.

        Args:
            path: Relative to the first root, `root:path`, or absolute inside a root.
            recursive: Delete a folder with all that is in it.
        """
        place = confined.place(path, write=True, decided=call.locations.get("path"))
        with confined.writing, confined.telling(place), confined.parent(place) as (folder, name):
            if not _is_folder(place, folder, name):
                os.unlink(name, dir_fd=folder)
            elif recursive:
                _delete_tree(place, folder, name)
            else:
                os.rmdir(name, dir_fd=folder)
            sync_renames(folder)
        return f"{place.shown!r} is deleted"

    return delete


def _delete_tree(place: ConfinedPath, folder: int, name: str) -> None:
    try:
        shutil.rmtree(name, dir_fd=folder)
    except (OSError, RecursionError) as error:
        why = system_failure(error, str(error.filename)) if isinstance(error, OSError) else "it is too deep"
        raise ToolError(
            "in_part", f"{place.shown!r} cannot be deleted whole: {why}; what was in it before may be gone"
        ) from error


def _make_folder(confined: ConfinedFiles) -> Tool:
    @tool(
        side_effects=True,
        idempotent=True,
        resource=lambda arguments: confined.territory(arguments["path"]),
        locate=lambda arguments: {"path": confined.location(arguments["path"])},
    )
    def make_folder(path: str, call: Invocation = BY_HAND) -> str:
        """Make a folder, and those it is in. If it is there, nothing changes.

        Args:
            path: Relative to the first root, `root:path`, or absolute inside a root.
        """
        place = confined.place(path, write=True, decided=call.locations.get("path"))
        with confined.writing, confined.telling(place):
            new = confined.make_folders(place)
        return f"{place.shown!r} is made" if new else f"{place.shown!r} was there before"

    return make_folder
