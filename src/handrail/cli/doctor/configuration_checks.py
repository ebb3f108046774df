"""Everything that one configuration names, checked: the file, its ensembles, its servers, and all of them together."""

from __future__ import annotations

import asyncio
import difflib
import os
import shutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from handrail.app import SCRIPTED, Person
from handrail.app.loaded_groups import prefix_for
from handrail.app.person import unpinned_reason
from handrail.app.tool_groups import GroupContext, close_all, make_server, standard_groups
from handrail.cli.config.approval import require_approval
from handrail.cli.lazy_groups import one_line
from handrail.cli.mcp.server_selection import why_unapproved
from handrail.cli.terminal.person import terminal_person
from handrail.cli.tools.tool_files import read_tool_file
from handrail.config.load import read_config
from handrail.config.values import STANDARD_SET, Config
from handrail.core.errors import ConfigError, DuplicateTool, HandrailError
from handrail.execute.confirm import DeferAll
from handrail.mcp.values import StdioEndpoint
from handrail.sessions.create import service_names
from handrail.tools.ensemble import Ensemble
from handrail.tools.files.mistakes import all_mistakes
from handrail.tools.files.toml_table import read_toml_file
from handrail.tools.registry import prepare_ensembles, registered

State = Literal["ok", "warn", "wrong"]
_ALWAYS = (*STANDARD_SET, "find_tools", "read_output")
"""Tools that a file may name although none of its groups has them."""


class ConfigurationFinding(Struct, frozen=True, kw_only=True):
    """What was found of one thing."""

    what: str
    state: State = "ok"
    tools: int = 0
    problem: str | None = None
    line: int | None = None
    key: str | None = None

    @classmethod
    def of(cls, what: str, error: HandrailError) -> ConfigurationFinding:
        line, key = (error.line, error.key) if isinstance(error, ConfigError) else (None, None)
        return cls(what=what, state="wrong", problem=one_line(error), line=line, key=key)


def check_node(path: Path, *, connect: bool) -> list[ConfigurationFinding]:
    """All there is to say of a configuration. Servers are only looked at, unless they are to be connected.

    Raises:
        UsageError: They are to be, and the configuration is not approved.
    """
    try:
        top = read_toml_file(path)
    except ConfigError as error:
        return [ConfigurationFinding.of(path.name, error)]
    config, mistakes = all_mistakes(top, lambda table: read_config(table, path))
    own = [ConfigurationFinding.of(path.name, error) for error in sorted(mistakes, key=_line)]
    if config is None:
        return own
    if connect:
        require_approval(config)
    ensembles: list[Ensemble] = []
    found = [*_files(config, ensembles), *_standard(config, ensembles)]
    found += asyncio.run(_servers(config, ensembles, connect))
    found += _together(config, ensembles)
    waiting = not connect and any(settings.enabled for settings in config.mcp.values())
    named = () if waiting else _unknown_tools(config, ensembles)
    own += (
        ConfigurationFinding.of(path.name, top.place.at(*where).error(why))
        for where, why in (*_unusable_models(config), *named)
    )
    return [*(own or [ConfigurationFinding(what=path.name)]), *found]


def _line(error: ConfigError) -> int:
    return error.line or 0


def _files(config: Config, ensembles: list[Ensemble]) -> Iterator[ConfigurationFinding]:
    for file in config.ensembles:
        try:
            found = read_tool_file(file, config.file)
            yield from (ConfigurationFinding.of(file.name, error) for error in found.mistakes)
            if not found.mistakes:
                yield ConfigurationFinding(what=file.name, tools=len(found.tools))
                ensembles.append(found.item)
        except HandrailError as error:
            yield ConfigurationFinding.of(file.name, error)


def _standard(config: Config, ensembles: list[Ensemble]) -> Iterator[ConfigurationFinding]:
    for name, (_, make) in standard_groups(config).items():
        try:
            ensembles.append(make([]))
            yield ConfigurationFinding(what=f"standard.{name}", tools=len(ensembles[-1].tools))
        except HandrailError as error:
            yield ConfigurationFinding.of(f"standard.{name}", error)


