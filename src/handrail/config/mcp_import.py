"""MCP servers as other programs describe them: `mcp.json` of Claude, VS Code and Cursor, as tables of `handrail.toml`.

Nothing is started. A secret that stands there in the open is not copied: the table
names an environment variable instead, and whoever imports is told to set it. What
handrail has no word for is told, never dropped in silence.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handrail.config.mcp import NAME, looks_secret, read_servers, refuse_secrets
from handrail.config.toml_edit import toml_key, toml_literal
from handrail.core.errors import ConfigError, UsageError
from handrail.core.redact import MASK, redact_text
from handrail.sessions.store.content import write_atomically
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable

_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])')
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http")
_SSE = (
    "it is of the old HTTP+SSE kind, which is deprecated and not spoken here; ask whoever runs it for the address of"
    " streamable HTTP, often /mcp in place of /sse"
)
_KNOWN = frozenset(
    {"type", "transport", "command", "args", "env", "cwd", "url", "serverUrl", "headers", "oauth", "auth", "disabled"}
)
_NOISE = frozenset({"description", "name", "icon", "gallery", "version"})
"""What is only for people to look at."""
PLACES = {
    "claude": (
        ".mcp.json",
        "~/.config/Claude/claude_desktop_config.json",
        "~/Library/Application Support/Claude/claude_desktop_config.json",
        "~/.claude.json",
    ),
    "vscode": (".vscode/mcp.json", "~/.config/Code/User/mcp.json", "~/Library/Application Support/Code/User/mcp.json"),
    "cursor": (".cursor/mcp.json", "~/.cursor/mcp.json"),
}
"""Where these programs keep them: of the project first, then of the user."""


@dataclass(frozen=True, slots=True)
class ImportedServer:
    """One server as a table of ours."""

    name: str
    table: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    """What a person must know or do about it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that it needs, each with what it is."""


@dataclass(frozen=True, slots=True)
class ServerImport:
    servers: tuple[ImportedServer, ...]
    refused: Mapping[str, str]
    """Names of entries that cannot be used here, with why."""


def find_foreign(written: str, folder: Path, home: Path) -> Path:
    """The file that a person means: its path, or the name of a program.

    Raises:
        UsageError: There is none.
    """
    if written not in PLACES:
        if not Path(written).is_file():
            raise UsageError(f"there is no file {written!r}; name one, or a program: {', '.join(PLACES)}")
        return Path(written)
    places = [home / each[2:] if each.startswith("~/") else folder / each for each in PLACES[written]]
    found = next((path for path in places if path.is_file()), None)
    if found is None:
        raise UsageError(f"{written} has no file of MCP servers here; looked for {', '.join(map(str, places))}")
    return found


def read_foreign(path: Path, home: Path) -> ServerImport:
    """What a file of another program says.

    Raises:
        ConfigError: It cannot be read, or is of no shape that is known.
    """
    data = _parsed(path)
    shape = next((key for key in ("mcpServers", "servers") if isinstance(data.get(key), dict)), None)
    if shape is None:
        raise ConfigError('has neither "mcpServers" nor "servers"; it describes no MCP servers', file=str(path))
    asked = data.get("inputs")
    inputs = {
        str(each.get("id")): each for each in (asked if isinstance(asked, list) else ()) if isinstance(each, dict)
    }
    folder = path.absolute().parent
    project = folder.parent if folder.name in (".vscode", ".cursor") else folder
    servers: dict[str, ImportedServer] = {}
    refused: dict[str, str] = {}
    for written, entry in data[shape].items():
        try:
            imported = _EntryReader(written, project, home, inputs).server(entry)
            _check(imported)
            if imported.name in servers:
                raise _EntryRefused(f"another entry is called {imported.name!r} too; rename one")
            servers[imported.name] = imported
        except _EntryRefused as refusal:
            refused[written] = str(refusal)
    return ServerImport(tuple(servers.values()), refused)


class _EntryRefused(Exception):
    """Why one entry cannot be used."""


def _check(server: ImportedServer) -> None:
    """One table that our own reader refuses would take the whole file with it; a secret is what it refuses too."""
    table = TomlTable({"mcp": {server.name: dict(server.table)}}, TomlKeyPath("the import"))
    try:
        refuse_secrets(table)
        read_servers(table)
    except ConfigError as error:
        raise _EntryRefused(f"{'.'.join(map(str, error.path[2:]))}: {error.why}".removeprefix(": ")) from None


def _parsed(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
        text.encode()
        data = json.loads(plain_json(text))
        json.dumps(data, ensure_ascii=False).encode()
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", file=str(path)) from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"is not JSON: {error.msg}", file=str(path), line=error.lineno) from error
    except (UnicodeError, RecursionError, ValueError) as error:
        raise ConfigError(f"is not JSON that can be used: {error}", file=str(path)) from error
    if not isinstance(data, dict):
        raise ConfigError("is no JSON object", file=str(path))
    return data


def plain_json(text: str) -> str:
    """JSON as editors take it, without its comments and last commas; every line stays where it is."""

    def blank(match: re.Match[str]) -> str:
        return match[1] or re.sub(r"[^\n]", " ", match[0])

    return _LAST_COMMA.sub(blank, _COMMENT.sub(blank, text))


class _EntryReader:
    """One entry being read, and what came up."""

    def __init__(self, written: str, project: Path, home: Path, inputs: Mapping[str, Mapping[str, Any]]) -> None:
        self._written = written
        self._name = re.sub(r"[^A-Za-z0-9_-]+", "-", written).strip("-_")[:64]
        self._inputs = inputs
        self._notes: list[str] = []
        self._variables: dict[str, str] = {}
        self._known = {
            "workspaceFolder": str(project),
            "workspaceFolderBasename": project.name,
            "userHome": str(home),
            "pathSeparator": "/",
            "/": "/",
        }

    def server(self, entry: Any) -> ImportedServer:
        if not NAME.fullmatch(self._name):
            raise _EntryRefused("its name has no letter or digit of A-Z a-z 0-9")
        if self._name != self._written:
            self._notes.append(f"it is called {self._name!r} here")
        if not isinstance(entry, dict):
            raise _EntryRefused("it is no JSON object")
        table = self._address(entry) if "command" not in entry else self._program(entry)
        if entry.get("disabled") is True:
            table["enabled"] = False
        for key in entry.keys() - _KNOWN - _NOISE:
            self._notes.append(f"{key!r} was left out; there is no such thing here")
        return ImportedServer(self._name, table, tuple(self._notes), self._variables)

    def _program(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        kind = entry.get("type", entry.get("transport", "stdio"))
        if kind != "stdio":
            raise _EntryRefused(f"it has a command and yet is of the kind {kind!r}")
        table: dict[str, Any] = {"command": self._text(_str(entry["command"], "command"))}
        args = entry.get("args", [])
        if not isinstance(args, list):
            raise _EntryRefused("its args are no list")
        if args:
            table["args"] = list(self._args([_str(each, "args") for each in args]))
        if (env := self._values(entry.get("env"), "env", str)) is not None:
            table["env"] = env
        if "cwd" in entry:
            table["cwd"] = self._text(_str(entry["cwd"], "cwd"))
        return table

    def _address(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        url = _str(entry.get("url", entry.get("serverUrl", "")), "url")
        if not url:
            raise _EntryRefused("it has neither a command nor a url")
        kind = entry.get("type", entry.get("transport"))
        if kind == "sse" or (kind is None and url.partition("?")[0].rstrip("/").endswith("/sse")):
            raise _EntryRefused(_SSE)
        if kind is not None and kind not in _HTTP:
            raise _EntryRefused(f"it is of the kind {kind!r}, which is not known here")
        if not url.startswith(("http://", "https://", "${")):
            raise _EntryRefused("its url is no address with http:// or https://")
        table: dict[str, Any] = {"url": self._hidden(self._text(url), "URL")}
        headers = self._values(entry.get("headers"), "headers", lambda name: f"{self._name}_{name}")
        if headers is not None:
            table["headers"] = headers
        if (oauth := self._oauth(entry.get("oauth", entry.get("auth")))) is not None:
            table["oauth"] = oauth
        return table

    def _args(self, args: list[str]) -> Iterator[str]:
        flag = ""
        for index, written in enumerate(args):
            text = self._text(written)
            name, equals, value = text.partition("=")
            if flag and not text.startswith("-") and not _VARIABLE.search(text):
                yield self._secret(flag, f"argument {index + 1}")
            elif name.startswith("-") and equals and looks_secret(name) and not _VARIABLE.search(value):
                yield f"{name}={self._secret(name, f'argument {index + 1}')}"
            else:
                yield self._hidden(text, f"ARG_{index + 1}")
            flag = text if text.startswith("-") and not equals and looks_secret(text) else ""

    def _values(self, written: Any, what: str, variable: Callable[[str], str]) -> dict[str, str] | None:
        if not written:
            return None
        if not isinstance(written, dict):
            raise _EntryRefused(f"its {what} are no JSON object")
        found: dict[str, str] = {}
        for name, value in written.items():
            text = self._text(_str(value, f"{what}.{name}"))
            whole = _VARIABLE.fullmatch(text)
            if whole is not None:
                found[name] = f"env:{whole[1]}"
            elif text and not _VARIABLE.search(text) and (looks_secret(name) or redact_text(text) != text):
                found[name] = f"env:{self._needed(variable(name), f'what stands under {what}.{name} there')}"
            else:
                found[name] = text
        return found

    def _oauth(self, written: Any) -> dict[str, Any] | None:
        if not isinstance(written, dict):
            return None
        given = {re.sub("[^a-z]", "", key.lower()): value for key, value in written.items()}
        found: dict[str, Any] = {}
        if isinstance(given.get("clientid"), str):
            found["client_id"] = self._text(given["clientid"])
        if isinstance(given.get("clientsecret"), str):
            variable = self._needed(f"{self._name}_CLIENT_SECRET", "the client secret that stands there")
            found["client_secret"] = f"env:{variable}"
        if isinstance(given.get("scopes"), list):
            found["scopes"] = [_str(each, "scopes") for each in given["scopes"]]
        return found or None

    def _text(self, written: str) -> str:
        """A text with the variables of other programs in our spelling."""
        return _VARIABLE.sub(self._variable, written.replace("$$", "$$$$"))

    def _variable(self, match: re.Match[str]) -> str:
        kind, _, name = match[1].rpartition(":") if not match[1].startswith("/") else ("", "", match[1])
        match kind:
            case "" if name in self._known:
                return self._known[name].replace("$", "$$")
            case "env" | "" if _VARIABLE_NAME.fullmatch(name):
                self._variables.setdefault(name, "a variable that it asks for")
                return f"${{{name}}}"
            case "input":
                about = self._inputs.get(name, {}).get("description") or f"the input {name!r}"
                return f"${{{self._needed(name, str(about))}}}"
        raise _EntryRefused(f"it uses {match[0]}, which means nothing here; write what it stands for")

    def _hidden(self, text: str, what: str) -> str:
        """The text with variables in place of what looks like a secret."""
        if redact_text(text) == text:
            return text
        return redact_text(text).replace(MASK, self._secret(f"{self._name}_{what}", "what looks like a secret there"))

    def _secret(self, name: str, about: str) -> str:
        return f"${{{self._needed(name, about)}}}"

    def _needed(self, name: str, about: str) -> str:
        """A variable that this import asks for, of a name like that."""
        variable = re.sub("[^A-Za-z0-9]+", "_", name).strip("_").upper()
        if not variable or variable[0].isdigit():
            variable = f"_{variable}"
        self._variables.setdefault(variable, about)
        return variable


def _str(value: Any, what: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _EntryRefused(f"{what} must be text")
    return str(value)


def to_toml(server: ImportedServer) -> str:
    """The table as text."""
    lines = [f"[mcp.{toml_key(server.name)}]"]
    lines += [f"{toml_key(key)} = {toml_literal(value)}" for key, value in server.table.items()]
    return "\n".join(lines) + "\n"


def add_servers(path: Path, servers: tuple[ImportedServer, ...]) -> None:
    """Put tables behind what a `handrail.toml` holds; it is made if there is none, and nothing in it changes.

    Raises:
        ConfigError: One of the servers is there already, or the file cannot be added to.
    """
    try:
        before = path.read_bytes().decode("utf-8") if path.exists() else ""
        there = tomllib.loads(before.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"is not TOML: {error}", file=str(path)) from error
    taken = there.get("mcp", {})
    if not isinstance(taken, dict):
        raise ConfigError("is no table of MCP servers; write them as [mcp.NAME] tables", file=str(path), key="mcp")
    for server in servers:
        if server.name in taken:
            raise ConfigError(
                "is there already; remove it there, or take over others by name with --only",
                file=str(path),
                key=f"mcp.{server.name}",
            )
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    text = before + gap + "\n".join(map(to_toml, servers))
    try:
        after = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            "holds its servers in one line, mcp = {…}, which cannot be added to; write them as [mcp.NAME] tables",
            file=str(path),
            key="mcp",
        ) from error
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    if after.pop("mcp") != {**taken, **{each.name: dict(each.table) for each in servers}}:
        raise ConfigError("would not hold what was imported", file=str(path))
    write_atomically(path, text.encode())
    path.chmod(mode)
