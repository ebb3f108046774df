"""Everything that one configuration names, checked: the file, its ensembles, its servers, and all of them together."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from handrail.app import Person
from handrail.app.node import prefix_for
from handrail.app.parts import Around, close_all, make_server, prepare_all, standard
from handrail.app.person import unpinned
from handrail.cli.consent import person_here
from handrail.cli.groups import one_line
from handrail.config.approvals import unapproved
from handrail.config.load import read_config
from handrail.config.tools import load_tools
from handrail.config.values import Config
from handrail.core.errors import ConfigError, DuplicateTool, HandrailError
from handrail.execute.confirm import DeferAll
from handrail.mcp.values import Stdio
from handrail.tools.ensemble import Ensemble
from handrail.tools.files.mistakes import all_mistakes, ensemble_mistakes
from handrail.tools.files.table import Table, read_file
from handrail.tools.registry import registered

State = Literal["ok", "warn", "wrong"]


class Finding(Struct, frozen=True, kw_only=True):
    """What was found of one thing."""

    what: str
    state: State = "ok"
    tools: int = 0
    problem: str | None = None
    line: int | None = None
    key: str | None = None

    @classmethod
    def of(cls, what: str, error: HandrailError) -> Finding:
        line, key = (error.line, error.key) if isinstance(error, ConfigError) else (None, None)
        return cls(what=what, state="wrong", problem=one_line(error), line=line, key=key)


def check_node(path: Path, *, connect: bool) -> list[Finding]:
    """All there is to say of a configuration. Servers are only looked at, unless they are to be connected."""
    try:
        top = read_file(path)
    except ConfigError as error:
        return [Finding.of(path.name, error)]
    config, mistakes = all_mistakes(top, lambda table: read_config(table, path))
    found = [Finding.of(path.name, error) for error in mistakes] or [Finding(what=path.name)]
    if config is None:
        return found
    ensembles: list[Ensemble] = []
    found += _files(config, ensembles)
    found += _standard(config, ensembles)
    found += asyncio.run(_servers(config, ensembles, connect))
    found += _together(config, ensembles)
    waiting = not connect and any(settings.enabled for settings in config.mcp.values())
    return found if waiting else [*found, *_valid(config, ensembles, top)]


def _files(config: Config, ensembles: list[Ensemble]) -> Iterator[Finding]:
    for file in config.ensembles:
        try:
            if mistakes := ensemble_mistakes(file)[1]:
                yield from (Finding.of(file.name, error) for error in mistakes)
                continue
            loaded = load_tools(str(file), config.file.absolute().parent if config.file else None)
            yield Finding(what=file.name, tools=len(registered(*loaded)))
            ensembles += loaded
        except HandrailError as error:
            yield Finding.of(file.name, error)


def _standard(config: Config, ensembles: list[Ensemble]) -> Iterator[Finding]:
    for name, (_, make) in standard(config, Around(Person(), DeferAll())).items():
        try:
            ensembles.append(make())
            yield Finding(what=f"standard.{name}", tools=len(ensembles[-1].tools))
        except HandrailError as error:
            yield Finding.of(f"standard.{name}", error)


async def _servers(config: Config, ensembles: list[Ensemble], connect: bool) -> list[Finding]:
    person = person_here(ask=False)
    found: list[Finding] = []
    servers = []
    for name, settings in config.mcp.items():
        what = f"mcp.{name}"
        noted = list(_noticed(config, name, person))
        found += (Finding(what=what, state=state, problem=problem) for state, problem in noted)
        try:
            settings.resolved()
        except ConfigError as error:
            found.append(Finding.of(what, error))
            continue
        if connect and settings.enabled and _may(config, name, person):
            servers.append(make_server(config, name, settings, Around(person, DeferAll())))
        elif not noted:
            found.append(Finding(what=what))
    try:
        await prepare_all(server.ensemble for server in servers)
    except HandrailError as error:
        return [*found, Finding.of("mcp", error)]
    for server in servers:
        found += _connected(f"mcp.{server.name}", server.ensemble)
        ensembles.append(Ensemble(server.name, server.ensemble.tools))  # what it offers, also when it is closed
    await close_all(servers)
    return found


def _may(config: Config, name: str, person: Person) -> bool:
    if config.file is None:
        return True
    return unapproved(person.approvals, config.file, name, config.mcp[name].endpoint) is None


def _noticed(config: Config, name: str, person: Person) -> Iterator[tuple[State, str]]:
    settings = config.mcp[name]
    endpoint = settings.endpoint
    if not settings.enabled:
        yield "warn", "it is switched off (enabled = false)"
        return
    if not _may(config, name, person):
        yield "warn", f"it is not approved; look at it with: handrail mcp approve {name}"
    if isinstance(endpoint, Stdio) and "$" not in endpoint.command and shutil.which(endpoint.command) is None:
        yield "wrong", f"there is no program {endpoint.command!r} here"
    if (warning := unpinned(endpoint)) is not None:
        yield "warn", warning


def _connected(what: str, ensemble: Any) -> Iterator[Finding]:
    if ensemble.problem:
        yield Finding(what=what, state="wrong", problem=ensemble.problem)
        return
    yield Finding(what=what, tools=len(ensemble.tools))
    for tool, why in ensemble.held.items():
        yield Finding(what=what, state="warn", problem=f"{tool} is held back: {why}")


def _together(config: Config, ensembles: Iterable[Ensemble]) -> Iterator[Finding]:
    """Whether all of it can be offered at once."""
    try:
        registered(*ensembles)
    except DuplicateTool as error:
        yield Finding(what="together", state="wrong", problem=f"{error}{prefix_for(error, config)}")
    except HandrailError as error:
        yield Finding.of("together", error)


def _valid(config: Config, ensembles: Iterable[Ensemble], top: Table) -> Iterator[Finding]:
    """Tools that are valid for a model, and that nothing has."""
    names = [name for ensemble in ensembles for tool in ensemble.tools for name in tool.names]
    for model, settings in config.models.items():
        for index, pattern in enumerate(settings.tools or ()):
            if not any(fnmatchcase(name, pattern) for name in names):
                place = top.at("models").at(model, "tools", index)
                yield Finding.of(str(config.file and config.file.name), place.error(f"no tool is called {pattern!r}"))
