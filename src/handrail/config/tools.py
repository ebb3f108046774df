"""Tools by what people write on a command line: a file, a module, or a name in a module."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from handrail.config.powers import is_python, names_python
from handrail.config.values import STANDARD_SET, Config
from handrail.core.errors import UsageError, describe_exception
from handrail.tools.ensemble import Ensemble
from handrail.tools.files.load import load_ensemble, load_tool
from handrail.tools.files.toml_table import read_toml_file
from handrail.tools.registry import RegisteredTools, ToolRegistry
from handrail.tools.tool import Tool

_HOW = "write FILE.toml, FILE.py, MODULE or MODULE:NAME"


def tools_of(config: Config, wanted: Iterable[str] = ()) -> tuple[Any, ...]:
    """What files bring: what is wanted, or else the default set of the configuration. Ensembles stay whole.

    Raises:
        UsageError: Something wanted cannot be found, or tools are switched off.
        ConfigError: A file is wrong.
    """
    wanted = tuple(wanted)
    items = files_of(config, wanted)
    return items if wanted else default_set_of(config, items)


def files_of(config: Config, wanted: Iterable[str] = ()) -> tuple[Any, ...]:
    """What is wanted, or else everything that the ensemble files of the configuration hold.

    Raises:
        UsageError: Something wanted cannot be found, or tools are switched off.
        ConfigError: A file is wrong.
    """
    wanted = tuple(wanted)
    if not config.llm.tools_enabled:
        if wanted:
            raise UsageError(
                f"tools are switched off (llm.tools_enabled in {config.file}); set it to true, or name none"
            )
        return ()
    if wanted:
        return tuple(item for each in wanted for item in load_tools(each))
    if config.file is not None and names_python(config.ensembles):
        put_folder_on_path(config.file.absolute().parent)
    return tuple(load_ensemble(path) for path in config.ensembles)


def default_set_of(
    config: Config, ensembles: tuple[Ensemble, ...], missing: Callable[[str], None] | None = None
) -> tuple[Any, ...]:
    """The tools of the default set; all of them if nobody chose one.

    Raises:
        UsageError: A tool of the set is in none of them, and nobody is told that it is `missing`.
    """
    if config.llm.tools_default_set == STANDARD_SET or not config.llm.tools_enabled:
        return ensembles
    there = {name: tool for ensemble in ensembles for tool in ensemble.tools for name in (tool.scoped_name, tool.name)}
    for name in config.llm.tools_default_set:
        if name not in there and name not in STANDARD_SET:
            near = difflib.get_close_matches(name, there, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(there) or 'none'}"
            told = f"{config.file}: llm.tools_default_set: no tool {name!r} in the ensembles; {hint}"
            if missing is None:
                raise UsageError(told)
            missing(told)
    return tuple(
        {there[name].scoped_name: there[name] for name in config.llm.tools_default_set if name in there}.values()
    )


def load_tools(written: str, folder: Path | None = None) -> tuple[Any, ...]:
    """The tools and ensembles that one word of a command line means.

    The folder that a person stands in is put on the path only for a module that is found nowhere else: a file in it
    could pose as any module.

    Raises:
        UsageError: There is nothing of that name, or it is no tool.
    """
    here, path = folder or Path.cwd(), Path(written)
    match path.suffix:
        case ".toml":
            is_ensemble = "ensemble" in read_toml_file(path)
            if names_python((path,)) if is_ensemble else is_python(path):
                put_folder_on_path(here)
            return (load_ensemble(path) if is_ensemble else load_tool(path),)
        case ".py":
            return _tools_in(_module_of(path), written)
    module, _, name = written.partition(":")
    if not _is_found(module.partition(".")[0]):
        put_folder_on_path(here)
    found = _imported(module, written)
    if not name:
        return _tools_in(found, written)
    try:
        return tuple(_flat(reduce(getattr, name.split("."), found), written))
    except AttributeError as error:
        near = difflib.get_close_matches(name, vars(found), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"--tools {written}: {module!r} has no {name!r}{hint}") from error


def _is_found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def put_folder_on_path(folder: Path) -> None:
    """Put a folder first on the path, however this program was started."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _module_of(path: Path) -> ModuleType:
    """A file as a module of its own name, so that worker processes find it too."""
    if not path.is_file():
        raise UsageError(f"--tools {path}: there is no such file")
    path = path.resolve()
    if not path.stem.isidentifier():
        raise UsageError(f"--tools {path.name}: {path.stem!r} is not a name for a module; use letters, digits and _")
    put_folder_on_path(path.parent)
    module = _imported(path.stem, str(path))
    if Path(module.__file__ or "").resolve() != path:
        raise UsageError(f"--tools {path.name}: another module is called {path.stem!r}; rename the file")
    return module


def _imported(module: str, written: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise UsageError(f"--tools {written}: cannot import {module!r}: {describe_exception(error)}") from error
        raise UsageError(f"--tools {written}: there is no module {module!r}; {_HOW}") from error
    except Exception as error:
        raise UsageError(f"--tools {written}: cannot import {module!r}: {describe_exception(error)}") from error


def _tools_in(module: ModuleType, written: str) -> tuple[Any, ...]:
    """What a module calls `tools`; else every tool and ensemble at its top level."""
    if "tools" in vars(module):
        return tuple(_flat(module.tools, written))
    found = {id(value): value for value in vars(module).values() if isinstance(value, Tool | Ensemble)}
    if not found:
        raise UsageError(f"--tools {written}: no tool there; decorate functions with @tool, or name one: MODULE:NAME")
    return tuple(found.values())


def _flat(value: Any, written: str) -> Iterator[Any]:
    match value:
        case Tool() | Ensemble():
            yield value
        case RegisteredTools():
            yield from value
        case ToolRegistry():
            yield from value.freeze()
        case list() | tuple():
            for item in value:
                yield from _flat(item, written)
        case _ if callable(value):
            yield Tool.from_function(value)
        case _:
            raise UsageError(f"--tools {written}: {type(value).__name__} is not a tool; {_HOW}")
