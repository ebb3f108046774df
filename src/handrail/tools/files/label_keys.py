"""The keys of a table that say who writes the fields of results, and which arguments direct an effect."""

from __future__ import annotations

from typing import Any

from handrail.core.errors import InvalidDefinition
from handrail.tools.files.toml_table import TomlTable
from handrail.tools.plain_values import check_plain_schema
from handrail.tools.result_fields import field_steps


def read_labels(table: TomlTable) -> dict[str, Any]:
    """What a table declares, by the fields of a `ToolDefinition`. What it does not say is left out.

    Raises:
        ConfigError: A value is of another kind, or names no field.
    """
    untrusted: Any = table.values.get("untrusted")
    if isinstance(untrusted, list):
        untrusted = table.texts("untrusted")
    elif untrusted is not None:
        untrusted = table.flag("untrusted")
    found = {
        "untrusted": untrusted,
        "private": table.texts("private"),
        "own": table.texts("own"),
        "directs": table.texts("directs"),
        "carries": table.texts("carries"),
        "sends_out": table.flag("sends_out"),
        "extract": table.json("extract"),
    }
    for key in ("untrusted", "private", "own"):
        for index, label in enumerate(found[key] if isinstance(found[key], tuple) else ()):
            try:
                field_steps(label)
            except InvalidDefinition as error:
                raise table.at(key).at(index).error(str(error)) from error
    if found["extract"] is not None:
        try:
            check_plain_schema(found["extract"], "this tool")
        except InvalidDefinition as error:
            raise table.at("extract").error(str(error)) from error
    return {key: value for key, value in found.items() if value is not None}
