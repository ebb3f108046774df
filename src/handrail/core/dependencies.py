"""What a program gives its tools besides their arguments: the type variables for it, and whether it fits.

A tool says by `Invocation[Shop]` what it uses as `invocation.deps`. The check here refuses only what is certainly
wrong: the parameters of a generic type, and the types of fields, are left to type checkers.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Iterable, Mapping
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
    origin = get_origin(hint)
    if origin is Annotated:
        return fits(value, get_args(hint)[0])
    if origin in (typing.Union, UnionType):
        return any(fits(value, each) for each in get_args(hint))
    if isinstance(hint, typing.NewType):
        return fits(value, hint.__supertype__)
    if isinstance(hint, typing.TypeVar):
        return fits(value, hint.__bound__ or object)
    kind = NoneType if hint is None else origin or hint
    if kind is Any or not isinstance(kind, type):
        return True
    if typing.is_typeddict(kind):
        return isinstance(value, Mapping) and kind.__required_keys__ <= value.keys()  # type: ignore[attr-defined]
    if getattr(kind, "_is_protocol", False):
        return all(_has(value, name) for name in _members(kind))
    return isinstance(value, kind)


def type_name(hint: Any) -> str:
    """A type as people write it."""
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
