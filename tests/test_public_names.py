"""The public surface is `handrail` and `handrail.<one word>`. What `public_names.txt` does not list may move."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

from tests.public_surface import public_modules, public_names

ROOT = Path(__file__).parents[1]
LISTED = Path(__file__).with_name("public_names.txt")


def test_the_public_names_are_those_of_the_list() -> None:
    found = [f"{module}.{name}" for module in public_modules() for name in public_names(module)]

    assert found == LISTED.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("module", public_modules())
def test_every_public_name_can_be_imported_from_its_module(module: str) -> None:
    found = importlib.import_module(module)

    assert [name for name in public_names(module) if not hasattr(found, name)] == []
    assert set(dir(found)) >= set(public_names(module))


@pytest.mark.parametrize("module", public_modules())
def test_every_public_class_and_function_says_what_it_is(module: str) -> None:
    found = {name: getattr(importlib.import_module(module), name) for name in public_names(module)}
    ours = {name: each for name, each in found.items() if isinstance(each, type | FunctionType)}

    # Structs and dataclasses without a docstring have one that only repeats their fields, and classes inherit one.
    said = {name: each.__dict__.get("__doc__") or "" for name, each in ours.items() if isinstance(each, type)}
    said |= {name: each.__doc__ or "" for name, each in ours.items() if isinstance(each, FunctionType)}
    assert [name for name, words in said.items() if not words or words.startswith(f"{name}(")] == []


@pytest.mark.parametrize("module", public_modules())
def test_a_type_checker_sees_the_same_names(module: str) -> None:
    path = importlib.import_module(module).__file__
    assert path is not None
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))

    seen = {name for node in tree.body for name in _bound(node)}

    assert set(public_names(module)) <= seen


def test_no_public_name_hides_a_module_of_the_same_name() -> None:
    hidden = [
        f"{module}.{name}"
        for module in public_modules()
        if hasattr(importlib.import_module(module), "__path__")
        for name in public_names(module)
        if name in {each.name for each in pkgutil.iter_modules(importlib.import_module(module).__path__)}
    ]

    assert hidden == []


def test_importing_a_public_module_by_itself_works() -> None:
    code = "import importlib, sys; [getattr(importlib.import_module(m), n) for m, n in [sys.argv[1].rsplit('.', 1)]]"
    for module in public_modules()[1:]:
        name = f"{module}.{public_names(module)[0]}"
        subprocess.run([sys.executable, "-c", code, name], check=True, capture_output=True, text=True)


def test_the_docs_import_nothing_deeper() -> None:
    deep = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in _pages()
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(r"\s*(from|import) handrail(\.\w+){2,}", line)
    ]

    assert deep == []


def _pages() -> Iterator[Path]:
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.py"))


def _bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.ImportFrom(names=names):
            yield from (alias.asname or alias.name for alias in names)
        case ast.If(body=body):
            yield from (name for inner in body for name in _bound(inner))
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case _:
            pass
