"""Looks through texts for a pattern, in a process of its own: a pattern may take for ever, and then that one is ended.

Only the standard library is imported here, for it runs as a program without any path to the package.
What decides where a character of a file is stands here too, so that both sides count alike.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import re
import resource
import stat
import sys
from collections.abc import Iterator
from typing import Any

STEP = 1 << 20
"""Bytes that are decoded at a time."""
WINDOW = 4 << 20
"""Characters that a pattern sees at a time."""
OVERLAP = 1 << 16
"""A match may be this long wherever it is; a longer one is found where it happens to lie in one window."""
MATCH = 2_000
"""Characters of one match that are shown."""
MEMORY = 1 << 30
OURS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What says nothing about a file that cannot be opened, only about us."""


class ContextFileChanged(Exception):
    """A file is not the one any more that was listed."""


def stamp(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def open_unchanged(path: str, expected: list[int]) -> int:
    """A descriptor of the very file that was listed; whatever stands there by now is not read.

    Raises:
        ContextFileChanged: It was written to, replaced or removed.
        OSError: Nothing can be opened just now.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in OURS:
            raise
        raise ContextFileChanged(error.strerror or "it cannot be opened") from error
    status = os.fstat(file)
    if stamp(status) != expected or not stat.S_ISREG(status.st_mode):
        os.close(file)
        raise ContextFileChanged("its size, its time or the file itself is another")
    return file


def decode(data: bytes, final: bool) -> tuple[str, int, bool]:
    """Text, how many bytes it took, and whether some of them were not UTF-8 and are shown as U+FFFD."""
    try:
        return *codecs.utf_8_decode(data, "strict", final), False
    except UnicodeDecodeError:
        return *codecs.utf_8_decode(data, "replace", final), True


def pieces(file: int, at: int, end: int, step: int = STEP) -> Iterator[str]:
    """The text between two bytes of a file."""
    while at < end:
        data = os.pread(file, min(step, end - at), at)
        if not data:
            raise ContextFileChanged("it became shorter")
        text, taken, _ = decode(data, at + len(data) >= end)
        at += taken
        yield text


def windows(texts: Iterator[str], window: int = WINDOW, overlap: int = OVERLAP) -> Iterator[tuple[str, int, bool]]:
    """The text in parts: each with what goes before it, its place, and whether it is the last.

    One begins at most two overlaps before the end of the one before it.
    """
    held, at = "", 0
    for text in texts:
        held += text
        if len(held) >= window + 2 * overlap:
            yield held, at, False
            cut = len(held) - 2 * overlap
            held, at = held[cut:], at + cut
    yield held, at, True


Found = tuple["re.Match[str]", int, int]
"""A match, where the window begins that it is in, and the line of the match."""


def find(
    texts: Iterator[str], pattern: re.Pattern[str], window: int = WINDOW, overlap: int = OVERLAP
) -> Iterator[Found]:
    goes_on = 0  # a match may not begin before this character
    line, counted = 0, 0
    for text, at, is_last in windows(texts, window, overlap):
        ends = len(text) if is_last else len(text) - overlap
        reached = max(goes_on - at, 0)
        for match in pattern.finditer(text, reached):
            if match.start() >= ends and not is_last:
                break
            line += text.count("\n", counted - at, match.start())
            counted = at + match.start()
            yield match, at, line
            # An empty match does not hinder one at the same place in the next window; a full one does.
            reached = match.end() + (match.end() == match.start())
        goes_on = at + max(ends, reached)
        # What the next window does not show is counted while it can be.
        line += text.count("\n", counted - at, ends)
        counted = at + ends


def count(texts: Iterator[str], needle: str) -> int:
    """How often it occurs, without overlaps, as `str.count` counts."""
    found, held = 0, ""
    for text in texts:
        parts = (held + text).split(needle)
        found += len(parts) - 1
        held = parts[-1][max(len(parts[-1]) - len(needle) + 1, 0) :]
    return found


def shown(match: re.Match[str], around: int) -> str:
    end = min(match.end(), match.start() + MATCH)
    return match.string[max(match.start() - around, 0) : end + around]


def searched(asked: dict[str, Any]) -> list[dict[str, Any]]:
    pattern = re.compile(asked["pattern"], re.MULTILINE)
    found: list[dict[str, Any]] = []
    for each in asked["texts"]:
        for match, at, line in find(_opened(each), pattern):
            if at + match.start() < asked["start"]:
                continue
            hit = {"at": at + match.start(), "line": line, "text": shown(match, asked["around"])}
            found.append({"name": each["name"], **hit} if asked["named"] else hit)
            if len(found) == asked["limit"]:
                return found
    return found


def counted(asked: dict[str, Any]) -> int:
    return sum(count(_opened(each), asked["text"]) for each in asked["texts"])


def _opened(each: dict[str, Any]) -> Iterator[str]:
    file = os.dup(each["fd"]) if "fd" in each else -1
    try:
        file = open_unchanged(each["path"], each["stamp"]) if file < 0 else file
        yield from pieces(file, each["start"], each["end"])
    except ContextFileChanged as error:
        raise ContextFileChanged(f"{each['name']!r} changed since it was listed: {error}") from error
    finally:
        if file >= 0:
            os.close(file)


def main() -> int:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    memory = MEMORY if most == resource.RLIM_INFINITY else min(MEMORY, most)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    asked = json.load(sys.stdin)
    try:
        said: dict[str, Any] = {"value": counted(asked) if "text" in asked else searched(asked)}
    except re.error as error:
        said = {"error": f"the pattern cannot be used: {error}", "kind": "ValueError"}
    except ContextFileChanged as error:
        said = {"error": str(error), "kind": "OSError"}
    except OSError as error:
        said = {"error": f"a file cannot be read: {error.strerror}", "kind": "OSError"}
    except (MemoryError, RecursionError, OverflowError):
        said = {"error": "the pattern needs too much memory; take a simpler one", "kind": "ValueError"}
    sys.stdout.write(json.dumps(said))
    return 0


if __name__ == "__main__":
    sys.exit(main())
