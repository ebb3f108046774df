"""The code blocks of the five documents, and ways to run them as they stand.

`samples/` has the blocks of each document in its order. A test says by `Coverage.runs(number)` which it runs; the rest
is listed with the reason, and `Coverage.missing` compares both with the document.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

FOLDER = Path(__file__).parent / "samples"
F = TypeVar("F", bound=Callable[..., Any])
_BLOCK = re.compile(r"^```(\w*)\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Coverage:
    """Which blocks of a document are run, and which cannot be."""

    document: str
    listed: Mapping[int, str]
    """By the number of the block: why it cannot run."""
    run: set[int] = field(default_factory=set)

    @property
    def blocks(self) -> list[str]:
        return [code for _, code in _BLOCK.findall((FOLDER / f"{self.document}.md").read_text())]

    def runs(self, *numbers: int) -> Callable[[F], F]:
        """Says of a test that it runs these blocks."""
        self.run.update(numbers)
        return lambda test: test

    def code(self, number: int) -> str:
        return self.blocks[number - 1]

    def problems(self) -> list[str]:
        """Blocks that are neither run nor listed, or both, or that the document does not have."""
        known = set(range(1, len(self.blocks) + 1))
        return [
            *(f"block {number} is neither run nor listed" for number in sorted(known - self.run - self.listed.keys())),
            *(f"block {number} is run and listed" for number in sorted(self.run & self.listed.keys())),
            *(f"there is no block {number}" for number in sorted((self.run | self.listed.keys()) - known)),
            *(f"block {number} has no reason" for number, why in self.listed.items() if len(why) < 20),
        ]


def names_of(module: ModuleType) -> dict[str, Any]:
    """What `from module import *` gives: the one import line that a sample gets."""
    return {name: getattr(module, name) for name in module.__all__}


async def run(code: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Run a block, with `await` at its top level if it has some; what it defined."""
    namespace: dict[str, Any] = {"__name__": "sample", **given}
    compiled = compile(code, "sample", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if (pending := eval(compiled, namespace)) is not None:
        await pending
    return namespace


def values_in(code: str, given: Mapping[str, Any]) -> list[Any]:
    """The values of a block that is only expressions."""
    namespace = dict(given)
    statements = ast.parse(code).body
    assert all(isinstance(each, ast.Expr) for each in statements)
    return [eval(ast.unparse(each), namespace) for each in statements]


def not_offered(code: str, module: ModuleType) -> list[str]:
    """Classes, fields, methods, functions and parameters of a listing that a module does not have."""
    found: list[str] = []
    for node in ast.parse(code).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                ours = getattr(module, name, None)
                found += [name] if ours is None else _lacks(node, ours)
    return found


def _lacks(node: Any, ours: Any) -> list[str]:
    if not isinstance(node, ast.ClassDef):
        return lacking_parameters(node, ours)
    found: list[str] = []
    parameters = inspect.signature(ours).parameters
    for part in node.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name)):
                found += [] if name in parameters or hasattr(ours, name) else [f"{node.name}.{name}"]
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                method = getattr(ours, part.name, None)
                is_property = isinstance(inspect.getattr_static(ours, part.name, None), property)
                missing = [] if is_property else lacking_parameters(part, method) if method else [part.name]
                found += [f"{node.name}.{each}" for each in missing]
    return found


def lacking_parameters(node: Any, ours: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(ours).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return []
    asked = [*node.args.args, *node.args.kwonlyargs]
    return [f"{node.name}({each.arg})" for each in asked if each.arg not in ("self", "cls", *parameters)]
