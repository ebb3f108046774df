"""Notices changed files. It reads no contents and starts nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from handrail.core.errors import ConfigError
from handrail.tools.files.toml_table import read_toml_file

Stamp = tuple[int, int, int]


class WatchedFiles:
    """A set of files by what the system says of them: the time of the last change, the size, and which file it is."""

    def __init__(self, files: Iterable[Path] = ()) -> None:
        self._seen = _stamps(files)

    def look(self, files: Iterable[Path]) -> tuple[Path, ...]:
        """Returns the files that changed, came or went since the last look. The set of files may be another one than
        then."""
        now = _stamps(files)
        before, self._seen = self._seen, now
        return tuple(
            path for path in (*before, *(each for each in now if each not in before)) if _differ(path, before, now)
        )

    def meet(self, files: Iterable[Path], anew: Iterable[Path] = ()) -> None:
        """Know also those that were never looked at, and look at some again, without calling that a change."""
        known = {path: stamp for path, stamp in self._seen.items() if path not in set(anew)}
        self._seen = {path: known[path] if path in known else _stamp(path) for path in files}


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


def config_files(config: Path | None, ensembles: Iterable[Path]) -> tuple[Path, ...]:
    """Every file that a configuration consists of: itself, its ensembles, and the files that those name."""
    found = [] if config is None else [config]
    for path in ensembles:
        found.append(path)
        found += _sources(path)
    return tuple(dict.fromkeys(found))


def ensembles_in(config: Path | None) -> tuple[Path, ...]:
    """The ensembles that a file names, whatever else is wrong with it: a mistake may be fixed in one of them."""
    return () if config is None else _paths_beside(config, _list_in(config, "ensembles"))


def _sources(path: Path) -> tuple[Path, ...]:
    return _paths_beside(path, [entry.get("source") for entry in _list_in(path, "invokers") if isinstance(entry, dict)])


def _paths_beside(file: Path, named: Iterable[Any]) -> tuple[Path, ...]:
    return tuple(file.parent / each for each in named if isinstance(each, str) and "\0" not in each)


def _list_in(path: Path, key: str) -> list[Any]:
    try:
        found = read_toml_file(path).values.get(key)
    except ConfigError:
        return []  # it is told where it is loaded
    return found if isinstance(found, list) else []
