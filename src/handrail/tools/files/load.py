"""Ensembles and tools from TOML files.

An ensemble file has `[ensemble]`, `[defaults]` and `[[invokers]]`; an invoker file
has `[invoker]` and `[arguments]`. Whatever is wrong is a `ConfigError` with file, key and line.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from handrail.core.errors import UsageError
from handrail.tools.ensemble import Ensemble, ToolDefaults
from handrail.tools.files.build import (
    NO_HANDLERS,
    Handlers,
    defaults_in_table,
    flat_descriptor,
    make_tool,
    tool_name_in,
)
from handrail.tools.files.toml_table import TomlKeyPath, TomlTable, read_toml_file
from handrail.tools.files.tool_bodies import Resolve, import_function
from handrail.tools.tool import Tool

_TOP = ("ensemble", "defaults", "invokers")


def load_tool(path: Path, *, handlers: Handlers = NO_HANDLERS) -> Tool:
    """The tool of one invoker file.

    Raises:
        ConfigError: The file cannot be read, or something in it is wrong.
    """
    return read_tool(read_toml_file(Path(path)), handlers)


def read_tool(top: TomlTable, handlers: Handlers = NO_HANDLERS, resolve: Resolve = import_function) -> Tool:
    """The tool that the table of an invoker file describes.

    Raises:
        ConfigError: Something is wrong.
    """
    return make_tool(flat_descriptor(top), handlers, resolve)


def load_ensemble(path: Path, *, handlers: Handlers = NO_HANDLERS) -> Ensemble:
    """The ensemble of one file with all its tools; a disabled one is loaded, and disabled.

    `handlers` do the work of tools that have no body of their own.

    Raises:
        ConfigError: A file cannot be read, or something in it is wrong.
        UsageError: A handler is for no tool of the ensemble.
    """
    ensemble, _ = _loaded(Path(path), handlers)
    _refuse_idle(handlers, [ensemble], str(path))
    return ensemble


def load_ensembles(folder: Path, *, handlers: Handlers = NO_HANDLERS) -> tuple[Ensemble, ...]:
    """The ensembles of all `*.toml` directly in a folder, in the order of their file names.

    Raises:
        ConfigError: As `load_ensemble`; or there is no such folder, or two ensembles have one name.
        UsageError: A handler is for no tool of any of them.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise TomlKeyPath(str(folder)).error("is not a folder")
    ensembles: dict[str, Ensemble] = {}
    places: dict[str, TomlKeyPath] = {}
    for file in sorted(folder.glob("*.toml")):
        ensemble, place = _loaded(file, handlers)
        if ensemble.name in ensembles:
            raise place.error(f"{ensemble.name!r} is already an ensemble, at {places[ensemble.name]}; rename one")
        ensembles[ensemble.name], places[ensemble.name] = ensemble, place
    _refuse_idle(handlers, ensembles.values(), str(folder))
    return tuple(ensembles.values())


def _loaded(path: Path, handlers: Handlers) -> tuple[Ensemble, TomlKeyPath]:
    return read_ensemble(read_toml_file(path), path.parent, handlers)


def read_ensemble(
    top: TomlTable, folder: Path, handlers: Handlers = NO_HANDLERS, resolve: Resolve = import_function
) -> tuple[Ensemble, TomlKeyPath]:
    """The ensemble that the table of a file describes, and where its name stands.

    Raises:
        ConfigError: Something is wrong, there or in a file that it names.
    """
    ensemble, place = _empty(top.only(_TOP))
    places: dict[str, TomlKeyPath] = {}
    for entry in _entries(top):
        described = _described(entry, folder)
        name = tool_name_in(described)
        if name in places:
            raise described.error("name", f"{name!r} is already a tool of this ensemble, at {places[name]}; rename one")
        places[name] = described.at("name")
        ensemble.register(make_tool(described, handlers, resolve))
        if described.flag("enabled") is False:
            ensemble.disable(name)
    return ensemble, place


def _empty(top: TomlTable) -> tuple[Ensemble, TomlKeyPath]:
    facts = top.table("ensemble")
    if facts is None:
        raise top.place.error("needs a table [ensemble] with a name")
    facts.only(("name", "enabled", "enable"))
    name = facts.text("name")
    if not name:
        raise facts.place.error("an ensemble needs a name")
    if "enabled" in facts and "enable" in facts:
        raise facts.error("enable", "is the older spelling of 'enabled', which is given too; keep 'enabled'")
    table = top.table("defaults")
    defaults = ToolDefaults() if table is None else defaults_in_table(table)
    enabled = False not in (facts.flag("enabled"), facts.flag("enable"))
    try:
        ensemble = Ensemble(name, enabled=enabled, defaults=defaults)
    except UsageError as error:
        raise facts.error("name", str(error)) from error
    return ensemble, facts.at("name")


def _entries(top: TomlTable) -> list[TomlTable]:
    entries = top.values.get("invokers", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise top.error("invokers", "must be a list of tables; write [[invokers]] above each")
    return [TomlTable(entry, top.at("invokers").at(index)) for index, entry in enumerate(entries)]


def _described(entry: TomlTable, folder: Path) -> TomlTable:
    """An entry as a descriptor: itself, or the file that it names with the entry's own keys over it."""
    source = entry.text("source")
    if source is None:
        return entry
    return entry.without("source").over(flat_descriptor(read_toml_file(_within(folder, source, entry))))


def _within(folder: Path, source: str, entry: TomlTable) -> Path:
    path = folder / source
    if "\0" in source or not path.resolve().is_relative_to(folder.resolve()):
        raise entry.error("source", f"{source!r} leads out of the folder of this file; keep its tools inside it")
    if not path.is_file():
        raise entry.error("source", f"there is no file {str(path)!r}")
    return path


def _refuse_idle(handlers: Handlers, ensembles: Iterable[Ensemble], where: str) -> None:
    """A handler that no tool takes is a name misspelt on one side."""
    known = {name for ensemble in ensembles for name in ensemble.all_tools}
    if idle := sorted(set(handlers) - known):
        raise UsageError(
            f"handlers has {', '.join(map(repr, idle))}, but {where} has no tool of that name; it has "
            f"{', '.join(sorted(known)) or 'none'}"
        )
