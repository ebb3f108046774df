"""What becomes of each field of a request: it is honoured, ignored, or refused by its name.

Each API has one table with every field that its official client can send. A field that is in no table is refused too,
so that nothing a client asks for is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from handrail.node.gateways.request_parsing import refuse_field

Treatment = Literal["honoured", "ignored", "hint", "refused"]
_SHOWN = 60
"""Characters of a field's name that an error shows."""


class FieldRule(Struct, frozen=True):
    """How one field is treated.

    - `honoured`: the node does what it says.
    - `ignored`: it concerns billing, caching or bookkeeping of the original service; the answer does not change.
    - `hint`: it asks for more or less effort; the answer is made without it, and a notice says so.
    - `refused`: the answer would not be what the client asked for.
    """

    treatment: Treatment
    reason: str = ""
    """Why it is ignored, or what to do instead of what is refused."""
    neutral: tuple[Any, ...] = ()
    """Values of a refused field or a hint that ask for nothing, as `n = 1`."""
    api_details: dict[str, Any] | None = None
    """What the official client looks for in the error, to go on by itself."""


FieldTable = Mapping[str, FieldRule]

HONOURED = FieldRule("honoured")
EXTENSION: FieldTable = {"handrail": HONOURED}
"""What every table has beside the fields of its API."""
NOT_PASSED_ON = "is not passed on to the models of this node; leave it out"
CACHING = "caching is decided by the model's service"


def honoured_fields(body: type[Struct]) -> FieldTable:
    """Every field of a body that is read. A table that overrides one says what finally becomes of it."""
    return dict.fromkeys(body.__struct_encode_fields__, HONOURED)


def ignored_field(reason: str) -> FieldRule:
    return FieldRule("ignored", reason)


def hint_field(reason: str, *neutral: Any) -> FieldRule:
    return FieldRule("hint", reason, neutral)


def refused_field(reason: str, *neutral: Any) -> FieldRule:
    return FieldRule("refused", reason, neutral)


def check_fields(body: Mapping[str, Any], table: FieldTable, within: str = "") -> tuple[str, ...]:
    """The hints among the fields of a body, which have no effect. A field that is `null` counts as absent.

    Raises:
        BusError: A field is refused or unknown; the error names it.
    """
    hints: list[str] = []
    for name, value in body.items():
        if value is None:
            continue
        rule, place = table.get(name), f"{within}{name[:_SHOWN]}"
        if rule is None:
            refuse_field(place, "is not a field of this API; leave it out")
        if rule.treatment in ("honoured", "ignored") or any(_same(value, each) for each in rule.neutral):
            continue
        if rule.treatment == "refused":
            more = {} if rule.api_details is None else {"api_details": rule.api_details}
            refuse_field(place, rule.reason, **more)
        hints.append(place)
    return tuple(hints)


def _same(value: Any, other: Any) -> bool:
    """JSON's equality: `true` is not 1."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)
