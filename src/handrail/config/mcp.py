"""The tables `[mcp.<name>]` and `[serve]` of a file, as values and how they are read. Nothing is started, and the `mcp`
package is not needed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast, get_args
from urllib.parse import urlsplit

from msgspec.structs import replace

from handrail.config.server_secrets import ServerSecrets
from handrail.config.setting_kinds import FLAG, SECRET, TEXT, TEXTS, Kinds, choice, count, stated
from handrail.config.variables import (
    KEPT_SECRET,
    KEY,
    SECRET as KEPT,
    environment_value,
    expanded_path,
    fill_text_variables,
    refuse_secret,
    secret_variable,
)
from handrail.core.context import LOCAL
from handrail.core.redact import redact_text
from handrail.mcp.values import Endpoint, Era, HttpEndpoint, McpBounds, OAuth, StdioEndpoint
from handrail.tools.definition_formats import LABELS
from handrail.tools.ensemble import ToolDefaults
from handrail.tools.files.label_keys import read_labels
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable

NewTools = Literal["hold", "allow"]


def path_from_file(place: TomlKeyPath, path: str) -> str:
    """A path as a file means it: from the folder that the file is in."""
    return str((place.folder or Path()).absolute() / expanded_path(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """One MCP server under the name that people give it."""

    endpoint: Endpoint
    """The address as it is written: `env:NAME` and `${NAME}` are not filled in, so that no secret is shown, approved or
    kept."""
    literal: bool = False
    """Whether the endpoint is meant as it stands, because no file says it: then nothing in it is a variable."""
    enabled: bool = True
    required: bool = False
    """Whether nothing starts without it."""
    prefix: str = ""
    """Before the names of its tools, where two servers have the same."""
    only: tuple[str, ...] | None = None
    """The tools that are taken from it; None is all."""
    hints: bool = True
    """Whether it is believed what it says of side effects."""
    effect_keys: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The arguments that say which effect a call of a tool is, by the name that the server gives the tool."""
    labels: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: MappingProxyType({}))
    """What is declared about the results and arguments of tools, by the server's name of the tool."""
    repeat_windows: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The seconds for which an equal call of a restarted client is answered by the first one, likewise."""
    era: Era = "auto"
    new_tools: NewTools = "hold"
    """What becomes of a tool that it did not have when it was approved."""
    sampling: str | None = None
    """The model that answers where the server asks for one; none unless it is named here."""
    defaults: ToolDefaults = field(default_factory=ToolDefaults)
    bounds: McpBounds = field(default_factory=McpBounds)

    place: TomlKeyPath = field(default=TomlKeyPath("the settings of an MCP server"), compare=False, repr=False)
    """Where the server is written, for mistakes that only show when it is started."""

    def resolved(self, environ: Mapping[str, str] = os.environ) -> Endpoint:
        """The endpoint with what the environment holds. A program runs in the folder of its file, wherever we stand.

        Raises:
            ConfigError: A variable is not set.
        """
        if self.literal:
            return self.endpoint
        fill = _VariableFiller(self.place, self._with_secrets(environ))
        here = None if self.place.folder is None else str(self.place.folder.absolute())
        match self.endpoint:
            case StdioEndpoint(command=command, args=args, env=env, cwd=cwd):
                return StdioEndpoint(
                    command=fill.text(command, "command"),
                    args=tuple(fill.text(each, "args", index) for index, each in enumerate(args)),
                    env={name: fill.value(value, "env", name) for name, value in env.items()},
                    cwd=here if cwd is None else path_from_file(self.place, fill.text(cwd, "cwd")),
                )
            case HttpEndpoint(url=url, headers=headers, oauth=oauth, users=users, other_users=others):
                secret = None if oauth is None else oauth.client_secret
                if oauth is not None and secret is not None:
                    oauth = replace(oauth, client_secret=fill.value(secret, "oauth", "client_secret"))
                filled = {name: fill.value(value, "headers", name) for name, value in headers.items()}
                theirs = {
                    user: {name: fill.value(value, "users", user, "headers", name) for name, value in own.items()}
                    for user, own in users.items()
                }
                return HttpEndpoint(
                    url=fill.text(url, "url"), headers=filled, oauth=oauth, users=theirs, other_users=others
                )

    def _with_secrets(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """The environment, with what is kept for this server where its table names such a thing."""
        if KEPT not in repr(self.endpoint):
            return environ
        kept = ServerSecrets.here(environ).of(Path(self.place.file), str(self.place.path[-1]))
        return {**environ, **{f"{KEPT}{name}": value for name, value in kept.items()}}


@dataclass(frozen=True, slots=True)
class _VariableFiller:
    place: TomlKeyPath
    environ: Mapping[str, str]

    def text(self, written: str, *path: str | int) -> str:
        return fill_text_variables(written, self.place.at(*path), self.environ)

    def value(self, written: str, *path: str | int) -> str:
        """The value as text. `env:NAME` or `secret:NAME` is the whole value of that variable or secret."""
        if not (KEY.fullmatch(written) or KEPT_SECRET.fullmatch(written)):
            return self.text(written, *path)
        return environment_value(written.removeprefix("env:"), self.place.at(*path), self.environ)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeSettings:
    model: str | None = None
    """The model that it asks, by name; None is the default one."""
    settings: Any = None
    """`handrail.library.summarization.SummarizationSettings`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardSettings:
    """Which of handrail's own ensembles are used. Each has settings of its own; None is not used."""

    io: Any = None
    """`handrail.library.io.IoSettings`."""
    probability: bool = False
    summarization: SummarizeSettings | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConverseSettings:
    """The `converse` tool: a model with its tools as one tool."""

    model: str | None = None
    name: str = "converse"
    description: str = ""
    system: str = ""
    """What the model is told before everything else."""
    tools: tuple[str, ...] | None = None
    """What it may call; None is what its caller may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSettings:
    """A prompt that people can pick in their client."""

    text: str
    """The text of the prompt, with a `{name}` for each argument."""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What `handrail mcp serve` gives to others."""

    converse: ConverseSettings | None = None
    tools: tuple[str, ...] | None = None
    """The tools that are served, by names or patterns; None is all."""
    conversations: bool = False
    """Whether saved conversations can be read."""
    proofs: bool = False
    """Whether the proofs of runs can be read."""
    corpora: Mapping[str, Path] = field(default_factory=lambda: MappingProxyType({}))
    """Folders of texts that can be read, by name."""
    prompts: Mapping[str, PromptSettings] = field(default_factory=lambda: MappingProxyType({}))
    offer: Literal["all", "search"] = "all"
    """`search` gives clients `find_tools` and `call_tool` in place of all tools."""
    instructions: str = ""
    """What clients are told of this server."""
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    token: str | None = None
    """`env:NAME`: where the token is that HTTP callers must bring. Never the token."""
    tokens: Mapping[str, str] = field(default_factory=dict)
    """The same for each of several callers, by the name under which handrail knows them."""

    def secret(self, environ: Mapping[str, str] = os.environ) -> str | dict[str, str] | None:
        """The token itself, or the token of each caller.

        Raises:
            ConfigError: A variable is not set.
        """
        if self.token is not None or not self.tokens:
            return secret_variable(self.token, "serve.token", environ)
        found = {name: secret_variable(token, f"serve.tokens.{name}", environ) for name, token in self.tokens.items()}
        return {name: token for name, token in found.items() if token is not None}


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PREFIX = re.compile(r"[A-Za-z0-9_.-]{0,64}")
_SECRET_NAME = re.compile(
    r"(?i)token|secret|passw|credential|authorization|cookie|(?:^|[_-])key$|api[_-]?key|(?:^|[_-])pat$"
)
_FROM_ELSEWHERE = re.compile(r"\$\{[^}]*\}")
_PROGRAM = ("command", "args", "env", "environment", "cwd")
_ADDRESS = ("url", "headers", "oauth", "users", "other_users")
_KEYS = (
    *_PROGRAM,
    *_ADDRESS,
    *("enabled", "required", "prefix", "only", "hints", "era", "new_tools", "sampling", "tools"),
    *("timeout", "max_retries", "max_output", "max_message", "start_timeout"),
)
_OAUTH: Kinds = {
    "client_id": TEXT,
    "client_secret": TEXT,
    "metadata_url": TEXT,
    "scopes": TEXTS,
    "grant": choice("authorization_code", "client_credentials"),
    "redirect_port": count(0),
}
SERVE: Kinds = {
    "tools": TEXTS,
    "offer": choice("all", "search"),
    "conversations": FLAG,
    "proofs": FLAG,
    "instructions": TEXT,
    "hosts": TEXTS,
    "origins": TEXTS,
    "token": SECRET,
}
SERVE_TABLES = ("converse", "corpora", "prompts", "tokens")
CONVERSE: Kinds = {"model": TEXT, "name": TEXT, "description": TEXT, "system": TEXT, "tools": TEXTS}


