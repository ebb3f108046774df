"""What a tool in the sandbox can see: Python, installed packages, handrail, its own code, and what it names.

Everything is read-only and at its own path. The rest of the machine is not hidden,
it is not there: no home, no configuration, no record, no environment.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from handrail.core import version
from handrail.core.errors import InvalidDefinition
from handrail.execute.isolation.handler_target import HandlerTarget, target_of
from handrail.tools.sandbox_access import SandboxAccess
from handrail.tools.tool import Tool

_PACKAGES = ("site-packages", "dist-packages")
_PRIVATE = ("handrail.toml", ".handrail", ".git", ".env")
"""What no folder of code may hold that a sandboxed tool is shown."""


@dataclass(frozen=True, slots=True)
class SandboxView:
    readable: tuple[Path, ...]
    path: tuple[str, ...]
    """The module search path: the host's, without what the sandbox cannot see."""
    directory: str | None
    """The working directory: the host's, if the sandbox may read something there; else the jail's own."""


def sandbox_view_of(tool: Tool) -> SandboxView:
    """What a sandboxed tool may see.

    Raises:
        InvalidDefinition: The handler cannot be imported by name, its code lies where something private is, or
            something that it names is not there.
    """
    target = target_of(tool)
    named = (tool.sandbox or SandboxAccess()).paths
    code = (*_code(tool, target), Path(version.__file__).parents[1])
    for shown in (*named, *map(_there, code)):
        if not shown.exists():
            raise _refused(tool, f"it may read {str(shown)!r}, which is not there")
    packages = [Path(entry) for entry in sys.path if Path(entry).name in _PACKAGES and os.path.isdir(entry)]
    readable = _outermost((*packages, *map(_there, code), *named))
    library = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    here = _here()
    # What an editable install has taught this process to find, it finds in its folder: there are no such lessons there.
    path = dict.fromkeys((*_import_path(here), *(str(each.parent) for each in code)))
    return SandboxView(
        readable,
        tuple(entry for entry in path if _meets(Path(entry), {*readable, *library})),
        str(here) if here is not None and _meets(here, named) else None,
    )


def _here() -> Path | None:
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None  # it was removed


def _import_path(here: Path | None) -> Iterator[str]:
    for entry in sys.path:
        if os.path.isabs(entry) or here is not None:
            yield os.path.abspath(entry)


def _there(path: Path) -> Path:
    """The path itself, or the archive that it lies in."""
    return path if path.exists() else next((each for each in path.parents if each.is_file()), path)


def _code(tool: Tool, target: HandlerTarget) -> tuple[Path, ...]:
    """The file of a module that stands alone, or the whole package that it is part of."""
    if target.file is not None:
        return (Path(target.file),)
    try:
        spec = importlib.util.find_spec(target.module.partition(".")[0])
    except ValueError:
        spec = None  # a module that was made and not imported; the worker will say so
    if spec is None or spec.submodule_search_locations is None:
        origin = None if spec is None or not spec.has_location else spec.origin
        return () if origin is None else (Path(os.path.abspath(origin)),)
    folders = tuple(Path(os.path.abspath(folder)) for folder in spec.submodule_search_locations)
    for folder in folders:
        _check_private(tool, folder)
    return folders


def _check_private(tool: Tool, folder: Path) -> None:
    if Path(os.path.expanduser("~")).is_relative_to(folder):  # a user that nobody has named has no home
        raise _refused(tool, f"its package {str(folder)!r} holds the home directory; put the tool in another package")
    for name in _PRIVATE:
        if (folder / name).exists():
            raise _refused(tool, f"its package {str(folder)!r} holds {name!r}; put the tool in another package")


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The paths, each once, without those that lie in another."""
    kept: list[Path] = []
    for path in sorted(set(paths)):
        if not any(path.is_relative_to(above) for above in kept):
            kept.append(path)
    return tuple(kept)


def _meets(path: Path, shown: Iterable[Path]) -> bool:
    """Whether any part of this path is visible to the tool."""
    return any(path.is_relative_to(each) or each.is_relative_to(path) for each in shown)


def _refused(tool: Tool, why: str) -> InvalidDefinition:
    return InvalidDefinition(f"{tool.name!r} cannot run in the sandbox: {why}")
