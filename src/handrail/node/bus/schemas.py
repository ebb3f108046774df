"""The schemas of capabilities: held to bodies and responses, and put together from those of tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from handrail.core.bounded_memory import BoundedMemory
from handrail.core.errors import BusError
from handrail.core.redact import redact_text
from handrail.node.bus.descriptor import CapabilityDescriptor
from handrail.tools.schema.validator import Validator

_VALUES = frozenset({"const", "enum", "default", "examples", "example"})
"""What stands there is data, whatever it looks like."""
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Their keys are names of the author's."""


class CapabilitySchemas:
    """What `bus.schema` is: checks without a call."""

    def __init__(self) -> None:
        self._known = BoundedMemory[tuple[int, str], tuple[CapabilityDescriptor, Validator]](1_000)

    def validate_request(self, descriptor: CapabilityDescriptor, body: Any) -> None:
        """Holds the body of a call to the schema of its capability.

        Raises:
            BusError: It does not fit (`bad_request`), with every problem at once.
        """
        found = self._validator(descriptor, "request", lambda: descriptor.request_schema)
        if problems := found.problems(body):
            raise bad_request_error(problems)

    def validate_response(self, descriptor: CapabilityDescriptor, response: Any) -> None:
        """Holds a response to the schema of its capability.

        Raises:
            BusError: It is none, or its `output` does not fit (`internal_error`).
        """
        found = self._validator(descriptor, "response", lambda: response_shape(descriptor.response_schema))
        if problems := found.problems(response):
            why = redact_text("; ".join(problems))
            raise BusError("internal_error", f"the response of {descriptor.full_name}: {why}")

    def forget(self, descriptor: CapabilityDescriptor) -> None:
        for what in ("request", "response"):
            self._known.pop((id(descriptor), what), None)

    def _validator(
        self, descriptor: CapabilityDescriptor, what: str, schema: Callable[[], dict[str, Any]]
    ) -> Validator:
        key = (id(descriptor), what)
        known = self._known.get(key)
        if known is None or known[0] is not descriptor:
            made = Validator(schema(), f"the {what} of {descriptor.full_name}", root=f"({what})")
            known = self._known[key] = (descriptor, made)
        return known[1]


def bad_request_error(problems: list[str]) -> BusError:
    """The error for a body with these problems, in which whatever looks like a secret is masked."""
    told = [redact_text(each) for each in problems]
    return BusError("bad_request", "; ".join(told), outcome="invalid_arguments", problems=told)


def response_shape(output: dict[str, Any] | None) -> dict[str, Any]:
    """The schema of a whole response, from that of its `output`."""
    return object_schema_of({"output": {"type": "object"} if output is None else output}, {"meta": {"type": "object"}})


def object_schema_of(needed: Mapping[str, dict[str, Any]], beside: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """An object that has these schemas as its properties; references in them go on meaning what they meant."""
    dialects = {schema["$schema"] for schema in needed.values() if isinstance(schema.get("$schema"), str)}
    inner = {name: _moved(schema, f"#/properties/{name}") for name, schema in needed.items()}
    for schema in inner.values():
        schema.pop("$schema", None)
    return {
        **({"$schema": dialects.pop()} if len(dialects) == 1 else {}),
        "type": "object",
        "properties": {**inner, **beside},
        "required": list(needed),
    }


def _moved(schema: Any, to: str) -> Any:
    if isinstance(schema, list):
        return [_moved(item, to) for item in schema]
    if not isinstance(schema, Mapping) or isinstance(schema.get("$id"), str):  # with a name, it refers to itself by it
        return schema
    found = {key: _moved_below(key, item, to) for key, item in schema.items()}
    reference = found.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        found["$ref"] = to + reference[1:]
    return found


def _moved_below(key: str, item: Any, to: str) -> Any:
    if key in _VALUES:
        return item
    if key in _NAMED and isinstance(item, Mapping):
        return {name: _moved(sub, to) for name, sub in item.items()}
    return _moved(item, to)
