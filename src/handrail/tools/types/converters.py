"""JSON values into Python types: closures, compiled once from a type, with nothing left to find out per call.

They take values that passed the type's schema. What a schema cannot say (whether a
date exists, what a model's own validator thinks) is refused with a ValueError or
TypeError whose text is for the model. The way back to JSON is not here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from handrail.tools.types.records import is_typed_dict, read_record
from handrail.tools.types.scalars import SCALARS, Convert
from handrail.tools.types.type_limits import TypeLimit, with_limit_checks
from handrail.tools.types.type_nodes import (
    AliasNode,
    AnyNode,
    ArrayNode,
    ChoiceNode,
    MappingNode,
    ModelNode,
    Node,
    RecordNode,
    RemarkedNode,
    ScalarNode,
    TupleNode,
    UnionNode,
    leaf_nodes,
    read_type,
)
from handrail.tools.types.unions import choose_member


def converter_of_node(node: Node) -> Convert | None:
    """The function that turns validated JSON into a value of the type, or None where the JSON already is the value."""
    compiler = _ConverterCompiler()
    convert = compiler.of(node)
    return convert if convert is None or not compiler.recursive else _bounded(convert)


class _ConverterCompiler:
    def __init__(self) -> None:
        self._named: dict[Any, list[Convert | None]] = {}
        """A cell for each named type, empty while it is compiled: a recursive type refers to its own cell."""
        self.recursive = False

    def of(self, node: Node) -> Convert | None:
        match node:
            case AnyNode():
                return None
            case ScalarNode(kind):
                return SCALARS[kind].convert
            case ChoiceNode(members):
                return _choice(members)
            case ArrayNode(item, make):
                return _array(self.of(item), make)
            case TupleNode(items):
                return _row([self.of(item) for item in items])
            case MappingNode(key, value):
                return _table(self.of(key), self.of(value))
            case UnionNode(members):
                return choose_member([(member, self.of(member)) for member in members])
            case RecordNode(cls, arguments):
                return self._cell(node, lambda: self._record(cls, arguments))
            case ModelNode(cls):
                return _validating(cls.model_validate)
            case AliasNode(_, key, target):
                return self._cell(key, lambda: self.of(read_type(target)))
            case RemarkedNode(base, remarks):
                return with_limit_checks(self.of(base), _left_to_check(base, remarks.limits))
        assert_never(node)

    def _cell(self, key: Any, build: Callable[[], Convert | None]) -> Convert | None:
        cell = self._named.get(key)
        if cell is None:
            cell = self._named[key] = []
            cell.append(build())
        if cell:
            return cell[0]
        self.recursive = True

        def later(value: Any) -> Any:
            convert = cell[0]
            return value if convert is None else convert(value)

        return later

    def _record(self, cls: type, arguments: tuple[Any, ...]) -> Convert | None:
        shape = read_record(cls, arguments)
        plan = {field.key: (field.name, self.of(read_type(field.hint))) for field in shape.fields}
        simple = all(key == name and convert is None for key, (name, convert) in plan.items())
        if is_typed_dict(cls):
            return None if simple else _fields(plan)
        if shape.tag is not None:
            return _construct(cls, _fields(plan, shape.tag[0]))
        return _construct(cls, None if simple else _fields(plan))


def _validating(validate: Convert) -> Convert:
    """What a model refuses, in one line for each problem, without the values and the links of pydantic's own text."""

    def convert(value: Any) -> Any:
        try:
            return validate(value)
        except ValueError as error:
            problems = getattr(error, "errors", None)
            if not callable(problems):
                raise
            raise ValueError("; ".join(map(_problem, problems()))) from error

    return convert


def _problem(found: Any) -> str:
    where = ".".join(map(str, found["loc"]))
    said = str(found["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return f"{where}: {said}" if where else said


def _bounded(convert: Convert) -> Convert:
    def convert_bounded(value: Any) -> Any:
        try:
            return convert(value)
        except RecursionError:
            raise ValueError("the value is nested too deeply; send it in parts") from None

    return convert_bounded


def _left_to_check(base: Node, limits: tuple[TypeLimit, ...]) -> list[TypeLimit]:
    """The limits that the schema could not express for this type."""
    on_value = any(isinstance(leaf, ScalarNode) and SCALARS[leaf.type].limits_need_value for leaf in leaf_nodes(base))
    return [limit for limit in limits if on_value or limit.name == "func"]


def _choice(members: tuple[tuple[Any, Any], ...]) -> Convert | None:
    if all(json is value and isinstance(json, str | bool | None) for json, value in members):
        return None
    # The flag keeps 1 and True apart, which Python takes for the same key; 1 and 1.0 are the same in JSON too.
    found = {(isinstance(json, bool), json): value for json, value in members}

    def pick(value: Any) -> Any:
        return found[isinstance(value, bool), value]

    return pick


def _array(convert: Convert | None, make: type) -> Convert | None:
    if convert is None:
        return None if make is list else make
    if make is list:
        return lambda value: [convert(item) for item in value]
    return lambda value: make(map(convert, value))


def _row(converts: list[Convert | None]) -> Convert:
    if not any(converts):
        return tuple
    return lambda value: tuple(
        item if convert is None else convert(item) for convert, item in zip(converts, value, strict=True)
    )


def _table(key: Convert | None, value: Convert | None) -> Convert | None:
    if key is None:
        if value is None:
            return None
        return lambda table: {name: value(item) for name, item in table.items()}
    if value is None:
        return lambda table: {key(name): item for name, item in table.items()}
    return lambda table: {key(name): value(item) for name, item in table.items()}


def _fields(plan: dict[str, tuple[str, Convert | None]], tag: str | None = None) -> Convert:
    def convert_fields(value: Any) -> dict[str, Any]:
        made = {}
        for key, item in value.items():
            if key != tag:
                name, convert = plan[key]
                made[name] = item if convert is None else convert(item)
        return made

    return convert_fields


def _construct(cls: type, fields: Convert | None) -> Convert:
    if fields is None:
        return lambda value: cls(**value)
    return lambda value: cls(**fields(value))
