"""The type of a typed answer: the schema that a model is shown, and its JSON as a value of the type.

A service that holds a reply to a schema, and a tool that takes the answer, both want a JSON object. So a type whose
JSON is something else (a list, a number, a union) is shown as an object with one field, `value`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from handrail.core.errors import InvalidArguments, describe_exception
from handrail.core.jsontext import JSONTextError, copy_json, parse
from handrail.tools.schema.left_out_nulls import without_nulls
from handrail.tools.schema.validator import Validator
from handrail.tools.types.converters import converter_of_node
from handrail.tools.types.scalars import Convert
from handrail.tools.types.schema import schema_of_node
from handrail.tools.types.type_nodes import read_type

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")

VALUE = "value"
"""The field that holds an answer whose JSON is no object."""
_ROOT = "(answer)"
_REMEMBERED = 128
"""Types that stay compiled."""
_FENCED = re.compile(r"\s*```[A-Za-z0-9]*[ \t]*\r?\n(.*)\r?\n[ \t]*```\s*", re.DOTALL)


class AnswerType(Generic[T]):
    """Reads answers of one type. What does not fit is refused with every problem, in words for the model."""

    __slots__ = ("_convert", "_validator", "_wrapped", "schema", "takes_nulls")

    def __init__(
        self, schema: dict[str, Any], convert: Convert | None, *, wrapped: bool = False, takes_nulls: bool = False
    ) -> None:
        """
        Raises:
            InvalidSchema: The schema cannot be used.
        """
        self.schema: dict[str, Any] = schema
        """What a model is shown."""
        self.takes_nulls: bool = takes_nulls
        """Whether null stands for a property that is left out, where the schema asks for none."""
        self._convert = convert
        self._wrapped = wrapped
        self._validator = Validator(schema, "the answer", root=_ROOT)

    @classmethod
    def of_schema(cls, schema: dict[str, Any]) -> AnswerType[Any]:
        """Answers that fit a JSON Schema; their value is the JSON."""
        return AnswerType[Any](schema, None)

    def read_text(self, text: str) -> T:
        """The value of an answer that is the text of a reply. A code fence around the whole of it is left out.

        Raises:
            InvalidArguments: It is not JSON, or does not fit.
        """
        fenced = _FENCED.fullmatch(text)
        try:
            value = parse(text if fenced is None else fenced[1])
        except JSONTextError as error:
            raise InvalidArguments(f"{_ROOT}: it is not JSON: {str(error).removeprefix('not JSON: ')}") from error
        return self.read(value)

    def read_arguments(self, arguments: dict[str, Any] | str) -> T:
        """The value of an answer that is the arguments of a call.

        Raises:
            InvalidArguments: It is not JSON, or does not fit.
        """
        return self.read_text(arguments) if isinstance(arguments, str) else self.read(copy_json(arguments))

    def read(self, value: Any) -> T:
        """The value of an answer in JSON.

        Raises:
            InvalidArguments: It does not fit.
        """
        if self._wrapped and not (isinstance(value, dict) and value.keys() == {VALUE}):
            value = {VALUE: value}
        if self.takes_nulls and isinstance(value, dict):
            value = without_nulls(value, self.schema)
        if problems := self._validator.problems(value):
            raise InvalidArguments(problems)
        inner = value[VALUE] if self._wrapped else value
        where = VALUE if self._wrapped else _ROOT
        try:
            converted: T = inner if self._convert is None else self._convert(inner)
        except (ValueError, TypeError) as error:
            raise InvalidArguments(f"{where}: {error}") from error
        except Exception as error:  # the author's own code, as a validator of a model
            raise InvalidArguments(f"{where}: {describe_exception(error)}") from error
        return converted


def answer_type(annotation: TypeForm[T]) -> AnswerType[T] | None:
    """What reads answers of a Python type; None for `str`: every reply is one.

    Raises:
        InvalidDefinition: The type has no JSON form.
    """
    if annotation is str:
        return None
    try:
        # Two unions of the same members are equal, whatever their order, which decides between members that both fit.
        hashed: Any = annotation
        return _remembered(hashed, repr(annotation))
    except TypeError:  # an annotation may hold what cannot be hashed
        return _compiled(annotation)


@lru_cache(_REMEMBERED)
def _remembered(annotation: Any, spelling: str) -> AnswerType[Any]:
    return _compiled(annotation)


def _compiled(annotation: Any) -> AnswerType[Any]:
    node = read_type(annotation)
    schema, convert = schema_of_node(node), converter_of_node(node)
    if schema.get("type") == "object":
        return AnswerType(schema, convert, takes_nulls=True)
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    whole = {"type": "object", "properties": {VALUE: inner}, "required": [VALUE], "additionalProperties": False}
    return AnswerType({**whole, **definitions}, convert, wrapped=True, takes_nulls=True)
