"""The powers of a configuration: what it does beyond the defaults, which a person must approve.

Each power is one line of plain text, so that what is shown is what is approved. An
approval is bound to these lines, to the bytes of the file, and to every file that it
names. A configuration without powers needs no approval: it can make handrail ask
more and reach less, never the other way round.

Sizes, times and counts are no powers: they bound a run, and widen nothing that it may do.
MCP servers have approvals of their own (`config/approvals.py`).
"""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from handrail.config.mcp import McpSettings, ServeSettings
from handrail.config.network import NodeSettings, ServiceSettings
from handrail.config.python_files import python_files
from handrail.config.values import LOCAL, Config, LlmSettings, ModelSettings
from handrail.core.canonical import digest, digest_bytes
from handrail.core.errors import ConfigError
from handrail.execute.origins.flows import FLOW_RULES
from handrail.mcp.values import HttpEndpoint
from handrail.models.api_keys import key_variables
from handrail.tools.files.request_templates import FROM_ENVIRONMENT
from handrail.tools.files.toml_table import read_toml_file


class EnsemblePowers:
    """The powers of some ensemble files, and every file that decides what they are."""

    def __init__(self, ensembles: tuple[Path, ...], folder: Path) -> None:
        self.lines: list[str] = []
        """One sentence for each power, without a subject: `handrail.toml` would …"""
        self.files: list[Path] = []
        """The ensembles, the files that they name, and the Python that they would import from `folder`."""
        modules: list[str] = []
        for path in ensembles:
            self.files.append(path)
            for tool, file in _tools_in(path):
                if file != path:
                    self.files.append(file)
                self._read(tool, file, modules)
        if modules:
            self.files += python_files(folder, modules)

    def _read(self, tool: dict[str, Any], file: Path, modules: list[str]) -> None:
        if isinstance(reference := tool.get("python"), str):
            modules.append(reference.partition(":")[0])
            self._add(f"run Python: {reference}")
        if (command := tool.get("command")) is not None:
            words = _words(command)
            cwd = command.get("cwd") if isinstance(command, dict) else None
            place = file.parent / cwd if isinstance(cwd, str) and "\0" not in cwd else file.parent
            self.files += (place / word for word in words if "\0" not in word and _is_file(place / word))
            self._add(f"run the program: {shlex.join(words)}{f' in {cwd}' if cwd else ''}{_variables_for(command)}")
        if (request := tool.get("http")) is not None:
            url = request.get("url") if isinstance(request, dict) else request
            self._add(f"send requests to: {url}{_variables_in(request)}")

    def _add(self, line: str) -> None:
        if line not in self.lines:
            self.lines.append(line)


def names_python(ensembles: Iterable[Path]) -> bool:
    """Whether a tool of these files is Python, so that the folder must be on the path. It is not put there otherwise:
    a file in it could pose as any module."""
    return any("python" in tool for path in ensembles for tool, _ in _tools_in(path))


def is_python(file: Path) -> bool:
    """Whether the tool of an invoker file is Python."""
    values = _values(file)
    return any("python" in each for each in (values, *_tables([values.get("invoker")])))


