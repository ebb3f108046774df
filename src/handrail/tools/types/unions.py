"""Which member of a union a JSON value becomes.

First by the kind of the JSON value; among members of that kind the most specific
first (`Literal`, then `date` before `str`, `int` before `float` for 1, a record before
a dict), then in the order written. The first whose schema accepts the value, and
which can be made from it, is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any

from handrail.tools.types.scalars import SCALARS, SPECIFIC, WIDENED, Convert
from handrail.tools.types.schema import schema_of_node
from handrail.tools.types.type_nodes import (
    AnyNode,
    ArrayNode,
    ChoiceNode,
    MappingNode,
    ModelNode,
    Node,
    RecordNode,
    ScalarNode,
    TupleNode,
    leaf_nodes,
)

_KINDS: tuple[type, ...] = (str, int, float, bool, NoneType, list, dict)
_EXACT, _LAST = 0, 9

Member = tuple[Node, Convert | None]


def choose_member(members: Sequence[Member]) -> Convert | None:
    """The converter of a union of these types, each given with its own."""
    if all(convert is None for _, convert in members):
        return None
    by_kind = {kind: _first_that_fits(_candidates(members, kind)) for kind in _KINDS}
    otherwise = _first_that_fits(list(members))

    def convert_member(value: Any) -> Any:
        convert = by_kind.get(type(value), otherwise)
        return value if convert is None else convert(value)

    return convert_member


def _candidates(members: Sequence[Member], kind: type) -> list[Member]:
    """The members that take this kind of JSON value, best first, up to one that takes all such values."""
    ranked = [(_fits(member[0]).get(kind), member) for member in members]
    found = []
    for _, member in sorted(((rank, member) for rank, member in ranked if rank is not None), key=lambda pair: pair[0]):
        found.append(member)
        if _takes_every(member[0], kind):
            break
    return found


def _fits(node: Node) -> dict[type, int]:
    """The kinds of JSON value that a type takes, each with how well."""
    best: dict[type, int] = {}
    for leaf in leaf_nodes(node):
        for kind, rank in _leaf_fits(leaf).items():
            best[kind] = min(rank, best.get(kind, _LAST))
    return best


def _leaf_fits(leaf: Node) -> dict[type, int]:
    match leaf:
        case ScalarNode(kind):
            return dict(SCALARS[kind].kinds)
        case ChoiceNode(members):
            kinds: set[type] = {type(json) for json, _ in members}
            return dict.fromkeys(kinds | ({int, float} if kinds & {int, float} else set()), _EXACT)
        case TupleNode():
            return {list: SPECIFIC}
        case ArrayNode():
            return {list: WIDENED}
        case RecordNode():
            return {dict: SPECIFIC}
        case MappingNode():
            return {dict: WIDENED}
        case ModelNode(cls):
            root = getattr(cls, "__pydantic_root_model__", False)
            return dict.fromkeys(_KINDS, SPECIFIC) if root else {dict: SPECIFIC}
    return dict.fromkeys(_KINDS, _LAST)


def _takes_every(node: Node, kind: type) -> bool:
    """Whether no JSON value of this kind is refused, so that later members can be left out."""
    match node:
        case ScalarNode(type=taken):
            return taken is kind or (taken is float and kind is int)
        case AnyNode():
            return True
    return False


def _first_that_fits(members: list[Member]) -> Convert | None:
    if all(convert is None for _, convert in members):
        return None
    if len(members) == 1:
        return members[0][1]
    tried = [(_acceptor(node), convert) for node, convert in members]

    def convert_first(value: Any) -> Any:
        refusal: Exception = ValueError(f"{value!r} fits no member of the union")
        for accepts, convert in tried:
            if accepts(value):
                try:
                    return value if convert is None else convert(value)
                except (ValueError, TypeError) as error:
                    refusal = error
        raise refusal

    return convert_first


def _acceptor(node: Node) -> Callable[[Any], bool]:
    from handrail.tools.schema.validator import Validator

    validator = Validator(schema_of_node(node), "a member of a union")
    return lambda value: not validator.problems(value)