def looks_secret(name: str) -> bool:
    """Whether what goes by this name is likely a secret."""
    return _SECRET_NAME.search(name) is not None


def refuse_secrets(top: TomlTable) -> None:
    """Before `${NAME}` is filled in: what goes by the name of a secret stands in the environment, not in a file."""
    for facts in top.tables("mcp").values():
        users = [table.table("headers") for table in facts.tables("users").values()]
        for table in (*map(facts.table, ("env", "environment", "headers")), *users):
            for name in () if table is None else table.values:
                if table is not None and _is_secret(name, table.text(name) or ""):
                    raise table.error(name, _elsewhere(name))
        _refuse_texts(facts.values, facts.place)
        oauth = facts.values.get("oauth")
        if isinstance(oauth, dict) and _is_secret("client_secret", str(oauth.get("client_secret", "env:NONE"))):
            raise facts.at("oauth").at("client_secret").error(_elsewhere("CLIENT_SECRET"))
    serve = top.table("serve")
    if serve is not None and (token := serve.text("token")) is not None and not KEY.fullmatch(token):
        raise serve.error("token", _elsewhere("HANDRAIL_TOKEN"))
    tokens = None if serve is None else serve.table("tokens")
    for name in () if tokens is None else tokens.values:
        if tokens is not None and not KEY.fullmatch(tokens.text(name) or ""):
            raise tokens.error(name, _elsewhere(f"{name}_TOKEN"))


