"""`find_text`: the lines of many files that hold a text, or match a pattern in linear time."""

from __future__ import annotations

import io
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Meta

from handrail.core.errors import ToolError
from handrail.library.io.confined_files import LISTED, ConfinedFiles, ConfinedPath
from handrail.library.io.list_folder import FolderWalk, first_names, open_listed_file
from handrail.library.io.patterns import LinearPattern, glob_pattern
from handrail.library.io.read_file import encoding_of, file_content, with_note
from handrail.library.io.settings import IoLimits
from handrail.tools.tool import Tool, tool

_SHOWN = 400
"""Characters of a line."""
_TOTAL = 16
"""Times the largest file: so much is read in one search."""

Test = Callable[[str], bool]


def find_tool(confined: ConfinedFiles, limits: IoLimits) -> Tool:
    @tool()
    def find_text(
        text: Annotated[str, Meta(min_length=1)],
        path: str = ".",
        regex: bool = False,
        ignore_case: bool = False,
        pattern: str | None = None,
        hidden: bool = False,
        gitignore: bool = True,
        limit: Annotated[int, Meta(ge=1)] | None = None,
    ) -> str:
        """Find the lines that hold a text, in a file or in all files of a folder: `path:line: the line`.

        Args:
            text: What to look for, as it stands; with regex, a regular expression without look-around.
            path: A file or folder: relative to the first root, `root:path`, or absolute inside a root.
            regex: Take the text for a regular expression.
            ignore_case: Take large and small letters for the same.
            pattern: Only in files that match: `*.py` is for names, `src/**/*.py` for the whole way.
            hidden: Also in files and folders whose names begin with a dot.
            gitignore: Leave out what .gitignore files say.
            limit: At most so many lines.
        """
        place = confined.place(path)
        search = _TextSearch(
            _test(text, regex=regex, ignore_case=ignore_case), limits, min(limit or limits.matches, limits.matches)
        )
        wanted = None if pattern is None else glob_pattern(pattern)
        walk = FolderWalk(hidden=hidden, gitignore=gitignore, most=limits.visited)
        with confined.telling(place):
            try:
                with confined.opened(place, LISTED) as folder:
                    for entry in walk.entries(folder):
                        if search.full:
                            break
                        if stat.S_ISREG(entry.mode) and (wanted is None or wanted.within(entry.way)):
                            with open_listed_file(entry) as file:
                                if file is None:
                                    walk.skipped.append(entry.way)
                                else:
                                    search.look(place.below(entry.way), file[0], file[1].st_size)
            except NotADirectoryError:
                with confined.file(place) as (descriptor, about):
                    search.look(place, descriptor, about.st_size)
        return with_note("\n".join(search.found), search.notes(walk))

    return find_text


def _test(text: str, *, regex: bool, ignore_case: bool) -> Test:
    if regex:
        return LinearPattern(f"(?i){text}" if ignore_case else text).within
    if ignore_case:
        wanted = text.casefold()
        return lambda line: wanted in line.casefold()
    return lambda line: text in line


@dataclass(slots=True)
class _TextSearch:
    test: Test
    limits: IoLimits
    most: int
    found: list[str] = field(default_factory=list)
    files: int = 0
    size: int = 0
    large: list[str] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.found) >= self.most or self.size > _TOTAL * self.limits.file

    def look(self, place: ConfinedPath, descriptor: int, size: int) -> None:
        try:
            data = file_content(place, descriptor, size, self.limits)
        except ToolError:
            self.large.append(place.shown)
            return
        self.size += len(data)
        encoding = encoding_of(data)
        if encoding is None:
            return
        self.files += 1
        # Line by line: a list of millions would hold up the whole program while it is made.
        lines = (line.removesuffix("\n") for line in io.StringIO(encoding.decode(data), newline="\n"))
        for number, line in enumerate(lines, 1):
            if self.test(line):
                self.found.append(f"{place.shown}:{number}: {_short(line.rstrip())}")
                if self.full:
                    return

    def notes(self, walk: FolderWalk) -> list[str]:
        notes = []
        if len(self.found) >= self.most:
            notes.append(f"stopped after {self.most:,} lines; there may be more: narrow the search")
        elif self.full or walk.cut:
            notes.append("stopped before the end, because there is too much to read; search a folder further down")
        if self.large:
            notes.append(first_names("too large to search", self.large))
        if walk.skipped:
            notes.append(first_names("not opened", walk.skipped))
        if not self.found:
            notes.append(f"not found in {self.files:,} text file{'' if self.files == 1 else 's'}")
        return notes


def _short(line: str) -> str:
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
