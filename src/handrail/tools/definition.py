"""What a model is told about a tool, and how its calls must be treated."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from handrail.core.calls import ResultLabels
from handrail.core.errors import InvalidDefinition
from handrail.core.usage_checks import check_keyword_names
from handrail.tools.definition_formats import canonical_definition
from handrail.tools.lookalikes import foreign_letters
from handrail.tools.plain_values import check_plain_schema
from handrail.tools.result_fields import field_steps
from handrail.tools.types.signature import read_function

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
KEBAB = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def why_name_is_unusable(name: str) -> str:
    """Why a name that `NAME` does not match cannot be used."""
    rule = "take 1 to 128 of A-Z a-z 0-9 _ . - and begin with a letter, a digit or _"
    return f"cannot be used; {rule}{foreign_letters(name)}"


def check_labels(definition: ToolDefinition) -> None:
    """
    Raises:
        InvalidDefinition: A label is no path, or names an argument that there is not.
    """
    fields = definition.untrusted if isinstance(definition.untrusted, tuple) else ()
    for label in (*fields, *definition.private, *definition.own):
        field_steps(label)
    if definition.extract is not None:
        check_plain_schema(definition.extract, definition.name)
        if not definition.untrusted:
            raise InvalidDefinition(
                f"{definition.name!r} has an extract, and nothing in its results is untrusted; say what is"
            )
    if not definition.directs and not definition.carries:
        return
    known = definition.input_schema.get("properties", {})
    for key in ("directs", "carries"):
        for argument in getattr(definition, key):
            if argument not in known:
                raise InvalidDefinition(
                    f"{key} of {definition.name!r} names {argument!r}, which is not one of its arguments:"
                    f" {', '.join(known) or 'it has none'}"
                )
    for argument in definition.directs:
        if argument in definition.carries:
            raise InvalidDefinition(f"{argument!r} of {definition.name!r} both directs and carries; keep one")


class Binding(Struct, frozen=True, omit_defaults=True):
    """How arguments become the body of a call to a capability on the bus."""

    capability: str
    version: tuple[int, int] = (1, 0)
    params: tuple[str, ...] = ()
    """The arguments that go to the capability's `params`; the others go to its `input`."""
    renames: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)

    @property
    def scope(self) -> str:
        return f"{self.capability}@{self.version[0]}.{self.version[1]}"


class ToolDefinition(Struct, frozen=True, omit_defaults=True):
    """The public description of one tool. It is a value: equal definitions compare equal."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    output_schema: dict[str, Any] | None = None
    side_effects: bool = False
    """It changes something: it needs a confirmation, is recorded before it runs, and never runs twice."""
    idempotent: bool = False
    """With the same idempotency key it may run again and changes nothing more."""
    timeout: float | None = None
    """Seconds; None takes the ensemble's or the policy's."""
    binding: Binding | None = None
    models: tuple[str, ...] | None = None
    """The models that may call it; None is all."""
    tags: tuple[str, ...] = ()
    untrusted: bool | tuple[str, ...] = False
    """Its results come from outside, as of a page or a mail: all of them, or these fields, as `comments[].text`.
    `Policy.after_untrusted` says what may follow them."""
    private: tuple[str, ...] = ()
    """Fields of its results that must not leave for foreign places."""
    own: tuple[str, ...] = ()
    """Fields that the application itself writes, as ids, in results that are untrusted else."""
    directs: tuple[str, ...] = ()
    """Arguments that direct what it does: a recipient, a path, an amount. What is in neither list goes by its name."""
    carries: tuple[str, ...] = ()
    """Arguments that are only content, as the text of a mail."""
    sends_out: bool = False
    """What it is given leaves for a foreign place, as the address that a fetch gets or the words of a web search."""

    extract: dict[str, Any] | None = None
    """The schema of what is told about its words from outside where the model does not read them: plain values only."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise InvalidDefinition(f"tool name {self.name!r} {why_name_is_unusable(self.name)}")
        if not isinstance(self.input_schema, dict) or self.input_schema.get("type", "object") != "object":
            raise InvalidDefinition(f"the input schema of {self.name!r} must describe an object: arguments have names")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise InvalidDefinition(f"the timeout of {self.name!r} must be more than 0 seconds, not {self.timeout!r}")
        check_labels(self)
        # A copy of its own: what the model is told and what is enforced cannot drift apart.
        for schema in ("input_schema", "output_schema", "extract"):
            msgspec.structs.force_setattr(self, schema, self._copied(getattr(self, schema)))

    def _copied(self, schema: Any) -> Any:
        try:
            return copy.deepcopy(schema)
        except RecursionError:
            raise InvalidDefinition(f"a schema of {self.name!r} is nested too deeply, or refers to itself") from None

    @classmethod
    def from_function(cls, function: Callable[..., Any], **changes: Any) -> ToolDefinition:
        """Read name, description and schemas off a function; `changes` override what it says."""
        check_keyword_names("ToolDefinition", changes, cls.__struct_fields__)
        shape = read_function(function)
        read = {
            "name": shape.name,
            "description": shape.description,
            "input_schema": shape.input_schema,
            "output_schema": shape.output_schema,
        }
        return cls(**{**read, **changes})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolDefinition:
        """Read a definition in any spelling the seeds and the providers use.

        Raises:
            InvalidDefinition: A key is unknown or missing; the message names it.
        """
        try:
            return msgspec.convert(canonical_definition(data), cls)
        except msgspec.ValidationError as error:
            raise InvalidDefinition(f"tool {data.get('name', '(unnamed)')!r}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """The one spelling we write. What is not set is left out."""
        written: dict[str, Any] = msgspec.to_builtins(self)
        return {"name": self.name, "description": self.description, **written}

    @property
    def labels(self) -> ResultLabels | None:
        """What is declared about the fields of its results, if that is more than that all is untrusted."""
        if isinstance(self.untrusted, bool) and not self.private and not self.own:
            return None
        return ResultLabels(self.untrusted, self.private, self.own)

    @property
    def reusable(self) -> bool:
        """Whether a call may run again."""
        return not self.side_effects or self.idempotent

    @property
    def parameters_schema(self) -> dict[str, Any]:
        return self.input_schema

    @property
    def returns(self) -> dict[str, Any] | None:
        return self.output_schema

    @property
    def timeout_ms(self) -> int | None:
        return None if self.timeout is None else round(self.timeout * 1000)