def _refuse_texts(value: Any, place: TomlKeyPath) -> None:
    match value:
        case str():
            refuse_secret(_FROM_ELSEWHERE.sub("${NAME}", value), place)
        case dict():
            for key, item in value.items():
                _refuse_texts(item, place.at(key))
        case list():
            for index, item in enumerate(value):
                _refuse_texts(item, place.at(index))


def _is_secret(name: str, value: str) -> bool:
    """Whether a value is one that only a program should know, written out."""
    if KEY.fullmatch(value) or KEPT_SECRET.fullmatch(value) or _FROM_ELSEWHERE.search(value) or not value:
        return False
    return looks_secret(name) or redact_text(value) != value


def _elsewhere(name: str) -> str:
    variable = re.sub("[^A-Z0-9]+", "_", name.upper()).strip("_") or "NAME"
    return (
        "a secret is not written into a file, which is copied, shared and committed; put it into an environment"
        f' variable and write "env:{variable}", with its name'
    )


def server_name(written: str) -> str:
    """A name of ours for a server that another program calls so; "" if nothing of it can be in a name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", written).strip("-_")[:64]


def read_servers(top: TomlTable) -> dict[str, McpSettings]:
    """The MCP servers by name.

    Raises:
        ConfigError: Something is wrong.
    """
    return {name: _server(name, facts) for name, facts in top.tables("mcp").items()}


def _server(name: str, facts: TomlTable) -> McpSettings:
    if not NAME.fullmatch(name):
        raise facts.place.error("the name of a server has 1 to 64 of A-Z a-z 0-9 _ - and begins with a letter or digit")
    facts.only(_KEYS)
    tools = facts.tables("tools")
    for each in tools.values():
        each.only(("effect_key", "repeat_window", *LABELS))
    return McpSettings(
        endpoint=_endpoint(facts),
        enabled=facts.flag("enabled") is not False,
        required=facts.flag("required") is True,
        prefix=_prefix(facts),
        only=facts.texts("only"),
        hints=facts.flag("hints") is not False,
        effect_keys={name: key for name, each in tools.items() if (key := each.texts("effect_key")) is not None},
        labels={name: stated for name, each in tools.items() if (stated := read_labels(each))},
        repeat_windows={name: most for name, each in tools.items() if (most := each.seconds("repeat_window"))},
        era=cast(Era, facts.choice("era", get_args(Era)) or "auto"),
        new_tools=cast(NewTools, facts.choice("new_tools", get_args(NewTools)) or "hold"),
        sampling=facts.text("sampling"),
        defaults=ToolDefaults(
            timeout=facts.seconds("timeout"),
            max_retries=facts.count("max_retries", 0),
            max_output=facts.count("max_output", 1),
        ),
        bounds=_bounds(facts),
        place=facts.place,
    )


def _prefix(facts: TomlTable) -> str:
    prefix = facts.text("prefix") or ""
    if not _PREFIX.fullmatch(prefix):
        raise facts.error("prefix", f"must be of A-Z a-z 0-9 _ . - so that names of tools stay names, not {prefix!r}")
    return prefix


def _bounds(facts: TomlTable) -> McpBounds:
    stated: dict[str, Any] = {
        "start": facts.seconds("start_timeout"),
        "message": facts.count("max_message", 1024),
    }
    return McpBounds(**{key: value for key, value in stated.items() if value is not None})


def _endpoint(facts: TomlTable) -> Endpoint:
    if ("command" in facts) == ("url" in facts):
        why = "has both a command and a url; keep one" if "url" in facts else 'needs command = "…" or url = "https://…"'
        raise facts.place.error(f"a server {why}")
    kind, strange = ("a url", _PROGRAM) if "url" in facts else ("a command", _ADDRESS)
    for key in strange:
        if key in facts:
            raise facts.error(key, f"is not for a server with {kind}")
    return _address(facts) if "url" in facts else _program(facts)


def _program(facts: TomlTable) -> StdioEndpoint:
    args = facts.texts("args") or ()
    if isinstance(facts.values["command"], list):
        command, *first = facts.texts("command") or ("",)
        args = (*first, *args)
    else:
        command = facts.text("command") or ""
    if not command.strip():
        raise facts.error("command", 'must name a program, as in command = "uvx"')
    if "env" in facts and "environment" in facts:
        raise facts.error("environment", "is another spelling of 'env', which is given too; keep one")
    key = "environment" if "environment" in facts else "env"
    return StdioEndpoint(command=command, args=args, env=_texts(facts, key), cwd=_folder(facts))


def _folder(facts: TomlTable) -> str | None:
    """The folder as it is written if it begins with a variable, since the variable may hold a whole path."""
    cwd = facts.text("cwd")
    return cwd if cwd is None or cwd.startswith("$") else path_from_file(facts.place, cwd)


def _texts(facts: TomlTable, key: str) -> dict[str, str]:
    table = facts.table(key)
    return {} if table is None else {name: table.text(name) or "" for name in table.values}


def _address(facts: TomlTable) -> HttpEndpoint:
    url = facts.text("url") or ""
    try:
        parts = urlsplit(_FROM_ELSEWHERE.sub("x", url))
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # brackets that hold no address
        usable = False
    if not usable:
        raise facts.error("url", f"must be an address with http:// or https://, not {url!r}")
    users = _users(facts)
    others = facts.choice("other_users", ("refuse", "shared")) or "refuse"
    return HttpEndpoint(
        url=url,
        headers=_texts(facts, "headers"),
        oauth=_oauth(facts),
        users=users,
        other_users=cast(Literal["refuse", "shared"], others),
    )


def _users(facts: TomlTable) -> dict[str, dict[str, str]]:
    if "users" not in facts:
        if "other_users" in facts:
            raise facts.error("other_users", "is only for a server with a table users")
        return {}
    if facts.values.get("oauth"):
        raise facts.error("users", "is not for a server with oauth: nobody but you can sign in to it")
    found: dict[str, dict[str, str]] = {}
    for user, table in facts.tables("users").items():
        headers = _texts(table.only(("headers",)), "headers")
        if not user.strip() or not user.isprintable() or not headers:
            raise table.place.error('a user has an id, and headers as in { Authorization = "env:ADA_TOKEN" }')
        found[user] = headers
    if not found:
        raise facts.error("users", "names no user; leave it out if all use the same headers")
    return found


def _oauth(facts: TomlTable) -> OAuth | None:
    if isinstance(facts.values.get("oauth"), bool):
        return OAuth() if facts.flag("oauth") else None
    table = facts.table("oauth")
    if table is None:
        return None
    return OAuth(**stated(table.only(_OAUTH), _OAUTH))


def read_serve(top: TomlTable) -> ServeSettings:
    """What is served.

    Raises:
        ConfigError: Something is wrong.
    """
    facts = top.table("serve")
    if facts is None:
        return ServeSettings()
    facts.only((*SERVE, *SERVE_TABLES))
    return ServeSettings(
        converse=_converse(facts),
        corpora=_corpora(facts),
        prompts=_prompts(facts),
        tokens=_tokens(facts),
        **stated(facts, SERVE),
    )


def _tokens(facts: TomlTable) -> dict[str, str]:
    """The variable of each caller's token."""
    if "tokens" not in facts:
        return {}
    if "token" in facts:
        raise facts.error("tokens", "is the token of each caller, and 'token' is the one of all; keep one")
    table = facts.table("tokens") or TomlTable({}, facts.place)
    found = _texts(facts, "tokens")
    for name in found:
        if not name.strip() or not name.isprintable() or name == LOCAL.id:
            raise table.error(name, f"a caller has a name, and {LOCAL.id!r} is whoever starts handrail")
    if not found:
        raise facts.error("tokens", "names no caller; leave it out, or everybody could call")
    return found


