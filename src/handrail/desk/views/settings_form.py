"""A text of the configuration as fields: of each setting its value, its default and the line it stands on. Pure."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from handrail.config.catalogue import ANY, SAME, TABLES, SettingsTable
from handrail.config.setting_kinds import SettingKind
from handrail.config.variables import KEY
from handrail.desk.views.settings_sections import variable_names
from handrail.desk.views.values import FieldGroup, SettingField
from handrail.tools.files.toml_positions import toml_layout

Path = tuple[str, ...]
_MOST = 10_000
"""Lines of two texts that are compared."""
_ENABLED = "enabled"
_SHOWN = {table.path for table in TABLES}


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and not {"\n", "\r"} & set(value)


def _is_texts(value: Any) -> bool:
    """Such that a field can show each on a line of its own."""
    return isinstance(value, list) and all(_is_line(each) and each.strip() for each in value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_FITS: Mapping[str, Callable[[Any], bool]] = {
    "flag": lambda value: isinstance(value, bool),
    "count": _is_number,
    "number": _is_number,
    "text": _is_line,
    "choice": _is_line,
    "texts": _is_texts,
    "variable": lambda value: isinstance(value, str) and KEY.fullmatch(value) is not None,
}
"""Whether a field can show a value; a wrong one, too, so that it can be fixed there."""


def setting_groups(text: str, environ: Mapping[str, str]) -> tuple[FieldGroup, ...]:
    """None, if it is not TOML."""
    try:
        form = _FormBuilder(tomllib.loads(text), toml_layout(text).lines, environ)
    except (ValueError, RecursionError):
        return ()
    return tuple(group for table in TABLES for group in form.groups(table) if group.fields or group.inside)


def setting_changes(before: str, after: str) -> tuple[str, ...]:
    one, two = before.split("\n"), after.split("\n")
    if one == two or len(one) + len(two) > _MOST:
        return ()
    return tuple(difflib.unified_diff(one, two, n=2, lineterm=""))[2:]


class _FormBuilder:
    def __init__(self, data: dict[str, Any], lines: Mapping[Any, int], environ: Mapping[str, str]) -> None:
        self._data = data
        self._lines = lines
        self._environ = environ

    def groups(self, table: SettingsTable) -> Iterator[FieldGroup]:
        if table.path[-1:] != (ANY,):
            yield self._group(table, table.path)
            return
        named = self._at(table.path[:-1])
        for name in named if isinstance(named, dict) else ():
            yield self._group(table, (*table.path[:-1], name))

    def _group(self, table: SettingsTable, path: Path) -> FieldGroup:
        said = self._at(path)
        there = said if isinstance(said, dict) else {}
        kinds = {key: kind for key, kind in table.kinds.items() if kind.form != "table"}
        if table.where_there and not isinstance(said, dict):
            kinds = {key: kind for key, kind in kinds.items() if key == _ENABLED}
        help = ".".join(table.path)
        fields = (self._field(table, path, key, kind, said) for key, kind in kinds.items() if self._is_shown(path, key))
        return FieldGroup(
            path=path,
            help=help,
            line=self._lines.get(path, 0),
            fields=tuple(fields),
            inside=tuple(self._inside(path, there, kinds)) if path else (),
        )

    def _field(self, table: SettingsTable, path: Path, key: str, kind: SettingKind, said: Any) -> SettingField:
        place = (*path, key)
        value = self._at(place)
        fits = value is None or _FITS[kind.form](value)
        secret = kind.form == "variable" and isinstance(value, str)  # one written out is not shown, and is replaced
        blocked = said is not None and not isinstance(said, dict)  # `io = true`, where `io` could be a table
        return SettingField(
            path=place,
            help=".".join((*table.path, key)),
            form=kind.form,
            value=value if fits else None,
            default=isinstance(said, dict) if key == _ENABLED else table.defaults.get(key),
            least=kind.least,
            words=kind.words,
            line=self._lines.get(path if blocked else place, 0),
            stuck=blocked or not (fits or secret),
            variables=tuple((name, name in self._environ) for name in self._taken(value)),
        )

    def _is_shown(self, path: Path, key: str) -> bool:
        """Whether a setting is shown under this name: of two names for one setting the written one, or the one in
        `[llm]`."""
        place = (*path, key)
        if place in SAME:
            return self._at(place) is not None
        other = next((one for one, same in SAME.items() if same == place), None)
        return other is None or self._at(place) is not None or self._at(other) is None

    def _inside(
        self, path: Path, there: Mapping[str, Any], kinds: Mapping[str, SettingKind]
    ) -> Iterator[tuple[str, int]]:
        for key, value in there.items():
            place = (*path, key)
            if key in kinds or place in _SHOWN:
                continue
            several = isinstance(value, dict) and value and all(isinstance(each, dict) for each in value.values())
            for inner in [(*place, name) for name in value] if several else [place]:
                yield ".".join(inner), self._lines.get(inner, 0)

    def _at(self, path: Path) -> Any:
        found: Any = self._data
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        return found

    def _taken(self, value: Any) -> list[str]:
        texts = value if _is_texts(value) else [value] if isinstance(value, str) else []
        return sorted({name for text in texts for name in variable_names(text)})
