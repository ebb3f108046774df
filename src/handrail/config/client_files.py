"""The files in which MCP clients keep their servers: where they stand, and how they are read."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handrail.core.errors import ConfigError, UsageError

_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')
_SERVERS = ("mcpServers", "servers", "mcp_servers")
_FOLDER = "<folder>"
"""Stands in a path for the folder that the person works in."""
_DESKTOP = (
    ("~/.config/Claude/claude_desktop_config.json", ("mcpServers",)),
    ("~/Library/Application Support/Claude/claude_desktop_config.json", ("mcpServers",)),
)
_CODE_FOLDERS = ("~/.config/Code", "~/Library/Application Support/Code", "~/.config/Code - Insiders")
PLACES: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "claude": (
        (".mcp.json", ("mcpServers",)),
        ("$CLAUDE_CONFIG_DIR/.claude.json", ("projects", _FOLDER, "mcpServers")),
        ("~/.claude.json", ("projects", _FOLDER, "mcpServers")),
        ("$CLAUDE_CONFIG_DIR/.claude.json", ("mcpServers",)),
        ("~/.claude.json", ("mcpServers",)),
        *_DESKTOP,
    ),
    "claude-desktop": _DESKTOP,
    "vscode": (
        (".vscode/mcp.json", ("servers",)),
        *((f"{folder}/User/mcp.json", ("servers",)) for folder in _CODE_FOLDERS),
    ),
    "cursor": ((".cursor/mcp.json", ("mcpServers",)), ("~/.cursor/mcp.json", ("mcpServers",))),
    "codex": (
        (".codex/config.toml", ("mcp_servers",)),
        ("$CODEX_HOME/config.toml", ("mcp_servers",)),
        ("~/.codex/config.toml", ("mcp_servers",)),
    ),
}
"""Where these programs keep their servers, the project's files before the user's, with the keys that lead to the
servers."""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """The servers of a client: a file, and the keys under which they stand in it."""

    client: str
    path: Path
    keys: tuple[str, ...]
    project: bool = False
    """Whether they are for the folder that the person stands in, and not for everything that the user does."""

    @property
    def is_toml(self) -> bool:
        return self.path.suffix == ".toml"

    def data(self) -> dict[str, Any]:
        """Everything that the file says.

        Raises:
            ConfigError: It cannot be read.
        """
        return parse_client_text(read_client_text(self.path), self.path)

    def servers(self) -> dict[str, Any]:
        """The entries of the servers by name; none where there is no such table.

        Raises:
            ConfigError: The file cannot be read, or what stands there is no table.
        """
        found: Any = self.data()
        for key in self.keys:
            found = found.get(key, {})
            if not isinstance(found, dict):
                raise ConfigError("is not a table", file=str(self.path), key=".".join(self.keys))
        return dict(found)


def client_places(folder: Path, home: Path, environ: Mapping[str, str] = os.environ) -> Iterator[ClientFile]:
    """Every place where a client may keep servers, whether or not there is a file."""
    for client in PLACES:
        if client != "claude-desktop":  # they are among those of claude
            yield from _places(client, folder, home, environ)


def _places(client: str, folder: Path, home: Path, environ: Mapping[str, str]) -> Iterator[ClientFile]:
    for written, keys in PLACES[client]:
        label = "claude-desktop" if "claude_desktop" in written else client
        filled = tuple(str(folder) if key == _FOLDER else key for key in keys)
        project = _FOLDER in keys or written[0] not in "~$"
        if not written.startswith("$"):
            path = home / written[2:] if written.startswith("~/") else folder / written
            yield ClientFile(label, path, filled, project)
        elif stated := environ.get(written[1:].partition("/")[0]):
            yield ClientFile(label, Path(stated) / written.partition("/")[2], filled, project)


def find_client_file(
    written: str,
    folder: Path,
    home: Path,
    environ: Mapping[str, str] = os.environ,
    *,
    fits: Callable[[ClientFile], bool] = lambda _: True,
) -> ClientFile:
    """What a person means: the name of a client, which is its first file that has servers, or the path of a file.

    With `fits`, a place that has something to do comes before one that only has servers: a client
    keeps those of a project and those of its user apart.

    Raises:
        UsageError: There is none.
        ConfigError: The file that is named cannot be read, or is of no shape that is known.
    """
    if written not in PLACES:
        return _named_file(Path(written), folder, home, environ, fits)
    places = list(_places(written, folder, home, environ))
    there = [place for place in places if place.path.is_file()]
    if not there:
        looked = dict.fromkeys(str(place.path) for place in places)
        raise UsageError(f"{written} has no file of MCP servers here; looked for {', '.join(looked)}")
    return _best(there, fits) or there[0]


def _best(places: list[ClientFile], fits: Callable[[ClientFile], bool]) -> ClientFile | None:
    return next(filter(fits, places), None) or next((place for place in places if place.servers()), None)


def _named_file(
    path: Path, folder: Path, home: Path, environ: Mapping[str, str], fits: Callable[[ClientFile], bool]
) -> ClientFile:
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}; name one, or a program: {', '.join(PLACES)}")
    known = [place for place in client_places(folder, home, environ) if place.path.absolute() == path.absolute()]
    if (best := _best(known, fits)) is not None:
        return best
    data = parse_client_text(read_client_text(path), path)
    shape = next((key for key in _SERVERS if isinstance(data.get(key), dict)), None)
    if shape is None:
        raise ConfigError('has neither "mcpServers" nor "servers"; it describes no MCP servers', file=str(path))
    return ClientFile(known[0].client if known else path.name, path, (shape,), project=True)


def read_client_text(path: Path) -> str:
    """The text of a file, with the mark of its encoding if it has one.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from error
    except UnicodeError as error:
        raise ConfigError(f"is not text that can be used: {error}", file=str(path)) from error


def parse_client_text(text: str, path: Path) -> dict[str, Any]:
    """What a text says, as JSON with comments, or as TOML by the ending of the file's name.

    Raises:
        ConfigError: It is neither, with why and where.
    """
    text = text.removeprefix("\ufeff")
    kind = "TOML" if path.suffix == ".toml" else "JSON"
    try:
        data = tomllib.loads(text) if kind == "TOML" else json.loads(plain_json(text))
        json.dumps(data, ensure_ascii=False, default=str).encode()
    except json.JSONDecodeError as error:
        raise ConfigError(f"is not JSON: {error.msg}", file=str(path), line=error.lineno) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"is not TOML: {error}", file=str(path)) from error
    except (UnicodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"is not {kind} that can be used: {error}", file=str(path)) from error
    if not isinstance(data, dict):
        raise ConfigError("is not a JSON object", file=str(path))
    return data


def plain_json(text: str) -> str:
    """JSON as editors take it, without its comments and last commas; every character stays where it is."""

    def blank(match: re.Match[str]) -> str:
        return match[1] or re.sub(r"[^\n]", " ", match[0])

    return _LAST_COMMA.sub(blank, _COMMENT.sub(blank, text))
