"""Python that tool files name, looked up in its source text. Nothing is imported, so nothing of it runs.

It finds out that a module or a function is not there, and which arguments a function takes. What only running
the module would show, such as the types of its arguments, is left to whoever imports it.
"""

from __future__ import annotations

import ast
import importlib.machinery
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from handrail.core.errors import UsageError
from handrail.core.invocation import Invocation
from handrail.tools.definition import ToolDefinition
from handrail.tools.files.toml_table import TomlTable
from handrail.tools.tool import Tool

REFERENCE = re.compile(r"(?P<module>\w+(?:\.\w+)*):(?P<attribute>\w+(?:\.\w+)*)")
SUFFIXES = tuple(importlib.machinery.all_suffixes())
SOURCE = ".py"
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class StaticPython:
    """Gives a tool for each reference of a tool file: with its name and arguments, and without its function."""

    def __init__(self, *folders: Path) -> None:
        self._folders = folders
        """Where modules are looked for, before those that are installed."""

    def __call__(self, table: TomlTable) -> Tool:
        """Makes the tool that a table's reference names, without importing its module.

        Raises:
            ConfigError: The reference is none, or its module or function is not there.
        """
        match = reference_of(table)
        found = source_files_of(match["module"], self._folders)
        if not found:
            outermost = match["module"].partition(".")[0]
            if source_files_of(outermost, self._folders) or not is_installed(outermost):
                raise table.error("python", f"cannot import {match['module']!r}: there is no such module")
            return _placeholder(None)
        file = found[-1]
        if file.suffix != SOURCE:
            return _placeholder(None)
        try:
            tree = ast.parse(file.read_bytes(), str(file))
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            raise table.error("python", f"cannot import {match['module']!r}: {error}") from error
        name = match["attribute"].partition(".")[0]
        names = _names(tree)
        if names is not None and name not in names and not source_files_of(f"{match['module']}.{name}", self._folders):
            raise table.error("python", f"{match['module']!r} has no {match['attribute']!r}")
        return _placeholder(next((each for each in _functions(tree) if each.name == match["attribute"]), None))


def reference_of(table: TomlTable) -> re.Match[str]:
    """The module and the function that a tool file names.

    Raises:
        ConfigError: It does not name them as `module:function`.
    """
    reference = table.text("python") or ""
    match = REFERENCE.fullmatch(reference)
    if match is None:
        raise table.error("python", f"must be 'module:function', as in 'mytools.files:read_file', not {reference!r}")
    return match


def source_files_of(module: str, folders: tuple[Path, ...]) -> list[Path]:
    """The files that importing this module runs, if the first folder that has it is one of these: its packages, from
    the outside in, and itself. Empty if none of them has it."""
    *packages, last = module.split(".")
    for folder in folders:
        own = files_of_module(folder.joinpath(*packages, last))
        if own:
            above = (folder.joinpath(*packages[: depth + 1]) for depth in range(len(packages)))
            return [*(file for package in above for file in files_of_module(package)), *own]
    return []


def files_of_module(place: Path) -> list[Path]:
    """The files that are the module at a place, which is its path without a suffix; of a package its `__init__`."""
    named = (file for end in SUFFIXES for file in (place / f"__init__{end}", place.with_name(f"{place.name}{end}")))
    return [file for file in named if _is_file(file)]


def is_installed(name: str) -> bool:
    """Whether a top-level module can be found on the path, without importing it."""
    if name in sys.modules or name in sys.stdlib_module_names:
        return True
    return importlib.machinery.PathFinder.find_spec(name) is not None


def tools_in_source(file: Path) -> int:
    """The number of functions of a Python file that its decorators make tools, as far as its text shows.

    Raises:
        UsageError: It is no Python, or imports a module that is not there.
    """
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{file}: cannot be read as Python: {error}") from error
    for module in _imported_first(tree):
        name = module.partition(".")[0]
        if not (file.parent / name).is_dir() and not source_files_of(name, (file.parent,)) and not is_installed(name):
            raise UsageError(f"{file}: No module named {module!r}")
    return sum(any(_is_tool(each) for each in function.decorator_list) for function in _functions(tree))


def _imported_first(tree: ast.Module) -> Iterator[str]:
    """The modules that are imported by statements that always run."""
    for node in tree.body:
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module


def _is_tool(decorator: ast.expr) -> bool:
    match decorator:
        case ast.Call(func=function):
            return _is_tool(function)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == "tool"
    return False


def _functions(tree: ast.Module) -> list[_Function]:
    return [node for node in tree.body if isinstance(node, _Function)]


def _names(tree: ast.Module) -> set[str] | None:
    """What a module may define at its top level; None if its text does not say."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
                continue
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {each.asname or each.name.partition(".")[0] for each in names}
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Call(func=ast.Name(id="globals" | "setattr" | "vars")):
                return None
        waiting += ast.iter_child_nodes(node)
    return None if found & {"*", "__getattr__"} else found


def _placeholder(function: _Function | None) -> Tool:
    """A tool that stands for a function that was not imported. It takes the arguments that the text shows."""
    properties: dict[str, Any] = {}
    if function is not None:
        arguments = function.args
        named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        properties = {each.arg: {} for each in named}
    schema = {"type": "object", "properties": properties}
    handler = _not_imported if isinstance(function, ast.FunctionDef) else _not_imported_async
    return Tool(ToolDefinition("unnamed", "", schema), handler, style="context")


def _not_imported(context: Invocation, arguments: Mapping[str, Any]) -> Any:
    raise UsageError("this tool was only looked at; load its file to call it")


async def _not_imported_async(context: Invocation, arguments: Mapping[str, Any]) -> Any:
    return _not_imported(context, arguments)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
