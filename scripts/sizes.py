"""Prints what a reviewer should look at: large files, long functions and signatures, shared names, forwarding files.

It informs and limits nothing: whether a file holds a second idea is a question for a person.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src"
SHOWN = 5

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FORWARDING = (ast.Import, ast.ImportFrom, ast.Expr)


def main() -> None:
    modules = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
    functions = [(f"{name}:{node.name}", node) for name, tree in modules.items() for node in _functions(tree)]
    classes = Counter(name for tree in modules.values() for name in _public_classes(tree))
    shared = {name: count for name, count in classes.items() if count > 1}
    forwarding = [name for name, tree in modules.items() if _only_forwards(tree)]
    print("largest files:     ", _top((name, _lines(name)) for name in modules))
    print(
        "longest functions: ",
        _top((name, (node.end_lineno or node.lineno) - node.lineno + 1) for name, node in functions),
    )
    print("longest signatures:", _top((name, _parameters(node)) for name, node in functions))
    print(f"shared class names: {len(shared)} names of {sum(shared.values())} classes: {_top(shared.items())}")
    print(f"forwarding files:   {len(forwarding)}")
    print(f"in-function imports: {sum(_imports_inside(node) for _, node in functions)}")


def _functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def _public_classes(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))


def _only_forwards(tree: ast.Module) -> bool:
    """Whether a module holds imports and nothing of its own, other than a docstring and `__all__`."""
    own = [node for node in tree.body if not isinstance(node, _FORWARDING) and not _is_all(node)]
    return not own and any(isinstance(node, ast.ImportFrom) and node.module != "__future__" for node in tree.body)


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def _lines(name: str) -> int:
    return (ROOT / name).read_text().count("\n")


def _parameters(node: Function) -> int:
    named = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in named)


def _imports_inside(node: Function) -> int:
    return sum(isinstance(statement, ast.Import | ast.ImportFrom) for statement in node.body)


def _top(sizes: Iterable[tuple[str, int]]) -> str:
    largest = sorted(sizes, key=lambda pair: pair[1], reverse=True)[:SHOWN]
    return ", ".join(f"{name} {size}" for name, size in largest)


if __name__ == "__main__":
    main()
