"""MCP servers as other programs describe them: Claude, VS Code, Cursor and Codex, as tables of `handrail.toml`.

Nothing is started. A secret that stands there in the open never comes into the table: it
names an environment variable instead, and whoever imports is told to set it; or, where
secrets are taken over too, it names one that is kept apart. What handrail has no word for
is told, never dropped in silence.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from handrail.config.client_files import ClientFile
from handrail.config.mcp import NAME, looks_secret, read_servers, refuse_secrets, server_name
from handrail.config.toml_edit import toml_key, toml_literal
from handrail.config.variables import KEY, SECRET
from handrail.core.durable_files import write_atomically
from handrail.core.errors import ConfigError, UsageError
from handrail.core.redact import MASK, redact_text
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HTTP = ("http", "streamable-http", "streamableHttp", "streamable_http")
_SSE = (
    "it is of the old HTTP+SSE kind, which is deprecated and not supported here; ask its operator for the address of"
    " streamable HTTP, often /mcp instead of /sse"
)
_KNOWN = frozenset(
    {"type", "transport", "command", "args", "env", "cwd", "url", "serverUrl", "headers", "oauth", "auth", "disabled"}
)
_NOISE = frozenset({"description", "name", "icon", "gallery", "version"})
"""What is only for people to look at."""
_CLIENT_ONLY = frozenset({"alwaysAllow", "autoApprove", "timeout", "trust", "experimental_environment"})
"""What only the client does by itself; without it a person is asked more often."""


@dataclass(frozen=True, slots=True)
class ImportedServer:
    """One server as a table of ours."""

    name: str
    table: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    """What a person must know or do about it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that it needs, each with what it is."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What its table calls `secret:NAME`, by that name. Empty unless secrets are taken over too."""
    written: str = ""
    """What it is called where it comes from."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """The variables that the client asks its user for, each as the client writes it."""


@dataclass(frozen=True, slots=True)
class ServerImport:
    servers: tuple[ImportedServer, ...]
    refused: Mapping[str, str]
    """Names of entries that cannot be used here, with why."""


def read_foreign(file: ClientFile, home: Path, *, take_secrets: bool = False) -> ServerImport:
    """What a file of another program says. With `take_secrets`, tables name secrets that come along, and an entry that
    would not do the same here as there is refused.

    Raises:
        ConfigError: It cannot be read, or is of no shape that is known.
    """
    data, entries = file.data(), file.servers()
    asked = data.get("inputs")
    inputs = {
        str(each.get("id")): each for each in (asked if isinstance(asked, list) else ()) if isinstance(each, dict)
    }
    folder = file.path.absolute().parent
    project = folder.parent if folder.name in (".vscode", ".cursor", ".codex") else folder
    servers: dict[str, ImportedServer] = {}
    refused: dict[str, str] = {}
    for written, entry in entries.items():
        try:
            if is_proxy(entry):
                raise _EntryRefused("it is handrail itself")
            if file.is_toml:
                entry = _codex_entry(entry)
            imported = _EntryReader(written, project, home, inputs, take_secrets).server(entry)
            _check(imported)
            if imported.name in servers:
                raise _EntryRefused(f"another entry is called {imported.name!r} too; rename one")
            servers[imported.name] = imported
        except _EntryRefused as refusal:
            refused[written] = str(refusal)
    return ServerImport(tuple(servers.values()), refused)


def read_entry(name: str, entry: Mapping[str, Any], prefix: str | None, folder: Path, home: Path) -> ImportedServer:
    """Reads one server from a program's file: its table, its secrets apart, and the prefix of its tools' names.

    Raises:
        UsageError: It cannot be used, with why.
    """
    try:
        server = _EntryReader(name, folder, home, {}, True).server(dict(entry))
        if prefix is not None:
            server = replace(server, table={**server.table, "prefix": prefix})
        _check(server)
    except _EntryRefused as refusal:
        raise UsageError(f"{name!r} was not added: {refusal}") from None
    return server


def is_proxy(entry: Any) -> bool:
    """Whether an entry of a client's file starts handrail itself."""
    words = proxy_words(entry)
    return any(
        Path(before).name == "handrail" and (first, second) == ("mcp", "serve")
        for before, first, second in zip(words, words[1:], words[2:], strict=False)
    )


