"""The shape of the package: what it exports, what it loads, and that its drawings are true."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import handrail
from handrail.core import errors


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in dir(handrail) if not hasattr(handrail, name)] == []


def test_importing_the_package_loads_nothing_that_is_not_used() -> None:
    code = "import sys, handrail; print(sorted({name.partition('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    heavy = ["httptools", "click", "rich", "cryptography", "sqlite3", "pydantic", "wordllama", "msgspec", "asyncio"]

    out = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)

    assert out.stdout == "[]\n"


def test_using_the_executor_loads_no_adapter() -> None:
    code = "import sys; from handrail import Executor, tool; print([m for m in sys.modules if m in sys.argv[1:]])"
    heavy = ["httptools", "click", "rich", "cryptography", "sqlite3", "pydantic", "wordllama", "handrail.journal"]

    out = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)

    assert out.stdout == "[]\n"


def test_the_tree_of_errors_is_as_drawn() -> None:
    drawing = textwrap.dedent((errors.__doc__ or "").split("\n\n")[1])  # the site shows it as a block

    assert drawing.splitlines() == [*_drawn(errors.HandrailError), *_drawn(errors.ToolError)]


def _drawn(error: type[BaseException], depth: int = 0) -> list[str]:
    if error.__module__ != errors.__name__:
        return []
    if error.__name__.startswith("_"):
        return [line for child in error.__subclasses__() for line in _drawn(child, depth)]
    return ["    " * depth + error.__name__] + [
        line for child in error.__subclasses__() for line in _drawn(child, depth + 1)
    ]
