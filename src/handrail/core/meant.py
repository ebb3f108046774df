"""What people give in the place of something else, and what they mean: said when it is given, not when it is used."""

from __future__ import annotations

import os
from typing import Any

from handrail.core.errors import UsageError


def check_model(given: Any) -> None:
    """
    Raises:
        UsageError: It is no `Model`, with what to write instead.
    """
    if isinstance(given, str):
        raise UsageError(
            f"{given!r} is the name of a model; create_llm({given!r}) makes an LLM of it for a Session, "
            f"and llm.model is the model that a Runner takes"
        )
    if callable(getattr(given, "agenerate", None)) and hasattr(given, "model"):
        raise UsageError("an LLM stands where a model is wanted; give llm.model")
    if isinstance(given, type) or not callable(getattr(given, "stream", None)) or not hasattr(given, "name"):
        kind = given.__name__ if isinstance(given, type) else type(given).__name__
        raise UsageError(f"{kind!r} is no model: that has a name and stream(request), as create_llm(...).model has")


def check_journal(given: Any) -> None:
    """
    Raises:
        UsageError: It says where a journal is, and is none.
    """
    if isinstance(given, str | os.PathLike):
        raise UsageError(
            f"a journal is opened first: async with await SqliteJournal.open({os.fspath(given)!r}) as journal"
        )