def proxy_words(entry: Any) -> list[str]:
    """The command line of an entry of a client's file; empty for what has none."""
    if not isinstance(entry, dict) or not isinstance(entry.get("args", []), list):
        return []
    return [str(each) for each in (entry.get("command", ""), *entry.get("args", []))]


def _codex_entry(entry: Any) -> Any:
    """An entry of Codex in the words of the others. Its texts have no variables: what has some there is named apart."""
    if not isinstance(entry, dict):
        return entry
    if "${" in repr(entry):
        raise _EntryRefused("it holds '${', which is plain text there and a variable here")
    found = {key: value for key, value in entry.items() if key not in _CODEX}
    passed = entry.get("env_vars", [])
    if not isinstance(passed, list) or not all(isinstance(each, str) for each in passed):
        raise _EntryRefused("its env_vars are not a list of names")
    if passed:
        found["env"] = {**{name: f"${{{name}}}" for name in passed}, **entry.get("env", {})}
    headers = {**entry.get("http_headers", {})}
    headers |= {name: f"${{{variable}}}" for name, variable in entry.get("env_http_headers", {}).items()}
    if token := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    if headers:
        found["headers"] = headers
    if entry.get("enabled") is False:
        found["disabled"] = True
    return found


_CODEX = frozenset({"env_vars", "http_headers", "env_http_headers", "bearer_token_env_var", "enabled"})
_CODEX_SETTINGS = {"enabled_tools": "only", "tool_timeout_sec": "timeout", "startup_timeout_sec": "start_timeout"}
"""Settings of Codex that have another name here."""


class _EntryRefused(Exception):
    """Why one entry cannot be used."""


def _check(server: ImportedServer) -> None:
    """Reads the table with our own reader: one table that it refuses would make the whole file unusable."""
    table = TomlTable({"mcp": {server.name: dict(server.table)}}, TomlKeyPath("the import"))
    try:
        refuse_secrets(table)
        read_servers(table)
    except ConfigError as error:
        raise _EntryRefused(f"{'.'.join(map(str, error.path[2:]))}: {error.why}".removeprefix(": ")) from None


