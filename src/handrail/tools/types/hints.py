"""Annotations written as text, resolved to types: with the names of the module, and of the functions around."""

from __future__ import annotations

import contextlib
import inspect
import sys
import typing
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, ForwardRef

from handrail.core.errors import InvalidDefinition

# What evaluating somebody's annotation may raise.
_UNRESOLVED = (NameError, KeyError, AttributeError, TypeError, SyntaxError)


class RecursiveAlias:
    """A name that stands for a type that contains it, as `Json = dict[str, "Json"] | str` does."""

    __slots__ = ("__name__", "__value__")

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.__value__: Any = None


def resolve_annotation(annotation: Any, owner: Callable[..., Any]) -> Any:
    """One annotation of a function, with every name in it looked up.

    Raises:
        InvalidDefinition: A name in it is not there at run time.
    """
    known = getattr(owner, "__globals__", {})
    try:
        try:
            return _hints(_carrier(annotation), known, {})["it"]
        except NameError:
            return _hints(_carrier(annotation), known, {**_enclosing(owner), **_closed_over(owner)})["it"]
    except _UNRESOLVED as error:
        raise InvalidDefinition(_unresolved(f"the annotation {annotation!r}", error)) from error


def class_hints(cls: type) -> dict[str, Any]:
    """The annotations of a class and its bases.

    Raises:
        InvalidDefinition: A name in one of them is not there at run time.
    """
    known = _module_names(cls)
    try:
        try:
            return _hints(cls, known, {})
        except NameError:
            return _hints(cls, known, {**_enclosing(cls), cls.__name__: cls})
    except _UNRESOLVED as error:
        raise InvalidDefinition(_unresolved(f"an annotation of the class {cls.__qualname__!r}", error)) from error


def alias_value(alias: Any) -> Any:
    """What a `type` alias stands for.

    Raises:
        InvalidDefinition: A name in it is not there at run time.
    """
    if isinstance(alias, RecursiveAlias):
        return alias.__value__
    try:
        return _hints(_carrier(alias.__value__), _module_names(alias), {alias.__name__: alias})["it"]
    except _UNRESOLVED as error:
        raise InvalidDefinition(_unresolved(f"the alias {alias.__name__!r}", error)) from error


def _hints(target: Any, known: dict[str, Any], around: dict[str, Any]) -> dict[str, Any]:
    """`typing.get_type_hints`, and the names that it leaves because they contain themselves."""
    namespace = None if isinstance(target, type) else known
    hints = typing.get_type_hints(target, namespace, around or None, include_extras=True)
    loose = {name: RecursiveAlias(name) for hint in hints.values() for name in _loose_names(hint)}
    if not loose:
        return hints
    names = {**around, **loose}
    for name, alias in loose.items():
        meant = _carrier(around[name] if name in around else known[name])
        alias.__value__ = typing.get_type_hints(meant, known, names, include_extras=True)["it"]
    return typing.get_type_hints(target, namespace, names, include_extras=True)


def _carrier(annotation: Any) -> Any:
    return SimpleNamespace(__annotations__={"it": annotation})


def _loose_names(hint: Any) -> Iterator[str]:
    if isinstance(hint, ForwardRef) and hint.__forward_arg__.isidentifier():
        yield hint.__forward_arg__
    for argument in typing.get_args(hint):
        yield from _loose_names(argument)


def _module_names(owner: Any) -> dict[str, Any]:
    return getattr(sys.modules.get(owner.__module__), "__dict__", {})


def _unresolved(what: str, error: Exception) -> str:
    return f"{what} cannot be resolved ({error}); define its names at module level and import them at run time"


def _enclosing(owner: Any) -> dict[str, Any]:
    """The local variables of the functions that the definition stands in, as far as they still run."""
    around: set[str] = set()
    name = getattr(owner, "__qualname__", "")
    while ".<locals>." in name:
        name = name.rpartition(".<locals>.")[0]
        around.add(name)
    found: dict[str, Any] = {}
    frame = inspect.currentframe()
    while frame is not None and around:
        if frame.f_code.co_qualname in around and frame.f_globals.get("__name__") == owner.__module__:
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def _closed_over(owner: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    names = owner.__code__.co_freevars if hasattr(owner, "__code__") else ()
    for name, cell in zip(names, getattr(owner, "__closure__", None) or (), strict=False):
        with contextlib.suppress(ValueError):  # the variable has no value yet
            found[name] = cell.cell_contents
    return found
