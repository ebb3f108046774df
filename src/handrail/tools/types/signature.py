"""A function as a tool: its name, words and schemas, and how its arguments become the types it asks for."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterator,
)
from dataclasses import dataclass, field
from inspect import Parameter
from types import UnionType
from typing import Annotated, Any

from handrail.core.calls import Output, ToolResult
from handrail.core.errors import InvalidDefinition
from handrail.core.invocation import Invocation
from handrail.tools.handlers import without_partials
from handrail.tools.types.converters import converter_of_node
from handrail.tools.types.hints import resolve_annotation
from handrail.tools.types.records import MISSING, RecordField, is_typed_dict, read_record
from handrail.tools.types.scalars import Convert
from handrail.tools.types.schema import SchemaBuilder, read_docstring, schema_of_node
from handrail.tools.types.type_nodes import AnyNode, Node, read_type

# A result that says more than its value has no schema, and neither has a stream.
_NOT_VALUES = (ToolResult, Output, Invocation, AsyncIterable, AsyncIterator, AsyncGenerator, Iterator, Generator)


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionShape:
    """All that a tool needs to know of its function."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    converters: dict[str, Convert] = field(default_factory=dict)
    """Converters for the parameters whose JSON is not yet the value."""
    injected: str | None = None
    """The parameter that gets the `Invocation`; no schema shows it."""
    deps_type: Any = None
    """What that `Invocation` says of its `deps`; None is nothing."""
    extra_converter: Convert | None = None
    """The converter of each argument that goes to `**kwargs`."""


def read_function(function: Callable[..., Any]) -> FunctionShape:
    """Read a function, method, partial or callable instance.

    Raises:
        InvalidDefinition: It takes something that cannot be passed by name or has no JSON form.
    """
    source = _source(function)
    name = _name(function, source)
    signature = _signature(function, name)
    words = read_docstring(_docstring(function, source))
    reader = _SignatureReader(name, source, words.parameters, _bound(function))
    for parameter in _without_self(signature):
        reader.read(parameter)
    return FunctionShape(
        name=name,
        description=words.description or f"Function {name}",
        input_schema=reader.input_schema(),
        output_schema=_output_schema(signature.return_annotation, source),
        converters=reader.converters,
        injected=reader.injected,
        deps_type=reader.deps_type,
        extra_converter=reader.extra_converter,
    )


class _SignatureReader:
    """Gathers the schema and the converters, one parameter at a time."""

    def __init__(self, name: str, source: Callable[..., Any], words: dict[str, str], bound: frozenset[str]) -> None:
        self.converters: dict[str, Convert] = {}
        self.injected: str | None = None
        self.deps_type: Any = None
        self.extra: dict[str, Any] | None = None
        self.extra_converter: Convert | None = None
        self._name = name
        self._source = source
        self._words = words
        self._bound = bound
        self._builder = SchemaBuilder()
        self._properties: dict[str, Any] = {}
        self._required: list[str] = []

    def read(self, parameter: Parameter) -> None:
        try:
            self._read(parameter)
        except InvalidDefinition as error:
            raise InvalidDefinition(f"parameter {parameter.name!r} of {self._name!r}: {error}") from error

    def input_schema(self) -> dict[str, Any]:
        required = {"required": self._required} if self._required else {}
        extra = False if self.extra is None else self.extra or True
        root = {"type": "object", "properties": self._properties, **required, "additionalProperties": extra}
        hidden = sorted({*self._bound, *([self.injected] if self.injected else [])})
        if self.extra is not None and hidden:
            root["propertyNames"] = {"not": {"enum": hidden}}  # or **kwargs would let the model set them
        return self._builder.finish(root)

    def _read(self, parameter: Parameter) -> None:
        if parameter.name in self._bound:
            return
        hint = parameter.annotation
        if hint is not Parameter.empty:
            hint = resolve_annotation(hint, self._source)
        if _is_invocation(hint):
            self._inject(parameter)
            self.deps_type = deps_type_of(hint)
            return
        match parameter.kind:
            case Parameter.POSITIONAL_ONLY:
                raise InvalidDefinition("it is positional-only, and arguments are passed by name; remove the '/'")
            case Parameter.VAR_POSITIONAL:
                raise InvalidDefinition(
                    "'*' takes unnamed values, and arguments are passed by name; use a list parameter"
                )
            case Parameter.VAR_KEYWORD:
                self._read_extra(hint)
            case _:
                default = parameter.default
                node = _unannotated(default) if hint is Parameter.empty else read_type(hint)
                self._add(RecordField(parameter.name, parameter.name, hint, default is MISSING, default), node)

    def _inject(self, parameter: Parameter) -> None:
        if self.injected is not None:
            raise InvalidDefinition(f"{self.injected!r} already takes the Invocation; keep one of them")
        if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            raise InvalidDefinition("the Invocation is passed by name; make it an ordinary parameter")
        self.injected = parameter.name

    def _read_extra(self, hint: Any) -> None:
        match typing.get_origin(hint), typing.get_args(hint):
            case typing.Unpack, (fields,) if isinstance(fields, type) and is_typed_dict(fields):
                for item in read_record(fields).fields:
                    self._add(item, read_type(item.hint))
            case _:
                node = AnyNode() if hint is Parameter.empty else read_type(hint)
                self.extra = self._builder.of(node)
                self.extra_converter = converter_of_node(node)

    def _add(self, item: RecordField, node: Node) -> None:
        self._properties[item.key] = self._builder.field(item, node, self._words.get(item.name))
        if item.required:
            self._required.append(item.key)
        convert = converter_of_node(node)
        if convert is not None:
            self.converters[item.key] = convert


