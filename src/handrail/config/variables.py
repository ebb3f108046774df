"""The texts of a configuration file: `${NAME}` filled in from the environment, and secrets refused."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handrail.core.redact import redact_text, remember_secret
from handrail.core.secret_names import is_secret_name
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable

_VARIABLE = re.compile(r"\$(?:\$|\{(?P<name>[^}]*)\})")
_NAME = re.compile(r"(?:secret:)?[A-Za-z_][A-Za-z0-9_]*")
KEY = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")
"""How a file names a key."""
SECRET = "secret:"
"""Before the name of a value that handrail keeps for an MCP server, in the user's state folder."""
KEPT_SECRET = re.compile(r"secret:[A-Za-z_][A-Za-z0-9_]*")
"""How a table of an MCP server says that a whole value is a stored secret."""


def expanded_path(text: str) -> Path:
    """The path with the user's folder for `~`. A user that is not known here stays as written, and is not found."""
    return Path(os.path.expanduser(text))


def fill_variables(table: TomlTable, environ: Mapping[str, str]) -> TomlTable:
    """The table with every `${NAME}` replaced by that variable of the environment; `$$` is a dollar sign.

    Raises:
        ConfigError: A variable is not set, or a text looks like a secret, which no file should hold.
    """
    values = {key: _filled(value, table.at(key), environ) for key, value in table.values.items()}
    return TomlTable(values, table.place, table.origins)


def _filled(value: Any, place: TomlKeyPath, environ: Mapping[str, str]) -> Any:
    match value:
        case str():
            refuse_secret(_VARIABLE.sub(" ", value), place)  # a variable in the place of a secret is how it should be
            return fill_text_variables(value, place, environ)
        case dict():
            return {key: _filled(item, place.at(key), environ) for key, item in value.items()}
        case list():
            return [_filled(item, place.at(index), environ) for index, item in enumerate(value)]
    return value


def refuse_secret(text: str, place: TomlKeyPath) -> None:
    """Checks that a text in the file is no secret: those belong into environment variables.

    Raises:
        ConfigError: It looks like one.
    """
    if redact_text(text) != text:
        raise place.error(
            "this looks like a secret, and a file is copied, shared and committed; put it into an environment"
            ' variable and write "${NAME}" here, or key = "env:NAME" for the key of a model'
        )


def fill_text_variables(text: str, place: TomlKeyPath, environ: Mapping[str, str]) -> str:
    """One text with its variables replaced.

    Raises:
        ConfigError: A variable is not set.
    """
    return _VARIABLE.sub(lambda match: _variable(match, place, environ), text)


def _variable(match: re.Match[str], place: TomlKeyPath, environ: Mapping[str, str]) -> str:
    name = match["name"]
    if name is None:
        return "$"
    if not _NAME.fullmatch(name):
        raise place.error(f"${{{name}}} names no environment variable; write ${{NAME}}, or $$ for a dollar sign")
    return environment_value(name, place, environ)


def environment_value(name: str, place: TomlKeyPath, environ: Mapping[str, str]) -> str:
    """The value of an environment variable that the file names, or of a `secret:NAME` that is kept.

    Raises:
        ConfigError: It is not set.
    """
    if name not in environ:
        if name.startswith(SECRET):
            raise place.error(
                f"no secret {name.removeprefix(SECRET)!r} is kept for it; write env:NAME, or add it again"
            )
        raise place.error(f"the environment variable {name!r} is not set")
    if name.startswith(SECRET) or is_secret_name(name):
        remember_secret(environ[name])
    return environ[name]


def secret_variable(written: str | None, place: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The value of the variable that `env:NAME` names; it is masked from now on, whatever it looks like.

    Raises:
        ConfigError: It is not set.
    """
    if written is None:
        return None
    value = environment_value(written.removeprefix("env:"), TomlKeyPath(place), environ)
    remember_secret(value)
    return value
