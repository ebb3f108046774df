"""What a program gives its tools besides their arguments: the type variables for it, and whether it fits.

A tool says by `Invocation[Shop]` what it uses as `invocation.deps`. The check here refuses only what is certainly
wrong: the parameters of a generic type, and the types of fields, are left to type checkers.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # with a default, so that a bare `Session` or `Tool` is one of anything

    Deps = TypeVar("Deps", default=Any)
    Deps_co = TypeVar("Deps_co", covariant=True, default=Any)
    Deps_contra = TypeVar("Deps_contra", contravariant=True, default=Any)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")
    Deps_co = TypeVar("Deps_co", covariant=True)
    Deps_contra = TypeVar("Deps_contra", contravariant=True)


def fits(value: Any, hint: Any) -> bool:
    """Whether a value may be of a type: False only where it certainly is not."""
    return _admits(hint, lambda kind: _is_of(value, kind))


def type_fits(given: Any, hint: Any) -> bool:
    """Whether values of a type may be of another: False only where none is."""
    return _admits(hint, lambda kind: _admits(given, lambda each: _is_loose(each, kind) or issubclass(each, kind)))


def _admits(hint: Any, test: Callable[[type], bool]) -> bool:
    """Whether one of the classes that a type stands for passes a test; a type that stands for none admits all."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _admits(get_args(hint)[0], test)
    if origin in (typing.Union, UnionType):
        return any(_admits(each, test) for each in get_args(hint))
    if isinstance(hint, typing.NewType):
        return _admits(hint.__supertype__, test)
    if isinstance(hint, typing.TypeVar):
        return _admits(hint.__bound__ or Any, test)
    kind = NoneType if hint is None else origin or hint
    return kind is Any or not isinstance(kind, type) or test(kind)


def _is_of(value: Any, kind: type) -> bool:
    if typing.is_typeddict(kind):
        return isinstance(value, Mapping) and kind.__required_keys__ <= value.keys()  # type: ignore[attr-defined]
    if getattr(kind, "_is_protocol", False):
        return all(_has(value, name) for name in _members(kind))
    return isinstance(value, kind)


def _is_loose(*kinds: type) -> bool:
    """Whether one of them is a type of which no class says what it has."""
    return any(typing.is_typeddict(kind) or getattr(kind, "_is_protocol", False) for kind in kinds)


def type_name(hint: Any) -> str:
    """A type as people write it."""
    if get_origin(hint) in (typing.Union, UnionType):
        return " | ".join(map(type_name, get_args(hint)))
    if hint is NoneType:
        return "None"
    return hint.__qualname__ if isinstance(hint, type) and not get_args(hint) else str(hint).replace("typing.", "")


def _members(protocol: type) -> set[str]:
    """What a protocol asks for by name; its operators are left to type checkers."""
    names: Iterable[str] | None = getattr(protocol, "__protocol_attrs__", None)
    if names is None:  # before Python 3.12
        bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
        names = [name for base in bases for name in (*vars(base), *vars(base).get("__annotations__", ()))]
    return {name for name in names if not name.startswith("_")}


def _has(value: Any, name: str) -> bool:
    """Whether it has such an attribute. A property is not asked for its value, which may take long."""
    try:
        inspect.getattr_static(value, name)
    except AttributeError:
        return hasattr(value, name)
    return True