def _tools_in(ensemble: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The tables of the tools of a file, each with the file that it stands in. An entry and its source are two."""
    for entry in _tables(_values(ensemble).get("invokers")):
        yield entry, ensemble
        source = entry.get("source")
        if isinstance(source, str) and "\0" not in source:
            file = ensemble.parent / source
            values = _values(file)
            yield values, file
            yield from ((inner, file) for inner in _tables([values.get("invoker")]))


def _tables(values: Any) -> list[dict[str, Any]]:
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def _values(file: Path) -> dict[str, Any]:
    try:
        return dict(read_toml_file(file).values)
    except ConfigError:
        return {}  # it cannot be loaded either, and then the mistake is told


def _words(command: Any) -> list[str]:
    run = command.get("run") if isinstance(command, dict) else command
    return [each for each in run if isinstance(each, str)] if isinstance(run, list) else [str(run)]


def _variables_for(command: Any) -> str:
    """The variables that a program gets: those of the user by their names, those that the file sets with values."""
    if not isinstance(command, dict):
        return ""
    passed, values = command.get("env"), command.get("env_set")
    names = [str(each) for each in passed] if isinstance(passed, list) else []
    given = [f"{name}={value}" for name, value in values.items()] if isinstance(values, dict) else []
    told = ", ".join((*(f"${name}" for name in names), *map(shlex.quote, given)))
    return f", with the variables: {told}" if told else ""


def _variables_in(request: Any) -> str:
    """The variables whose values go out in the headers of a request."""
    headers = request.get("headers") if isinstance(request, dict) else None
    values = [each for each in headers.values() if isinstance(each, str)] if isinstance(headers, dict) else []
    names = dict.fromkeys(found["name"] for each in values if (found := FROM_ENVIRONMENT.fullmatch(each)) is not None)
    return f", with the values of: {', '.join(f'${name}' for name in names)}" if names else ""


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


_VARIABLE = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_REGION = re.compile(r"[a-z0-9-]+")
"""What a region of a service is called. It becomes a part of the address, and anything else may lead elsewhere."""
_ABSENT = "absent"
_SHORTEST = 4
"""Characters of a value that is concealed. A shorter one is no secret, and its letters stand in other words too."""


@dataclass(frozen=True, slots=True)
class Powers:
    """The powers of one configuration, and what an approval of them is bound to."""

    lines: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    """The digest of each file that decides what the configuration does, by its path."""

    @property
    def binds(self) -> str:
        """The digest that an approval is good for."""
        return digest({"powers": list(self.lines), "files": dict(self.files)})

    def beyond(self, other: Powers) -> tuple[str, ...]:
        """The powers that the other one does not have."""
        return tuple(line for line in self.lines if line not in other.lines)


def powers_of(config: Config, environ: Mapping[str, str] = os.environ) -> Powers:
    """What a configuration would do beyond the defaults. Values of variables are shown by the names of the variables.

    A configuration that was made in code has no powers here: the program that made it speaks for itself.
    """
    if config.file is None:
        return Powers()
    folder = Path(os.path.realpath(config.file.absolute().parent))
    tools = EnsemblePowers(config.ensembles, folder) if config.llm.tools_enabled else EnsemblePowers((), folder)
    names = _variables(config.file)
    values = {environ[name]: f"${{{name}}}" for name in names if len(environ.get(name, "")) >= _SHORTEST}
    lines = tuple(dict.fromkeys((*tools.lines, *(_concealed(line, values) for line in _lines(config, folder)))))
    if names:
        lines = (*lines, f"read your environment variables: {', '.join(names)}")
    if not lines:
        return Powers()
    return Powers(lines, {_key(path): _digest(path) for path in (config.file, *tools.files)})


def _key(path: Path) -> str:
    """One path for a file, wherever it is named."""
    return os.path.join(os.path.realpath(path.parent), path.name)


def _digest(path: Path) -> str:
    try:
        return digest_bytes(path.read_bytes())
    except OSError:
        return _ABSENT


def _lines(config: Config, folder: Path) -> Iterator[str]:
    yield from (f"allow without asking: {rule}" for rule in config.rules if rule.decision == "allow")
    if (
        config.llm.tools_require_confirmation_for_side_effects
        != LlmSettings().tools_require_confirmation_for_side_effects
    ):
        yield "run every side effect without asking (confirm_side_effects = false)"
    if config.policy.after_untrusted == "allow":
        yield "let words from outside lead to side effects (after_untrusted = 'allow')"
    for name in FLOW_RULES:
        if getattr(config.policy.flows, name) == "allow":
            yield f"let words from outside direct calls, or private values leave (policy.flows.{name} = 'allow')"
    for name, model in config.models.items():
        yield from _of_model(name, model)
    for name, server in config.mcp.items():
        yield from _of_server(name, server)
    yield from _of_io(config, folder)
    yield from _of_serving(config.serve, folder)
    yield from _of_node(config.node)
    yield from _of_services(config.services, folder)
    if config.approvals.webhook is not None:
        yield f"post each call that waits for approval, with its arguments, to: {config.approvals.webhook}"
    if config.hook.otherwise == "allow":
        yield "let coding agents do without asking whatever no rule speaks of (hook.otherwise = 'allow')"
    if config.hook.on_failure == "allow":
        yield "let coding agents do everything while their hook cannot decide (hook.on_failure = 'allow')"
    if config.state.url is not None and config.state.in_file:
        yield f"keep the record, conversations and tokens of this node in: {config.state.url}"
    for name, most in config.retention.stated.items():
        kind, unit = name.split("_")
        what = "the words of the record" if kind == "bodies" else kind
        yield f"erase {what} {'older than' if unit == 'days' else 'above'} {most} {unit} (retention.{name})"
    if config.rlm.environment == "process":
        yield "run code that models write without a sandbox (rlm.environment = 'process')"
    if config.journal is not None and _is_outside(config.journal, folder):
        yield f"keep the record outside this folder: {config.journal}"


def _of_model(name: str, settings: ModelSettings) -> Iterator[str]:
    if settings.base_url is not None:
        key = f", with the key in ${settings.key.removeprefix('env:')}" if settings.key else ""
        yield f"send what you ask the model {name!r} to: {settings.base_url}{key}"
    elif settings.key is not None and settings.key.removeprefix("env:") not in _usual(settings.provider):
        yield f"send the key in ${settings.key.removeprefix('env:')} to: {settings.provider}"
    if headers := settings.options.get("headers"):
        yield f"send these headers to the model {name!r}: {headers}"
    region = settings.options.get("region")
    if region is not None and not _REGION.fullmatch(str(region)):
        yield f"send what you ask the model {name!r} to the region: {region}"
    if settings.provider == LOCAL and (weights := settings.model or settings.options.get("weights")):
        yield f"load a model from the file: {weights}"


def _usual(provider: str) -> tuple[str, ...]:
    """The variables that may hold the key of a service, whichever of its wires is spoken."""
    return (*key_variables(provider), *key_variables(provider.removesuffix("-responses")))


def _of_server(name: str, settings: McpSettings) -> Iterator[str]:
    if settings.new_tools == "allow":
        yield f"use new tools of the MCP server {name!r} without asking"
    if settings.sampling is not None:
        yield f"let the MCP server {name!r} ask the model {settings.sampling!r}"
    endpoint = settings.endpoint
    if isinstance(endpoint, HttpEndpoint) and endpoint.oauth is not None and endpoint.oauth.client_secret is not None:
        yield f"sign in to {endpoint.url} with the secret in {endpoint.oauth.client_secret}"


def _of_io(config: Config, folder: Path) -> Iterator[str]:
    settings = config.standard.io
    if settings is None:
        return
    for name, path in settings.roots.items():
        if _is_outside(path, folder):
            yield f"let models {'read and write' if name in settings.write else 'read'} files in: {path}"
    for name, path in settings.databases.items():
        if _is_outside(path, folder):
            verb = "query and change" if name in settings.write_databases else "query"
            yield f"let models {verb} the database: {path}"
    if settings.hosts:
        yield f"let models fetch from: {', '.join(settings.hosts)}"
    if settings.private:
        yield f"let models reach these networks: {', '.join(settings.private)}"


def _of_serving(settings: ServeSettings, folder: Path) -> Iterator[str]:
    for name, path in settings.corpora.items():
        if _is_outside(path, folder):
            yield f"let MCP clients read the folder {name!r}: {path}"
    yield from _of_callers("handrail mcp serve", settings.hosts, settings.origins)


def _of_callers(what: str, hosts: tuple[str, ...], origins: tuple[str, ...]) -> Iterator[str]:
    if hosts:
        yield f"let {what} be called by other names: {', '.join(hosts)}"
    if origins:
        yield f"let {what} be used by the web pages: {', '.join(origins)}"


def _of_node(settings: NodeSettings) -> Iterator[str]:
    if not _is_loopback(settings.host):
        yield f"let other machines reach this node, at: {settings.host}"
    if not settings.token_required:
        yield "let callers of this node do everything without a token"
    yield from _of_callers("this node", settings.hosts, settings.origins)
    if settings.nats is not None:
        yield f"connect this node to the NATS server: {settings.nats}"
    for path in (settings.identity, settings.nats_cert, settings.nats_key, settings.nats_ca):
        if path is not None:
            yield f"use the key file: {path}"
    for name, peer in settings.peers.items():
        token = f", with the token in ${peer.token.removeprefix('env:')}" if peer.token else ""
        yield f"connect to the node {name!r} at: {peer.url}{token}"
        if peer.believed:
            yield f"believe the node {name!r} about who wrote what it answers (node.peers.{name}.believed)"
    for id, trust in settings.trust.items():
        yield f"trust the node {id} as: {trust}"
    for name, issuer in settings.issuers.items():
        yield f"accept tokens of the node {name!r} ({issuer.id}) for: {', '.join(issuer.can) or 'nothing'}"


def _of_services(settings: ServiceSettings, folder: Path) -> Iterator[str]:
    if settings.folder is not None and _is_outside(settings.folder, folder):
        yield f"keep the data of services outside this folder: {settings.folder}"
    if settings.transcriber is not None:
        key = f", with the key in ${settings.transcriber_key.removeprefix('env:')}" if settings.transcriber_key else ""
        yield f"send speech to: {settings.transcriber}{key}"


def _is_outside(path: Path, folder: Path) -> bool:
    """Whether a path leads out of the folder, links included."""
    return not Path(os.path.realpath(folder / path)).is_relative_to(folder)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _concealed(line: str, values: Mapping[str, str]) -> str:
    """The line with the names of variables where their values stand, the longest first: a value may be a secret."""
    for value in sorted(values, key=len, reverse=True):
        line = line.replace(value, values[value])
    return line


def _variables(file: Path) -> tuple[str, ...]:
    """The variables that a file takes values from, as `${NAME}`. Those of MCP servers are approved with the server."""
    try:
        values = read_toml_file(file).values
    except ConfigError:
        return ()
    texts = _texts([value for key, value in values.items() if key != "mcp"])
    return tuple(dict.fromkeys(name for text in texts for name in _VARIABLE.findall(text) if name))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            yield from _texts(list(value.values()))
        case list():
            for item in value:
                yield from _texts(item)
