"""Checks of common mistakes in arguments, reported when they are made and not when they take effect."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any

from handrail.core.errors import UsageError


def check_keyword_names(
    where: str, given: Iterable[str], known: Collection[str], meant: Mapping[str, str] = {}
) -> None:
    """Refuse keyword arguments that `where` does not take. `meant` says what to write for names of other libraries.

    Raises:
        UsageError: With the name that was probably meant, or all names that there are.
    """
    unknown = [name for name in given if name not in known]
    if unknown:
        raise UsageError(f"{where} has no argument {unknown[0]!r}{nearest_name_hint(unknown[0], known, meant)}")


def nearest_name_hint(name: str, known: Iterable[str], meant: Mapping[str, str] = {}) -> str:
    """The end of a message about an unknown name: the one that was probably meant, or all that there are."""
    if name in meant:
        return f"; write {meant[name]}"
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(names)}"


@cache
def keyword_names(function: Callable[..., Any]) -> frozenset[str]:
    """The names that a function or class takes as keywords, without those that `**` gathers."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return frozenset(each.name for each in inspect.signature(function).parameters.values() if each.kind in named)


def check_model(given: Any) -> None:
    """Checks that `given` is a model.

    Raises:
        UsageError: It is no `Model`, with what to write instead.
    """
    if isinstance(given, str):
        raise UsageError(
            f"{given!r} is the name of a model; create_llm({given!r}) makes an LLM of it for a Session, "
            f"and llm.model is the model that a Runner takes"
        )
    if callable(getattr(given, "generate_async", None)) and hasattr(given, "model"):
        raise UsageError("an LLM stands where a model is wanted; give llm.model")
    if isinstance(given, type) or not callable(getattr(given, "stream", None)) or not hasattr(given, "name"):
        kind = given.__name__ if isinstance(given, type) else type(given).__name__
        raise UsageError(f"{kind!r} is not a model: that has a name and stream(request), as create_llm(...).model has")


def check_journal(given: Any) -> None:
    """Checks that `given` is no path in the place of a journal.

    Raises:
        UsageError: It says where a journal is, and is none.
    """
    if isinstance(given, str | os.PathLike):
        raise UsageError(
            f"a journal is opened first: async with await SqliteJournal.open({os.fspath(given)!r}) as journal"
        )