async def _servers(config: Config, ensembles: list[Ensemble], connect: bool) -> list[ConfigurationFinding]:
    person = terminal_person(ask=False)
    found: list[ConfigurationFinding] = []
    servers = []
    for name, settings in config.mcp.items():
        what = f"mcp.{name}"
        noted = list(server_problem(config, name, person))
        found += (ConfigurationFinding(what=what, state=state, problem=problem) for state, problem in noted)
        try:
            settings.resolved()
            if connect and settings.enabled and why_unapproved(config, name, person) is None:
                # Not one that is required: it would keep the others from being looked at.
                servers.append(make_server(config, name, settings, GroupContext(person, DeferAll()), required=False))
            elif not noted:
                found.append(ConfigurationFinding(what=what))
        except HandrailError as error:
            found.append(ConfigurationFinding.of(what, error))
    try:
        await prepare_ensembles((server.ensemble for server in servers), person.tell)
        for server in servers:
            found += _connected(f"mcp.{server.name}", server.ensemble)
            ensembles.append(Ensemble(server.name, server.ensemble.tools))  # what it offers, also when it is closed
    finally:
        await close_all(servers)
    return found


def server_problem(config: Config, name: str, person: Person) -> Iterator[tuple[State, str]]:
    """What can be said of a server without starting it."""
    settings = config.mcp[name]
    endpoint = settings.endpoint
    if not settings.enabled:
        yield "warn", "it is switched off (enabled = false)"
        return
    if why_unapproved(config, name, person) is not None:
        yield "warn", f"it is not approved; review it with: handrail mcp approve {name}"
    if isinstance(endpoint, StdioEndpoint) and _is_missing(endpoint, config.file.parent if config.file else Path()):
        yield "wrong", f"there is no program {endpoint.command!r} here; install it, or write its path"
    if (warning := unpinned_reason(endpoint)) is not None:
        yield "warn", warning


def _is_missing(endpoint: StdioEndpoint, folder: Path) -> bool:
    """Whether its program is not there, as far as that can be said without the variables."""
    path = endpoint.env.get("PATH")
    if "$" in f"{endpoint.command}{endpoint.cwd}{path}" or (path or "").startswith("env:"):
        return False
    at = folder / (endpoint.cwd or "") / endpoint.command
    return shutil.which(str(at) if os.sep in endpoint.command else endpoint.command, path=path) is None


def _connected(what: str, ensemble: Any) -> Iterator[ConfigurationFinding]:
    if ensemble.problem:
        yield ConfigurationFinding(what=what, state="wrong", problem=ensemble.problem)
        return
    yield ConfigurationFinding(what=what, tools=len(ensemble.tools))
    for tool, why in ensemble.held.items():
        yield ConfigurationFinding(what=what, state="warn", problem=f"{tool} is withheld: {why}")


def _together(config: Config, ensembles: Iterable[Ensemble]) -> Iterator[ConfigurationFinding]:
    """Whether all of it can be offered at once."""
    try:
        registered(*ensembles)
    except DuplicateTool as error:
        yield ConfigurationFinding(what="together", state="wrong", problem=f"{error}{prefix_for(error, config)}")
    except HandrailError as error:
        yield ConfigurationFinding.of("together", error)


Mistake = tuple[tuple[str | int, ...], str]
"""The path of a key in the file, and what is wrong there."""


def _unusable_models(config: Config) -> Iterator[Mistake]:
    """Models of services that nobody knows, and scripts that are not there."""
    folder = config.file.parent if config.file else Path()
    known = (SCRIPTED, *service_names())
    for name, settings in config.models.items():
        if settings.provider not in known:
            near = difflib.get_close_matches(settings.provider, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            yield ("models", name, "provider"), f"there is no service {settings.provider!r}; {hint}"
        elif settings.provider == SCRIPTED and not (settings.model and (folder / settings.model).is_file()):
            yield ("models", name, "model"), f"there is no file {settings.model!r}"


def _unknown_tools(config: Config, ensembles: Iterable[Ensemble]) -> Iterator[Mistake]:
    """Tools that the file names, and that nothing has."""
    names = [name for ensemble in ensembles for tool in ensemble.tools for name in tool.names]
    for path, patterns in _patterns(config):
        for index, pattern in enumerate(patterns or ()):
            if not any(fnmatchcase(name, pattern) for name in (*names, *_ALWAYS)):
                near = difflib.get_close_matches(pattern, names, n=1)
                yield (*path, index), f"no tool is called {pattern!r}{f'; did you mean {near[0]!r}?' if near else ''}"


def _patterns(config: Config) -> Iterator[tuple[tuple[str, ...], tuple[str, ...] | None]]:
    """Every list of tools in the file, and where it stands."""
    for model, settings in config.models.items():
        yield ("models", model, "tools"), settings.tools
    yield ("llm", "tools_default_set"), config.llm.tools_default_set
    yield ("serve", "tools"), config.serve.tools
    if config.serve.converse is not None:
        yield ("serve", "converse", "tools"), config.serve.converse.tools
