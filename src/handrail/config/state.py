"""The table `[state]` of a file: where a node keeps what it must not lose, if several replicas share it.

url    a database of PostgreSQL, or "env:NAME" of the variable that holds its address
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from handrail.config.setting_kinds import TEXT, Kinds, stated
from handrail.config.variables import KEY, environment_value
from handrail.core.errors import UsageError
from handrail.state.url import StateUrl
from handrail.tools.files.toml_table import TomlTable

KEYS: Kinds = {"url": TEXT}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSettings:
    url: StateUrl | None = None
    """The URL of the shared state; None keeps everything in files beside the journal."""
    in_file: bool = False
    """Whether the file says so, and not the user, with `HANDRAIL_STATE`."""


def read_state(top: TomlTable, environ: Mapping[str, str]) -> StateSettings:
    """What a file says under `[state]`, unless `HANDRAIL_STATE` says something else.

    Raises:
        ConfigError: Something in it is wrong.
        UsageError: The variable is.
    """
    table = top.table("state")
    written = None if table is None else stated(table.only(KEYS), KEYS).get("url")
    if (named := StateUrl.from_environment(environ)) is not None:
        return StateSettings(url=named)
    if table is None or written is None:
        return StateSettings()
    if KEY.fullmatch(written):
        written = environment_value(written.removeprefix("env:"), table.at("url"), environ)
    try:
        return StateSettings(url=StateUrl(written), in_file=True)
    except UsageError as error:
        raise table.error("url", str(error)) from None
