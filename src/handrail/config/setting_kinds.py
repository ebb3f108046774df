"""What a setting can be: how it is read from a file, and what a form has to know of it. One word for both.

A table of kinds by key is what a reader reads by; `catalogue.py` gathers these tables, and so a new key has a field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from msgspec import Struct

from handrail.config.variables import KEY
from handrail.tools.files.toml_table import TomlTable

Form = Literal["flag", "count", "number", "text", "choice", "texts", "variable", "table"]
"""`variable` is the name of one that holds a secret, as `env:NAME`; `table` is for what no single field shows."""


class SettingKind(Struct, frozen=True):
    form: Form
    read: Callable[[TomlTable, str], Any]
    least: int | None = None
    words: tuple[str, ...] = ()
    """The words of a choice."""

    def __call__(self, table: TomlTable, key: str) -> Any:
        """The value of a key, or None if it is not there.

        Raises:
            ConfigError: It is another kind of value.
        """
        return self.read(table, key)


Kinds = Mapping[str, SettingKind]


def count(least: int) -> SettingKind:
    return SettingKind("count", lambda table, key: table.count(key, least), least=least)


def choice(*words: str) -> SettingKind:
    return SettingKind("choice", lambda table, key: table.choice(key, words), words=words)


def stated(table: TomlTable, kinds: Kinds) -> dict[str, Any]:
    """What a table says of these keys. Other keys are not looked at."""
    return {key: kind(table, key) for key, kind in kinds.items() if key in table}


def _amount(table: TomlTable, key: str) -> float | None:
    value = table.values.get(key)
    if key in table and (not isinstance(value, int | float) or isinstance(value, bool) or not value > 0):
        raise table.error(key, f"must be a number above 0, not {value!r}")
    return None if value is None else float(value)


def _variable(table: TomlTable, key: str) -> str | None:
    written = table.text(key)
    if written is not None and not KEY.fullmatch(written):
        why = f'a secret is not written into a file; put it into a variable and write {key} = "env:NAME"'
        raise table.error(key, why)
    return written


FLAG = SettingKind("flag", TomlTable.flag)
TEXT = SettingKind("text", TomlTable.text)
TEXTS = SettingKind("texts", TomlTable.texts)
SECONDS = SettingKind("number", TomlTable.seconds)
AMOUNT = SettingKind("number", _amount)
SECRET = SettingKind("variable", _variable)
JSON = SettingKind("table", TomlTable.json)
