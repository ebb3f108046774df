"""The tables `[standard.*]` of a file: which of handrail's own ensembles are used, and how.

[standard.io]              what may be touched: roots, write, hosts, databases, …
[standard.probability]     nothing to say; that it is there is enough
[standard.summarization]   model, and how long the pieces are
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from handrail.config.nodes import StandardSettings, Summarization
from handrail.core.errors import UsageError
from handrail.tools.files.table import Table

_GROUPS = ("io", "probability", "summarization")
_NAMED = re.compile(r"(?:^|[ :.`'$])(?P<key>[a-z_]+) of io|`\$\.(?P<path>[a-z_]+)")


def _counted(table: Table, key: str) -> int | None:
    return table.count(key, 0)


def _paths(table: Table, key: str) -> dict[str, str]:
    if isinstance(table.values.get(key), list | str):
        raise table.error(key, f'each has a name by which tools call it, as in {key} = {{ docs = "path/to/docs" }}')
    inner = table.table(key) or Table({}, table.place)
    return {name: str(Path(inner.text(name) or "").expanduser()) for name in inner.values}


_IO: Mapping[str, Callable[[Table, str], Any]] = {
    "roots": _paths,
    "write": Table.texts,
    "hosts": Table.texts,
    "deny_hosts": Table.texts,
    "private": Table.texts,
    "databases": _paths,
    "write_databases": Table.texts,
    "limits": Table.json,
}
_SUMMARIZATION: Mapping[str, Callable[[Table, str], Any]] = {
    "piece": _counted,
    "overlap": _counted,
    "concurrency": _counted,
    "most": _counted,
    "timeout": Table.seconds,
}


def read_standard(top: Table, folder: Path, is_model: Callable[[str], bool]) -> StandardSettings:
    """Raises:
    ConfigError: Something is wrong.
    """
    outer = top.table("standard")
    if outer is None:
        return StandardSettings()
    outer.only(_GROUPS)
    tables = {name: table for name in _GROUPS if (table := _wanted(outer, name)) is not None}
    return StandardSettings(
        io=_io(tables["io"], folder) if "io" in tables else None,
        probability="probability" in tables and tables["probability"].only(("enabled",)) is not None,
        summarization=_summarization(tables["summarization"], is_model) if "summarization" in tables else None,
    )


def _wanted(outer: Table, name: str) -> Table | None:
    """The table of a group, unless it is switched off; `name = true` is an empty one."""
    if isinstance(outer.values.get(name), bool):
        return Table({}, outer.at(name)) if outer.flag(name) else None
    table = outer.table(name)
    return None if table is None or table.flag("enabled") is False else table


def _io(table: Table, folder: Path) -> Any:
    from handrail.standard.io.settings import IoSettings

    table.only((*_IO, "enabled"))
    stated = {key: read(table, key) for key, read in _IO.items() if key in table}
    for name, path in stated.get("roots", {}).items():
        if not (folder / path).is_dir():
            raise table.at("roots").at(name).error(f"there is no folder {str(folder / path)!r}")
    try:
        return IoSettings.from_dict(stated, folder)
    except UsageError as error:
        raise _placed(table, error) from error


def _placed(table: Table, error: UsageError) -> UsageError:
    """A mistake at the key that its words name, or else at the table."""
    found = _NAMED.search(str(error))
    key = str(found["key"] or found["path"]) if found else ""
    return table.error(key, str(error)) if key in table else table.place.error(str(error))


def _summarization(table: Table, is_model: Callable[[str], bool]) -> Summarization:
    from handrail.standard.summarization.settings import SummarizationSettings

    table.only((*_SUMMARIZATION, "model", "enabled"))
    model = table.text("model")
    if model is not None and not is_model(model):
        raise table.error("model", f"there is no [models.{model}]")
    stated = {key: read(table, key) for key, read in _SUMMARIZATION.items() if key in table}
    try:
        return Summarization(model=model, settings=SummarizationSettings(**stated))
    except UsageError as error:
        raise table.place.error(str(error)) from error
