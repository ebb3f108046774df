"""Runs the examples of a page as a reader would: top to bottom, in one session, in a folder of their own."""

from __future__ import annotations

import ast
import asyncio
import inspect
import io
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.console_runner import terminal_of
from tests.docs.pages import ROOT, Block, Page, matches

MODULE = "page"
COMMANDS = ("python docs/examples/", "python3 bundle/")
"""What a shell block may begin with to be run; others only show how to type something."""


def run_page(page: Page, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Fail with the page and the line if a block does not run, or prints something else than the page shows."""
    patch.chdir(folder)
    patch.syspath_prepend(folder)
    patch.delenv("CI", raising=False)  # the reader sits at their own machine: a page may record a cassette
    session = ModuleType(MODULE)
    patch.setitem(sys.modules, MODULE, session)
    with _modules_restored(), terminal_of(page, folder) as terminal, asyncio.Runner() as runner:
        for block, after in zip_longest(page.blocks, page.blocks[1:]):
            here = block if terminal is None else replace(block, text=terminal.here(block.text))
            if block.not_run is not None:
                continue
            if block.file is not None:
                # JSON has no comments: the line that names the file is no part of it.
                _write(folder / block.file, here.text.partition("\n")[2] if block.language == "json" else here.text)
            elif block.language == "python":
                _compare(page, block, after, _run(page, here, session, runner))
            elif block.language == "console" and terminal is not None:
                terminal.type(block)
            elif block.language == "sh" and block.text.startswith(COMMANDS):
                _compare(page, block, after, _command(block.text))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _run(page: Page, block: Block, session: ModuleType, runner: asyncio.Runner) -> str:
    """What a block prints. A plain one runs outside the event loop, as it would in a script."""
    # Blank lines above it let every traceback show the line of the page.
    source = "\n" * (block.line - 1) + block.text
    printed = io.StringIO()
    try:
        code = compile(source, page.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        with redirect_stdout(printed):
            if code.co_flags & inspect.CO_COROUTINE:
                runner.run(eval(code, session.__dict__))
            else:
                exec(code, session.__dict__)
    except Exception as error:
        wrong = f"{page.name}:{_line(error, page.name) or block.line}: {type(error).__name__}: {error}"
    else:
        return printed.getvalue()
    pytest.fail(f"{wrong}\n{printed.getvalue()}", pytrace=False)


def _command(text: str) -> str:
    """What a command line prints; a path in docs/ is the project's, any other is below the page's folder."""
    words = shlex.split(text)[1:]
    paths = [str(ROOT / word) if word.startswith("docs/") else word for word in words]
    done = subprocess.run([sys.executable, "-W", "error", *paths], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr + (f"exit code {done.returncode}\n" if done.returncode else "")


def _compare(page: Page, block: Block, after: Block | None, printed: str) -> None:
    shown = after is not None and after.language == "text" and after.follows
    if not shown and printed:
        pytest.fail(f"{page.name}:{block.line}: it prints this, and the page does not show it:\n{printed}", False)
    if shown and after is not None and not matches(printed, after.text):
        pytest.fail(f"{page.name}:{after.line}: the block above it prints this:\n{printed}", pytrace=False)


def _line(error: BaseException, file: str) -> int | None:
    """The last line of the page that the error passed through."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


@contextmanager
def _modules_restored() -> Iterator[None]:
    """Forget the modules that a page wrote and imported: another page may have one of the same name."""
    before = set(sys.modules)
    try:
        yield
    finally:
        folder = str(Path.cwd())
        for name in set(sys.modules) - before:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(folder):
                del sys.modules[name]