def _converse(facts: TomlTable) -> ConverseSettings | None:
    if isinstance(facts.values.get("converse"), bool):
        return ConverseSettings() if facts.flag("converse") else None
    table = facts.table("converse")
    if table is None:
        return None
    return ConverseSettings(**stated(table.only(CONVERSE), CONVERSE))


def _prompts(facts: TomlTable) -> dict[str, PromptSettings]:
    found: dict[str, PromptSettings] = {}
    for name, table in facts.tables("prompts").items():
        table.only(("text", "description"))
        text = table.text("text")
        if not NAME.fullmatch(name) or not text:
            raise table.place.error("a prompt has a name of A-Z a-z 0-9 _ - and a text")
        found[name] = PromptSettings(text=text, description=table.text("description") or "")
    return found


def _corpora(facts: TomlTable) -> dict[str, Path]:
    table = facts.table("corpora") or TomlTable({}, facts.place)
    found: dict[str, Path] = {}
    for name in table.values:
        if not NAME.fullmatch(name):
            raise table.error(name, "the name of a corpus has 1 to 64 of A-Z a-z 0-9 _ -")
        path = (facts.place.folder or Path()) / expanded_path(table.text(name) or "")
        if not os.path.isdir(path):
            raise table.error(name, f"there is no folder {str(path)!r}")
        found[name] = path
    return found
