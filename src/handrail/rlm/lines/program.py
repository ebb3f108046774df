"""The code for one question about lines: the program of `cell.py`, and what it is to look for."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from handrail.rlm.lines.phrases import PHRASES
from handrail.rlm.lines.question import read_question


def search_for(question: str, *, name: str, piece: int, passages: int, is_bound: bool) -> dict[str, Any]:
    """What `cell.answered` is given, as JSON values; `Plan` says what each of them is."""
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


@cache
def _source() -> str:
    return Path(__file__).with_name("cell.py").read_text("utf-8").rstrip()


def _literal(value: dict[str, Any]) -> str:
    """JSON as a Python string in ASCII, without a character that could end the block of code around it."""
    return json.dumps(json.dumps(value)).replace("`", "\\u0060")
