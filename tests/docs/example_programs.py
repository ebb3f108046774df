"""The examples of the docs as files that type checkers read: the blocks of a page are one program.

Each line keeps its number, so that what a checker says of a program is true of its page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.docs.pages import ROOT, Page, pages

PACKAGE = "examples"
PEERS = re.compile(r"^(?:from|import) (?:agents|langchain|langgraph|pydantic_ai)\b", re.MULTILINE)
"""What a program of another framework imports: it is installed elsewhere."""
SESSION = "page.py"
"""The program of a page's blocks that are not files."""

_TOP_LEVEL = '''\
"""What waits outside of an async function, as the blocks of a page may, in the types that it has inside of one."""

from collections.abc import AsyncIterable, Awaitable, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TypeVar

T = TypeVar("T")
Swallows = TypeVar("Swallows", bool, None, bool | None)


def awaited(awaitable: Awaitable[T]) -> T:
    raise NotImplementedError


def entered(manager: AbstractAsyncContextManager[T, Swallows]) -> AbstractContextManager[T, Swallows]:
    raise NotImplementedError


def iterated(items: AsyncIterable[T]) -> Iterable[T]:
    raise NotImplementedError
'''
_IMPORT_TOP_LEVEL = f"from {PACKAGE} import top_level"
_MAY_REDEFINE = "# mypy: allow-redefinition"
"""A name may stand for something else in a later block, as in any session of Python."""


@dataclass(frozen=True, slots=True)
class Program:
    source: str
    """Where it stands, relative to the project: a page or a file."""
    path: PurePosixPath
    """Where checkers find it, in the folder of all programs."""
    text: str


def programs_of_docs() -> Iterator[Program]:
    """Every example of README.md and docs/ that is written with handrail."""
    for page in pages():
        yield from programs_of(page)
    for folder in sorted({path.parent for path in (ROOT / "docs" / "examples").rglob("*.py")}):
        files = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))}
        for name, text in files.items():
            source = (folder / name).relative_to(ROOT).as_posix()
            if PEERS.search(text) is None:
                yield Program(source, _home(source) / name, _in_package(text, _home(source), files))


def programs_of(page: Page) -> Iterator[Program]:
    """The files that a page shows, and everything else on it as one program."""
    home = _home(page.name)
    blocks = [block for block in page.blocks if block.language == "python" and block.not_run is None]
    files = {block.file: block.text for block in blocks if block.file is not None}
    lines: list[str] = []
    for block in blocks:
        above = "\n" * (block.line - 1)
        if block.file is None:
            text = _in_package(_without_top_level_waits(block.text), home, files)
            lines += [""] * (block.line - 1 - len(lines)) + text.splitlines()
        elif PEERS.search(block.text) is None:
            yield Program(page.name, home / block.file, above + _in_package(block.text, home, files))
    if lines:
        assert not any(lines[:2]), f"{page.name}: its first block has to begin at line 3 or later"
        lines[:2] = [_MAY_REDEFINE, _IMPORT_TOP_LEVEL if any("top_level." in line for line in lines) else ""]
        yield Program(page.name, home / SESSION, "\n".join(lines) + "\n")


def write(programs: list[Program], folder: Path) -> None:
    """Write the programs as packages of one package, which `folder` holds."""
    for program in [*programs, Program("", PurePosixPath("top_level.py"), _TOP_LEVEL)]:
        path = folder / PACKAGE / program.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(program.text, encoding="utf-8")


def _home(source: str) -> PurePosixPath:
    """The folder of a page, or of the programs of a folder, as a package's name."""
    name = source.removesuffix(".md") if source.endswith(".md") else source.rpartition("/")[0]
    return PurePosixPath(re.sub(r"\W", "_", name.lower()))


def _in_package(text: str, home: PurePosixPath, files: Mapping[str, str]) -> str:
    """The text with the imports of its neighbours by their full names: another page may have a file of that name."""
    for name in {file.removesuffix(".py") for file in files}:
        text = re.sub(rf"^( *)from {name} import ", rf"\1from {PACKAGE}.{home}.{name} import ", text, flags=re.M)
        text = re.sub(rf"^( *)import {name}$", rf"\1import {PACKAGE}.{home}.{name} as {name}", text, flags=re.M)
    return text


def _without_top_level_waits(text: str) -> str:
    """The text with calls in place of `await`, `async with` and `async for` outside of functions, in the same lines."""
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    edits = sorted(_waits(compile(text, "<block>", "exec", flags, dont_inherit=True)), key=lambda edit: edit[:2])
    lines = [line.encode() for line in text.splitlines()]
    # From the end, so that places stay true; of two at one place the inner one first.
    for line, column, length, new in reversed(edits):
        old = lines[line - 1]
        lines[line - 1] = old[:column] + new.encode() + old[column + length :]
    return "".join(line.decode() + "\n" for line in lines)


def _waits(node: ast.AST) -> Iterator[tuple[int, int, int, str]]:
    """What to put where: line, column in bytes, how many bytes it replaces, and the text; outer places first."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
            case ast.Await():
                yield child.lineno, child.col_offset, len("await "), "top_level.awaited("
                yield _end(child)
            case ast.AsyncWith(items=items):
                yield child.lineno, child.col_offset, len("async "), ""
                for item in items:
                    yield from _called("entered", item.context_expr)
            case ast.AsyncFor(iter=items):
                yield child.lineno, child.col_offset, len("async "), ""
                yield from _called("iterated", items)
            case _:
                pass
        yield from _waits(child)


def _called(function: str, argument: ast.expr) -> Iterator[tuple[int, int, int, str]]:
    yield argument.lineno, argument.col_offset, 0, f"top_level.{function}("
    yield _end(argument)


def _end(node: ast.expr) -> tuple[int, int, int, str]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset, 0, ")"
