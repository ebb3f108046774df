"""The code for one question about lines: the program in `cell/`, and what it is to look for."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from handrail.rlm.lines.phrases import PHRASES
from handrail.rlm.lines.question import read_question


def search_for(question: str, *, name: str, piece: int, passages: int, is_bound: bool) -> dict[str, Any]:
    """What `answered` is given, as JSON values; `Plan` says what each of them is."""
    read = read_question(question)
    found: dict[str, Any] = msgspec.to_builtins(read)
    settings = {"name": name, "piece": piece, "passages": passages, "is_bound": is_bound}
    return {**found, **settings, "say": PHRASES[read.language]}


def program(search: dict[str, Any], variable: str) -> str:
    """Code that answers over the context in a variable. Nothing that the question says is code."""
    return (
        f"{_source()}\n\nimport json\n\nsearch = json.loads({_literal(search)})\n"
        f'answer["content"] = answered(search, {variable}, llm_query)\nanswer["ready"] = True\n'
    )


_MODULES = ("terms", "tally", "wording", "find", "answer")
"""The modules in the order in which they depend on each other."""


@cache
def _source() -> str:
    """The modules as one program, without their docstrings and what they import of each other."""
    folder = Path(__file__).with_name("cell")
    parts = [_without_own_imports((folder / f"{name}.py").read_text("utf-8")) for name in _MODULES]
    return "\n\n\n".join(("from __future__ import annotations", *parts))


def _without_own_imports(source: str) -> str:
    lines = source.splitlines()
    for node in ast.parse(source).body:
        is_docstring = isinstance(node, ast.Expr) and node.lineno == 1
        if is_docstring or (isinstance(node, ast.ImportFrom) and _is_dropped(node.module or "")):
            for at in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[at] = ""
    return "\n".join(lines).strip()


def _is_dropped(module: str) -> bool:
    return module == "__future__" or module.startswith("handrail.")


def _literal(value: dict[str, Any]) -> str:
    """JSON as a Python string in ASCII, without a character that could end the block of code around it."""
    return json.dumps(json.dumps(value)).replace("`", "\\u0060")