class _EntryReader:
    """Reads one entry, and collects what is to be said about it."""

    def __init__(
        self, written: str, project: Path, home: Path, inputs: Mapping[str, Mapping[str, Any]], take_secrets: bool
    ) -> None:
        self._written = written
        self._take_secrets = take_secrets
        self._secrets: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self._name = server_name(written)
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
            raise _EntryRefused("it is not a JSON object")
        table = self._address(entry) if "command" not in entry else self._program(entry)
        if entry.get("disabled") is True:
            table["enabled"] = False
        for key in sorted(entry.keys() & _CODEX_SETTINGS.keys()):
            table[_CODEX_SETTINGS[key]] = entry[key]
        for key in sorted(entry.keys() - _KNOWN - _NOISE - _CODEX_SETTINGS.keys()):
            if self._take_secrets and key not in _CLIENT_ONLY:
                raise _EntryRefused(f"its {key!r} would be lost; there is no such thing here")
            self._notes.append(f"{key!r} was left out; there is no such thing here")
        return ImportedServer(
            self._name,
            table,
            tuple(self._notes),
            self._variables,
            secrets=self._secrets,
            written=self._written,
            inputs=self._asked,
        )

    def _program(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        kind = entry.get("type", entry.get("transport", "stdio"))
        if kind != "stdio":
            raise _EntryRefused(f"it has a command and yet is of the kind {kind!r}")
        table: dict[str, Any] = {"command": self._text(_str(entry["command"], "command"))}
        args = entry.get("args", [])
        if not isinstance(args, list):
            raise _EntryRefused("its args are not a list")
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
            raise _EntryRefused("its url is not an address with http:// or https://")
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
                yield self._secret(flag, f"argument {index + 1}", written)
            elif name.startswith("-") and equals and looks_secret(name) and not _VARIABLE.search(value):
                yield f"{name}={self._secret(name, f'argument {index + 1}', written.partition('=')[2])}"
            else:
                yield self._hidden(text, f"ARG_{index + 1}")
            flag = text if text.startswith("-") and not equals and looks_secret(text) else ""

    def _values(self, written: Any, what: str, variable: Callable[[str], str]) -> dict[str, str] | None:
        if not written:
            return None
        if not isinstance(written, dict):
            raise _EntryRefused(f"its {what} are not a JSON object")
        found: dict[str, str] = {}
        for name, value in written.items():
            text = self._text(_str(value, f"{what}.{name}"))
            whole = _VARIABLE.fullmatch(text)
            if whole is not None:
                found[name] = f"env:{whole[1]}"
            elif KEY.fullmatch(text):
                found[name] = text
            elif text and not _VARIABLE.search(text) and (looks_secret(name) or redact_text(text) != text):
                found[name] = self._reference(variable(name), f"what stands under {what}.{name} there", str(value))
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
            found["client_secret"] = self._reference(
                f"{self._name}_CLIENT_SECRET", "the client secret that stands there", given["clientsecret"]
            )
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
                variable = self._needed(name, str(about))
                self._asked[variable] = match[0]
                return f"${{{variable}}}"
        raise _EntryRefused(f"it uses {match[0]}, which means nothing here; write what it stands for")

    def _hidden(self, text: str, what: str) -> str:
        """The text with variables in place of what looks like a secret."""
        if redact_text(text) == text:
            return text
        before, _, after = redact_text(text).partition(MASK)
        name, about = f"{self._name}_{what}", "what looks like a secret there"
        if not self._take_secrets:
            return redact_text(text).replace(MASK, self._secret(name, about, ""))
        if MASK in after or not (text.startswith(before) and text.endswith(after)) or "$" in text:
            raise _EntryRefused(f"{about} stands in several places of one text; put it into a variable")
        return f"{before}{self._secret(name, about, text[len(before) : len(text) - len(after)])}{after}"

    def _secret(self, name: str, about: str, value: str) -> str:
        """A secret in the middle of a text: a variable, or what is taken over."""
        return f"${{{self._reference(name, about, value).removeprefix('env:')}}}"

    def _reference(self, name: str, about: str, value: str) -> str:
        """A secret as a whole text: the variable that is to be set, or what is taken over."""
        if not self._take_secrets:
            return f"env:{self._needed(name, about)}"
        variable = _variable_name(name)
        if self._secrets.setdefault(variable, value) != value:
            raise _EntryRefused(f"two different secrets of it would be called {variable!r}")
        return f"{SECRET}{variable}"

    def _needed(self, name: str, about: str) -> str:
        """A variable that this import asks for, of a name like that."""
        variable = _variable_name(name)
        self._variables.setdefault(variable, about)
        return variable


def _variable_name(name: str) -> str:
    variable = re.sub("[^A-Za-z0-9]+", "_", name).strip("_").upper()
    return f"_{variable}" if not variable or variable[0].isdigit() else variable


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
    """Put tables behind what a `handrail.toml` holds; it is made if there is none, and nothing in it changes. A link
    stays a link.

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
        raise ConfigError("is not a table of MCP servers; write them as [mcp.NAME] tables", file=str(path), key="mcp")
    for server in servers:
        if server.name in taken:
            raise ConfigError(
                "is there already; remove it there, or use another name; an import takes the rest with --only",
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
    write_atomically(path.resolve(), text.encode(), mode)
