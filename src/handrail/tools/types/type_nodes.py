"""A Python annotation as a tree of the few things that JSON knows.

It is the one place that understands `typing`. Schemas and converters are both made
from this tree, so they cannot disagree about what a type means.
"""

from __future__ import annotations

import collections
import math
import typing
from collections.abc import Callable as AbstractCallable, Iterator
from dataclasses import InitVar, dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Final, ForwardRef, Literal, NewType, NotRequired, Required, TypeVar

import msgspec

from handrail.core.errors import InvalidDefinition
from handrail.tools.types.hints import RecursiveAlias, alias_value
from handrail.tools.types.records import is_record, substitute_type_variables
from handrail.tools.types.scalars import SCALARS
from handrail.tools.types.type_limits import TypeRemarks, read_remarks


@dataclass(frozen=True, slots=True)
class AnyNode:
    """Any JSON value."""


@dataclass(frozen=True, slots=True)
class ScalarNode:
    type: type


@dataclass(frozen=True, slots=True)
class ChoiceNode:
    """One of a few values, each as it stands in JSON and as Python has it."""

    members: tuple[tuple[Any, Any], ...]
    enum: type[Enum] | None = None


@dataclass(frozen=True, slots=True)
class ArrayNode:
    item: Node
    make: type


@dataclass(frozen=True, slots=True)
class TupleNode:
    """A tuple of a fixed length."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MappingNode:
    """An object with keys that are not known beforehand."""

    key: Node
    value: Node


@dataclass(frozen=True, slots=True)
class UnionNode:
    members: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class RecordNode:
    """A class with named fields; they are read when needed, since they may name the class again."""

    cls: type
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelNode:
    """A class that makes its own schema and its own values, as pydantic's do."""

    cls: Any


@dataclass(frozen=True, slots=True)
class AliasNode:
    """A named type that may contain itself; its target is read when needed."""

    name: str
    key: Any
    """Equal for equal aliases."""
    target: Any


@dataclass(frozen=True, slots=True)
class RemarkedNode:
    base: Node
    remarks: TypeRemarks


Node = (
    AnyNode
    | ScalarNode
    | ChoiceNode
    | ArrayNode
    | TupleNode
    | MappingNode
    | UnionNode
    | RecordNode
    | ModelNode
    | AliasNode
    | RemarkedNode
)

_ARRAYS: dict[Any, type] = {
    list: list,
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
    collections.deque: collections.deque,
    set: set,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
}
_TABLES = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_QUALIFIERS = (Required, NotRequired, Final, ClassVar)


def read_type(annotation: Any) -> Node:
    """The tree of an annotation whose names are resolved.

    Raises:
        InvalidDefinition: It has no JSON form.
    """
    origin = typing.get_origin(annotation)
    return (
        _unannotated_node(annotation) if origin is None else _applied(annotation, origin, typing.get_args(annotation))
    )


def leaf_nodes(node: Node) -> Iterator[Node]:
    """What a value of this type may be, with unions, aliases and remarks looked through."""
    seen: set[Any] = set()
    stack = [node]
    while stack:
        match stack.pop():
            case UnionNode(members):
                stack.extend(reversed(members))
            case RemarkedNode(base):
                stack.append(base)
            case AliasNode(_, key, target):
                if key not in seen:
                    seen.add(key)
                    stack.append(read_type(target))
            case leaf:
                yield leaf


def _unannotated_node(annotation: Any) -> Node:
    if annotation is Any or annotation is object:
        return AnyNode()
    if annotation is None:
        return ScalarNode(NoneType)
    if isinstance(annotation, type):
        return _class(annotation)
    if annotation is typing.LiteralString:
        return ScalarNode(str)
    match annotation:
        case NewType():
            return read_type(annotation.__supertype__)
        case TypeVar():
            return _variable(annotation)
        case InitVar():
            return read_type(annotation.type)
        case str() | ForwardRef():
            raise InvalidDefinition(f"the forward reference {annotation!r} is not resolved; use the class itself")
    if _is_alias(annotation):
        return AliasNode(annotation.__name__, annotation, alias_value(annotation))
    raise _refusal(annotation)


def _class(cls: type) -> Node:
    if cls in SCALARS:
        return ScalarNode(cls)
    if cls in _ARRAYS or cls in _TABLES or cls is tuple:
        return _applied(cls, cls, ())
    if issubclass(cls, Enum):
        return ChoiceNode(tuple((_json_constant(member.value, cls), member) for member in cls), cls)
    if hasattr(cls, "model_json_schema") and hasattr(cls, "model_validate"):
        return ModelNode(cls)
    if is_record(cls):
        return RecordNode(cls)
    raise _refusal(cls)