def _source(function: Any) -> Any:
    """The function that holds the code, the hints and the docstring."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, staticmethod | classmethod) or inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif not inspect.isroutine(function) and not isinstance(function, type) and callable(function):
            function = type(function).__call__
        else:
            return function


def _signature(function: Any, name: str) -> inspect.Signature:
    if isinstance(function, type):
        raise InvalidDefinition(f"{name!r} is a class; pass a function, a method or an instance with __call__")
    try:
        return inspect.signature(function.__func__ if isinstance(function, classmethod) else function)
    except (TypeError, ValueError) as error:
        raise InvalidDefinition(f"{name!r} has no readable signature ({error}); wrap it in a function") from error


def _name(function: Any, source: Any) -> str:
    name: str = getattr(source, "__name__", "")
    whole = without_partials(function)
    return name if name not in ("", "__call__") else getattr(whole, "__name__", type(whole).__name__)


def _docstring(function: Any, source: Any) -> str | None:
    """The docstring of the function, or of the class of a callable instance."""
    if getattr(source, "__name__", "") == "__call__" and not source.__doc__:
        return type(without_partials(function)).__doc__
    return inspect.getdoc(source)


def _bound(function: Any) -> frozenset[str]:
    """The arguments that a partial has fixed: they may be secrets, so no schema shows them."""
    return frozenset(function.keywords) if isinstance(function, functools.partial) else frozenset()


def _without_self(signature: inspect.Signature) -> list[Parameter]:
    parameters = list(signature.parameters.values())
    first = parameters[0] if parameters else None
    if first is not None and first.name in ("self", "cls") and first.annotation is Parameter.empty:
        return parameters[1:]
    return parameters


def _unannotated(default: Any) -> Node:
    """What a parameter without a hint takes: values like its default, or any."""
    if default is MISSING or default is None:
        return AnyNode()
    try:
        return read_type(type(default))
    except InvalidDefinition:
        return AnyNode()


def _is_invocation(hint: Any) -> bool:
    members = [member for member in _members(hint) if member is not type(None)]
    kinds = [typing.get_origin(member) or member for member in members]
    return bool(kinds) and all(isinstance(kind, type) and issubclass(kind, Invocation) for kind in kinds)


def handler_deps_type(handler: Callable[..., Any]) -> Any:
    """What a handler of any style says of `deps` where it takes an `Invocation[…]`; None if that is nothing.

    Raises:
        InvalidDefinition: The type is not there at run time.
    """
    source = _source(handler)
    for name, hint in getattr(source, "__annotations__", {}).items():
        if name != "return" and "Invocation[" in (hint if isinstance(hint, str) else repr(hint)):
            return deps_type_of(resolve_annotation(hint, source))
    return None


def deps_type_of(hint: Any) -> Any:
    """What an `Invocation[…]` says of its `deps`; None if that is nothing, or anything will do."""
    said = (typing.get_args(member) for member in _members(hint))
    found = next((each[0] for each in said if each), None)
    return None if found in (Any, object, type(None)) else found


def _members(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the hint alone."""
    while typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, UnionType) else (hint,)


def _output_schema(annotation: Any, source: Any) -> dict[str, Any] | None:
    if annotation is inspect.Signature.empty:
        return None
    try:
        hint = resolve_annotation(annotation, source)
        if typing.get_origin(hint) in (Awaitable, Coroutine):
            hint = typing.get_args(hint)[-1]
        if any((typing.get_origin(member) or member) in _NOT_VALUES for member in _members(hint)):
            return None
        node = read_type(hint)
        return None if node == AnyNode() else schema_of_node(node)
    except InvalidDefinition:
        return None  # the result is then checked by nobody, which is what an unknown type asks for
