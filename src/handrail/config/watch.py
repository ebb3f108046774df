"""Whether files have changed since one last looked. It reads nothing and starts nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from handrail.core.errors import ConfigError
from handrail.tools.files.table import read_file

Stamp = tuple[int, int, int]


class Watch:
    """A set of files by what the system says of them: the time of the last change, the size, and which file it is."""

    def __init__(self, files: Iterable[Path] = ()) -> None:
        self._seen = _stamps(files)

    def look(self, files: Iterable[Path]) -> tuple[Path, ...]:
        """Those that changed, came or went since the last look; the set may be another one than then."""
        now = _stamps(files)
        before, self._seen = self._seen, now
        return tuple(
            path for path in (*before, *(each for each in now if each not in before)) if _differ(path, before, now)
        )


def _differ(path: Path, before: dict[Path, Stamp | None], now: dict[Path, Stamp | None]) -> bool:
    return before.get(path) != now.get(path)


def _stamps(files: Iterable[Path]) -> dict[Path, Stamp | None]:
    return {path: _stamp(path) for path in files}


def _stamp(path: Path) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def files_of(config: Path | None, ensembles: Iterable[Path]) -> tuple[Path, ...]:
    """Every file that a configuration is made of: itself, its ensembles, and the files that those name."""
    found = [] if config is None else [config]
    for path in ensembles:
        found.append(path)
        found += _sources(path)
    return tuple(dict.fromkeys(found))


def _sources(path: Path) -> list[Path]:
    try:
        entries = read_file(path).values.get("invokers", [])
    except ConfigError:
        return []  # it is told where it is loaded
    sources = [entry.get("source") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [path.parent / each for each in sources if isinstance(each, str) and "\0" not in each]
