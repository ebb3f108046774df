"""The Python files of a folder that importing certain modules would run. Nothing is imported to find them.

They are the modules themselves, the packages they lie in, and whatever these import from the same
folder. A file that has the name of an installed module counts too: with the folder first on
the path, it would be imported in the place of that module.
"""

from __future__ import annotations

import ast
import importlib.machinery
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from handrail.tools.files.static_python import SOURCE, SUFFIXES, files_of_module

MOST = 5_000
"""Files that are looked at. A project that imports more from one folder is bound by these."""
OPTIONAL = (
    *("botocore", "handrail_local", "joserfc", "mcp", "nats", "opentelemetry", "pydantic_monty", "pyseccomp"),
    *("starlette", "textual", "uvicorn", "wordllama", "xllamacpp"),
)
"""Modules that handrail imports where they are installed."""
AT_START = ("sitecustomize", "usercustomize")
"""Modules that every Python imports when it starts, those included that this one starts with its own path."""


def python_files(folder: Path, modules: Iterable[str]) -> tuple[Path, ...]:
    """The files beneath `folder` that importing these modules would run, with the folder first on the path."""
    found: dict[Path, None] = {}
    waiting = [file for name in (*modules, *_shadowing(folder)) for file in _located(folder, name)]
    while waiting and len(found) < MOST:
        file = waiting.pop()
        if file in found:
            continue
        found[file] = None
        waiting += _compiled(file)
        waiting += (each for name in _imports(folder, file) for each in _located(folder, name))
    return tuple(sorted(found))


def _shadowing(folder: Path) -> Iterator[str]:
    """Modules of the folder whose names other modules have, which they would stand in for."""
    elsewhere = [path for path in sys.path if path and Path(path) != folder]
    for name in sorted(_top_level(folder)):
        if (
            name in sys.stdlib_module_names
            or name in (*OPTIONAL, *AT_START)
            or importlib.machinery.PathFinder.find_spec(name, elsewhere) is not None
        ):
            yield name


def _top_level(folder: Path) -> set[str]:
    try:
        entries = list(folder.iterdir())
    except OSError:
        return set()
    files = {entry.name.partition(".")[0] for entry in entries if entry.name.endswith(SUFFIXES)}
    packages = {entry.name for entry in entries if any((entry / f"__init__{end}").is_file() for end in SUFFIXES)}
    return {name for name in files | packages if name.isidentifier()}


def _located(folder: Path, module: str) -> list[Path]:
    """The files that importing this module of the folder runs. Its packages are run also where itself is missing."""
    steps = module.split(".")
    places = (folder.joinpath(*steps[: depth + 1]) for depth in range(len(steps)))
    return [file for place in places for file in files_of_module(place)]


def _compiled(file: Path) -> Iterator[Path]:
    """Compiled forms of a source file that Python runs without a look at the source (PEP 552)."""
    if file.suffix != SOURCE:
        return
    for cached in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        try:
            with cached.open("rb") as opened:
                flags = int.from_bytes(opened.read(8)[4:], "little")
        except OSError:
            continue
        if flags & 0b11 == 0b01:
            yield cached


def _imports(folder: Path, file: Path) -> Iterator[str]:
    """The modules that a source file may import, by whole names; those of other folders are among them."""
    if file.suffix != SOURCE:
        return
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return  # what cannot be read cannot be run; the file is bound all the same
    package = file.relative_to(folder).parent.parts
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package[: len(package) - level + 1] if level else ()
                base = ".".join((*above, *((module,) if module else ())))
                if base:
                    yield base
                yield from (".".join(filter(None, (base, each.name))) for each in names if each.name != "*")