def _applied(annotation: Any, origin: Any, arguments: tuple[Any, ...]) -> Node:
    """The tree of `origin[arguments]`."""
    if origin is Annotated:
        return RemarkedNode(read_type(arguments[0]), read_remarks(annotation.__metadata__))
    if origin is typing.Union or origin is UnionType:
        return _union(arguments)
    if origin is Literal:
        return ChoiceNode(
            tuple(
                (_json_constant(value.value if isinstance(value, Enum) else value, annotation), value)
                for value in arguments
            )
        )
    if origin in _QUALIFIERS or getattr(origin, "_name", "") == "ReadOnly":
        return read_type(arguments[0])
    if origin is tuple:
        return _tuple(annotation, arguments)
    if origin in _ARRAYS:
        return ArrayNode(read_type(arguments[0]) if arguments else AnyNode(), _ARRAYS[origin])
    if origin in _TABLES:
        key, value = arguments or (str, Any)
        return MappingNode(_key(key), read_type(value))
    if isinstance(origin, type) and is_record(origin):
        return RecordNode(origin, arguments)
    if _is_alias(origin):
        variables = dict(zip(origin.__type_params__, arguments, strict=False))
        return AliasNode(_spelling(annotation), annotation, substitute_type_variables(alias_value(origin), variables))
    raise _refusal(annotation)


def _union(arguments: tuple[Any, ...]) -> Node:
    members = tuple(read_type(member) for member in arguments if member is not msgspec.UnsetType)
    return members[0] if len(members) == 1 else UnionNode(members)


def _tuple(annotation: Any, arguments: tuple[Any, ...]) -> Node:
    match arguments:
        case (item, end) if end is Ellipsis:
            return ArrayNode(read_type(item), tuple)
        case () if annotation is tuple or annotation is typing.Tuple:  # noqa: UP006 - the bare old spelling, as found
            return ArrayNode(AnyNode(), tuple)
    return TupleNode(tuple(read_type(item) for item in arguments))


def _key(annotation: Any) -> Node:
    """The type of an object's keys, which JSON has only as text."""
    node = read_type(annotation)
    match node:
        case AnyNode():
            return ScalarNode(str)
        case ChoiceNode(members):
            return ChoiceNode(tuple((str(json), value) for json, value in members))
        case ScalarNode(kind) if kind is int or str in SCALARS[kind].kinds:
            return node
        case RemarkedNode(base) if isinstance(base, ScalarNode) and str in SCALARS[base.type].kinds:
            return node
    raise InvalidDefinition(f"the keys of a JSON object are text, not {_spelling(annotation)}; use dict[str, …]")


def _variable(variable: TypeVar) -> Node:
    if variable.__constraints__:
        return _union(variable.__constraints__)
    return AnyNode() if variable.__bound__ is None else read_type(variable.__bound__)


def _json_constant(value: Any, owner: Any) -> Any:
    """The value without the subclass that an IntEnum or StrEnum adds."""
    match value:
        case None | bool():
            return value
        case str():
            return str.__str__(value)
        case int():
            return int(value)
        case float() if math.isfinite(value):
            return float(value)
    raise InvalidDefinition(
        f"the value {value!r} of {_spelling(owner)} is not a JSON constant; use text, numbers or None"
    )


def _is_alias(annotation: Any) -> bool:
    """Whether it is an alias with a name: ours, or of a `type` statement, or of typing_extensions."""
    return isinstance(annotation, RecursiveAlias) or type(annotation).__name__ == "TypeAliasType"


def _spelling(annotation: Any) -> str:
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def _refusal(annotation: Any) -> InvalidDefinition:
    name = _spelling(annotation)
    if annotation in (AbstractCallable, typing.Callable) or typing.get_origin(annotation) is AbstractCallable:
        return InvalidDefinition(
            f"{name} has no JSON form: a function cannot be an argument; take the name of one as text"
        )
    if isinstance(annotation, type):
        return InvalidDefinition(
            f"the class {name!r} has no JSON form; make it a dataclass, TypedDict, msgspec.Struct or pydantic model"
        )
    return InvalidDefinition(f"{name} has no JSON form; use a type that JSON can carry, or Any")
