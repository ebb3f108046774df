"""Classes with named fields, seen alike: dataclass, NamedTuple, TypedDict and msgspec.Struct."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, Required, TypeVar, get_args, get_origin

import msgspec

from handrail.core.errors import InvalidDefinition
from handrail.tools.types.hints import class_hints

MISSING: Any = inspect.Parameter.empty
"""Stands for a default that there is not, or that is made again each time."""

# Factories that always make the same, so that what they make can be shown as the default.
_PLAIN_FACTORIES = (list, dict, set, frozenset)


@dataclass(frozen=True, slots=True)
class RecordField:
    name: str
    key: str
    """Its name in JSON."""
    hint: Any
    required: bool
    default: Any = MISSING


@dataclass(frozen=True, slots=True)
class RecordShape:
    fields: tuple[RecordField, ...]
    tag: tuple[str, Any] | None = None
    """A key with a fixed value that tells the members of a union apart."""


def is_record(cls: type) -> bool:
    return (
        dataclasses.is_dataclass(cls) or is_typed_dict(cls) or _is_named_tuple(cls) or issubclass(cls, msgspec.Struct)
    )


def is_typed_dict(cls: type) -> bool:
    return issubclass(cls, dict) and hasattr(cls, "__required_keys__")


def read_record(cls: type, arguments: tuple[Any, ...] = ()) -> RecordShape:
    """The fields of a record class; with type arguments, of the generic class applied to them.

    Raises:
        InvalidDefinition: A field has no type that can be found, or no name to pass it by.
    """
    hints = class_hints(cls)
    variables = _type_arguments(cls, arguments)
    hints = {name: substitute_type_variables(hint, variables) for name, hint in hints.items()}
    if issubclass(cls, msgspec.Struct):
        return _struct(cls, hints)
    if is_typed_dict(cls):
        return RecordShape(tuple(_typed_dict_fields(cls, hints)))
    if _is_named_tuple(cls):
        return RecordShape(tuple(_named_tuple_fields(cls, hints)))
    return RecordShape(tuple(_dataclass_fields(cls, hints)))


def substitute_type_variables(hint: Any, variables: Mapping[Any, Any]) -> Any:
    """The hint with type variables replaced."""
    if isinstance(hint, TypeVar):
        return variables.get(hint, hint)
    open_variables = getattr(hint, "__parameters__", ())
    if not variables or not open_variables or isinstance(hint, type):
        return hint
    return hint[tuple(variables.get(variable, variable) for variable in open_variables)]


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_field_defaults")


def _type_arguments(cls: type, arguments: tuple[Any, ...]) -> dict[Any, Any]:
    """What each type variable of the class and its generic bases stands for."""
    variables = dict(zip(getattr(cls, "__parameters__", ()), arguments, strict=False))
    for base in getattr(cls, "__orig_bases__", ()):
        origin = get_origin(base)
        if isinstance(origin, type) and origin is not cls:
            inner = tuple(substitute_type_variables(argument, variables) for argument in get_args(base))
            variables = {**_type_arguments(origin, inner), **variables}
    return variables


def _struct(cls: type[msgspec.Struct], hints: Mapping[str, Any]) -> RecordShape:
    config = cls.__struct_config__
    if config.array_like:
        raise InvalidDefinition(
            f"the Struct {cls.__qualname__!r} is array_like and has no named fields in JSON; drop that"
        )
    names, keys, defaults = cls.__struct_fields__, cls.__struct_encode_fields__, cls.__struct_defaults__
    padded = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
    fields = []
    for name, key, default in zip(names, keys, padded, strict=True):
        required = default is msgspec.NODEFAULT
        shown = MISSING if required or default is msgspec.UNSET else default
        if hasattr(default, "factory"):
            shown = _default_of_factory(default.factory)
        fields.append(RecordField(name, key, hints[name], required, shown))
    tag = None if config.tag is None or config.tag_field is None else (config.tag_field, config.tag)
    return RecordShape(tuple(fields), tag)


def _typed_dict_fields(cls: Any, hints: Mapping[str, Any]) -> Iterator[RecordField]:
    for name, hint in hints.items():
        # __required_keys__ does not see a qualifier that was written as text.
        required = name in cls.__required_keys__
        for qualifier in _qualifiers(hint):
            required = {Required: True, NotRequired: False}.get(qualifier, required)
        yield RecordField(name, name, hint, required)


def _qualifiers(hint: Any) -> Iterator[Any]:
    while arguments := get_args(hint):
        yield get_origin(hint)
        hint = arguments[0]


def _named_tuple_fields(cls: Any, hints: Mapping[str, Any]) -> Iterator[RecordField]:
    for name in cls._fields:
        default = cls._field_defaults.get(name, MISSING)
        yield RecordField(name, name, hints.get(name, Any), default is MISSING, default)


def _dataclass_fields(cls: Any, hints: Mapping[str, Any]) -> Iterator[RecordField]:
    """The fields that `__init__` takes, `InitVar`s included."""
    for name, parameter in inspect.signature(cls).parameters.items():
        known = cls.__dataclass_fields__.get(name)
        if known is None or parameter.kind is parameter.POSITIONAL_ONLY:
            raise InvalidDefinition(
                f"the dataclass {cls.__qualname__!r} takes {name!r} in its own __init__, which is not a field; "
                "let dataclass write __init__"
            )
        required = parameter.default is parameter.empty
        default = (
            parameter.default
            if known.default_factory is dataclasses.MISSING
            else _default_of_factory(known.default_factory)
        )
        yield RecordField(name, name, hints.get(name, Any), required, default)


def _default_of_factory(factory: Any) -> Any:
    return factory() if factory in _PLAIN_FACTORIES else MISSING
