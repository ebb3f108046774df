"""The tables `[standard.*]` of a file: which of handrail's own ensembles are used, and how.

[standard.io]              what may be touched: roots, write, hosts, databases, …
[standard.probability]     nothing to say; that it is there is enough
[standard.summarization]   model, and how long the pieces are
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handrail.config.mcp import StandardSettings, SummarizeSettings
from handrail.config.setting_kinds import FLAG, JSON, SECONDS, TEXT, TEXTS, Kinds, SettingKind, count, stated
from handrail.config.variables import expanded_path
from handrail.core.errors import UsageError
from handrail.tools.files.toml_table import TomlTable

_GROUPS = ("io", "probability", "summarization")
_NAMED = re.compile(r"(?:^|[ :.`'$])(?P<key>[a-z_]+) of io|`\$\.(?P<path>[a-z_]+)")


def _paths(table: TomlTable, key: str) -> dict[str, str]:
    if isinstance(table.values.get(key), list | str):
        raise table.error(key, f'each has a name by which tools call it, as in {key} = {{ docs = "path/to/docs" }}')
    inner = table.table(key) or TomlTable({}, table.place)
    return {name: str(expanded_path(inner.text(name) or "")) for name in inner.values}


_NAMED_PATHS = SettingKind("table", _paths)
ENABLED: Kinds = {"enabled": FLAG}
IO: Kinds = {
    "roots": _NAMED_PATHS,
    "write": TEXTS,
    "hosts": TEXTS,
    "deny_hosts": TEXTS,
    "private": TEXTS,
    "databases": _NAMED_PATHS,
    "write_databases": TEXTS,
    "limits": JSON,
}
MODEL: Kinds = {"model": TEXT}
SUMMARIZATION: Kinds = {
    "piece": count(0),
    "overlap": count(0),
    "concurrency": count(0),
    "most": count(0),
    "timeout": SECONDS,
}


def read_standard(top: TomlTable, folder: Path, is_model: Callable[[str], bool]) -> StandardSettings:
    """Reads the section `[standard]`.

    Raises:
        ConfigError: Something is wrong.
    """
    outer = top.table("standard")
    if outer is None:
        return StandardSettings()
    outer.only(_GROUPS)
    tables = {name: table for name in _GROUPS if (table := _enabled_table(outer, name)) is not None}
    return StandardSettings(
        io=_io(tables["io"], folder) if "io" in tables else None,
        probability="probability" in tables and tables["probability"].only(ENABLED) is not None,
        summarization=_summarization(tables["summarization"], is_model) if "summarization" in tables else None,
    )


def _enabled_table(outer: TomlTable, name: str) -> TomlTable | None:
    """The table of a group, unless it is switched off; `name = true` is an empty one."""
    if isinstance(outer.values.get(name), bool):
        return TomlTable({}, outer.at(name)) if outer.flag(name) else None
    table = outer.table(name)
    return None if table is None or table.flag("enabled") is False else table


def _io(table: TomlTable, folder: Path) -> Any:
    from handrail.library.io.settings import IoSettings

    table.only((*IO, *ENABLED))
    said = stated(table, IO)
    for name, path in said.get("roots", {}).items():
        if not os.path.isdir(folder / path):
            raise table.at("roots").at(name).error(f"there is no folder {str(folder / path)!r}")
    try:
        return IoSettings.from_dict(said, folder)
    except UsageError as error:
        raise _placed(table, error) from error


def _placed(table: TomlTable, error: UsageError) -> UsageError:
    """A mistake at the key that its words name, or else at the table."""
    found = _NAMED.search(str(error))
    key = str(found["key"] or found["path"]) if found else ""
    return table.error(key, str(error)) if key in table else table.place.error(str(error))


def _summarization(table: TomlTable, is_model: Callable[[str], bool]) -> SummarizeSettings:
    from handrail.library.summarization.fold import SummarizationSettings

    table.only((*MODEL, *SUMMARIZATION, *ENABLED))
    model = table.text("model")
    if model is not None and not is_model(model):
        raise table.error("model", f"there is no [models.{model}]")
    try:
        return SummarizeSettings(model=model, settings=SummarizationSettings(**stated(table, SUMMARIZATION)))
    except UsageError as error:
        raise table.place.error(str(error)) from error
