"""Every mistake of a file, not only the first.

Readers stop at the first. So the file is read again without the key that was wrong,
until nothing is; what is only wrong because something was taken out is not told.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from handrail.core.errors import ConfigError
from handrail.tools.files.load import read_ensemble, read_tool
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable, read_toml_file
from handrail.tools.files.tool_bodies import Resolve, import_function

T = TypeVar("T")
Steps = tuple[str | int, ...]
MOST = 100


def all_mistakes(
    top: TomlTable,
    read: Callable[[TomlTable], T],
    elsewhere: Callable[[ConfigError, Any], tuple[Steps, list[ConfigError]]] | None = None,
) -> tuple[T | None, list[ConfigError]]:
    """What can be read of a table, and all that is wrong in it.

    A mistake in another file that this one names is given to `elsewhere`, with the values: it says which key names
    that file, and what is wrong there.
    """
    values = copy.deepcopy(dict(top.values))
    found: list[ConfigError] = []
    cut = _RemovedEntries()
    for _ in range(MOST):
        try:
            return read(TomlTable(values, top.place)), found
        except ConfigError as error:
            if error.file != top.place.file and elsewhere is not None:
                path, told = elsewhere(error, values)
                found += told
            else:
                path = error.path
                if not cut.explains(path, values):
                    found.append(cut.placed(error, top.place))
            if not cut.out(values, path):
                return None, found
    return None, found


class _RemovedEntries:
    """What was taken out so far."""

    def __init__(self) -> None:
        self._gone: list[Steps] = []
        self._lengths: dict[Steps, list[int]] = {}

    def out(self, values: Any, path: Steps) -> bool:
        """Take the value of a key out of them; False if there is none."""
        if not path:
            return False
        for step in path[:-1]:
            try:
                values = values[step]
            except (KeyError, IndexError, TypeError):
                return False
        try:
            del values[path[-1]]
        except (KeyError, IndexError, TypeError):
            return False
        original = self._original(path)
        self._gone.append(original)
        if isinstance(original[-1], int):
            self._lengths.setdefault(original[:-1], []).append(original[-1])
        return True

    def explains(self, path: Steps, values: Any) -> bool:
        """Whether a mistake is only there because of what is gone: a table that lacks it, or a name of it."""
        original = self._original(path)
        if any(gone[: len(original)] == original and len(gone) > len(original) for gone in self._gone):
            return True
        names = {gone[-1] for gone in self._gone}
        for step in path:
            try:
                values = values[step]
            except (KeyError, IndexError, TypeError):
                return False
        return isinstance(values, str) and values in names

    def placed(self, error: ConfigError, place: TomlKeyPath) -> ConfigError:
        """The mistake where it stands in the file, whatever was taken out of the list before it."""
        original = self._original(error.path)
        return error if original == error.path else place.at(*original[len(place.path) :]).error(error.why)

    def _original(self, path: Steps) -> Steps:
        found: Steps = ()
        for step in path:
            if isinstance(step, int):
                for gone in sorted(self._lengths.get(found, ())):
                    step += gone <= step
            found = (*found, step)
        return found


def ensemble_mistakes(path: Path, resolve: Resolve = import_function) -> tuple[Any, list[ConfigError]]:
    """The ensemble of a file as far as it can be used, and all that is wrong with it and with the files it names.
    `resolve` finds the function of a Python body.

    Raises:
        ConfigError: It cannot be read at all.
    """

    def elsewhere(error: ConfigError, values: Any) -> tuple[Steps, list[ConfigError]]:
        entries = values.get("invokers", [])
        for index, entry in enumerate(entries):
            if isinstance(entry, dict) and str(path.parent / str(entry.get("source"))) == error.file:
                return ("invokers", index), tool_mistakes(Path(error.file), resolve) or [error]
        return (), [error]

    read, found = all_mistakes(
        read_toml_file(path), lambda top: read_ensemble(top, path.parent, resolve=resolve), elsewhere
    )
    return (None if read is None else read[0]), found


def tool_mistakes(path: Path, resolve: Resolve = import_function) -> list[ConfigError]:
    """All mistakes in the file of one tool."""
    try:
        return all_mistakes(read_toml_file(path), lambda top: read_tool(top, resolve=resolve))[1]
    except ConfigError as error:
        return [error]
