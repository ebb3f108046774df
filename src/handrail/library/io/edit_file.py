"""`edit_file`: exact replacements, all of them or none, and a diff of what changed."""

from __future__ import annotations

import errno
import os
import re
from difflib import get_close_matches, unified_diff
from typing import Annotated

from msgspec import Meta, Struct

from handrail.core.errors import ToolError
from handrail.core.ids import NewId, new_id
from handrail.core.invocation import Invocation
from handrail.library.io.confined_files import BY_HAND, READ, ConfinedFiles, ConfinedPath, check_ordinary_file
from handrail.library.io.disk_changes import existing_file, replace_file
from handrail.library.io.read_file import file_content, text_encoding
from handrail.library.io.settings import IoLimits
from handrail.tools.tool import Tool, tool

_AROUND = 3
_COMPARED = 2_000
"""Lines on each side: to compare more could take very long."""
_GUESSED = 1_000_000
"""Characters of a file in which something like it is looked for."""
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


class FileEdit(Struct, frozen=True):
    """One replacement."""

    old: Annotated[
        str, Meta(min_length=1, description="The text as it stands in the file, with its line ends and indentation.")
    ]
    new: Annotated[str, Meta(description="What takes its place.")]
    all: Annotated[bool, Meta(description="Replace it wherever it stands; else it must stand there exactly once.")] = (
        False
    )


def edit_tool(confined: ConfinedFiles, limits: IoLimits, ids: NewId = new_id) -> Tool:
    @tool(
        side_effects=True,
        resource=lambda arguments: confined.territory(arguments["path"]),
        locate=lambda arguments: {"path": confined.location(arguments["path"])},
    )
    def edit_file(path: str, edits: Annotated[list[FileEdit], Meta(min_length=1)], call: Invocation = BY_HAND) -> str:
        """Replace exact pieces of text in a file. If one of them cannot be found, nothing is changed. Gives a diff.

        Args:
            path: Relative to the first root, `root:path`, or absolute inside a root.
            edits: The replacements, in order; each sees what the one before it made.
        """
        place = confined.place(path, write=True, decided=call.locations.get("path"))
        with confined.writing, confined.telling(place), confined.parent(place) as (folder, name):
            before, data = _read(place, folder, name, limits)
            old, new, written = _changed(place, data, edits, limits)
            now = existing_file(place, folder, name)
            if now is None or _version(now) != _version(before):
                raise ToolError("changed", f"{place.shown!r} was changed by somebody else meanwhile; read it again")
            replace_file(folder, name, written, before, ids)
        return _diff(place.shown, old, new)

    return edit_file


def _read(place: ConfinedPath, folder: int, name: str, limits: IoLimits) -> tuple[os.stat_result, bytes]:
    if existing_file(place, folder, name) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    descriptor = os.open(name, READ | os.O_NOFOLLOW, dir_fd=folder)
    try:
        about = os.fstat(descriptor)
        check_ordinary_file(place, about)
        return about, file_content(place, descriptor, about.st_size, limits)
    finally:
        os.close(descriptor)


def _version(about: os.stat_result) -> tuple[int, int, int]:
    return about.st_ino, about.st_mtime_ns, about.st_size


def _changed(place: ConfinedPath, data: bytes, edits: list[FileEdit], limits: IoLimits) -> tuple[str, str, bytes]:
    """The text before and after, and the bytes to write."""
    encoding = text_encoding(place, data, len(data))
    old = encoding.decode(data)
    if encoding.encode(old) != data:
        raise ToolError("bad_text", f"{place.shown!r} holds bytes that are not {encoding.name} and would be lost")
    new = _edited(place, old, edits)
    if new == old:
        raise ToolError("no_change", f"the edits leave {place.shown!r} as it is")
    try:
        written = encoding.encode(new)
    except UnicodeEncodeError as error:
        wrong = f"{new[error.start]!r} cannot be written in {encoding.name}, which {place.shown!r} is in"
        raise ToolError("bad_text", wrong) from None
    if len(written) > limits.file:
        raise ToolError("too_large", f"{place.shown!r} would have more than {limits.file:,} bytes")
    return old, new, written


def _edited(place: ConfinedPath, text: str, edits: list[FileEdit]) -> str:
    # Models write plain line ends, whatever the file has.
    other_ends = "\r\n" in text and "\n" not in text.replace("\r\n", "")
    for number, edit in enumerate(edits, 1):
        old, new = edit.old, edit.new
        if other_ends and "\r\n" not in old:
            old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
        found = text.count(old)
        which = f"edit {number} of {len(edits)}" if len(edits) > 1 else "the edit"
        if found == 0:
            raise ToolError(
                "no_match", f"{which} was not found in {place.shown!r}, so nothing was changed; {_why(text, old)}"
            )
        if found > 1 and not edit.all:
            lines = ", ".join(map(str, _where(text, old))) + (", …" if found > 5 else "")
            raise ToolError(
                "many_matches",
                f"{which} was found {found:,} times in {place.shown!r} (lines {lines}), so nothing was changed; "
                "give more of the text around it, or say all",
            )
        text = text.replace(old, new)
    return text


def _where(text: str, old: str) -> list[int]:
    lines: list[int] = []
    at = text.find(old)
    while at >= 0 and len(lines) < 5:
        lines.append(text.count("\n", 0, at) + 1)
        at = text.find(old, at + len(old))
    return lines


def _why(text: str, old: str) -> str:
    """What may have been meant, by the beginning of the file."""
    text = text[:_GUESSED]
    if " ".join(old.split()) in " ".join(text.split()):
        return "it is there with other spaces or line ends: read the file and copy it exactly"
    first = next((line for line in old.splitlines() if line.strip()), old).strip()
    lines = text.splitlines()[:_COMPARED]
    near = get_close_matches(first[:100], [line.strip()[:100] for line in lines], n=1, cutoff=0.7)
    return f"the nearest line is {near[0]!r}" if near else "read the file and copy what is to be replaced exactly"


def _diff(shown: str, old: str, new: str) -> str:
    """A unified diff, without the lines at the beginning and the end that nobody touched."""
    before, after = old.splitlines(), new.splitlines()
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    start, end = max(start - _AROUND, 0), max(end - _AROUND, 0)
    before, after = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(before), len(after)) > _COMPARED:
        return f"{shown!r} is changed from line {start + 1:,} on: {len(before):,} lines are {len(after):,} now"
    lines = unified_diff(before, after, shown, shown, lineterm="", n=_AROUND)
    text = "\n".join(_HUNK.sub(lambda hunk: _moved(hunk, start), line) for line in lines)
    return text or f"{shown!r} is changed in its line ends only"


def _moved(hunk: re.Match[str], lines: int) -> str:
    return f"@@ -{int(hunk[1]) + lines}{hunk[2] or ''} +{int(hunk[3]) + lines}{hunk[4] or ''} @@"
