"""Who writes the fields of what a capability answers: said by its node, believed by another one only as configured.

Labels travel in the `meta` of a response, as `labels`, and so in the last frame of a stream. They are what the node
that answers says. A node that passes an answer on, or uses it, does not let another one raise trust: unless it is
configured to believe that node, all of an answer counts as written by outsiders. What lowers trust is taken from
anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import ValidationError, convert, to_builtins

from handrail.core.calls import ResultLabels
from handrail.core.errors import InvalidDefinition
from handrail.tools.definition import ToolDefinition
from handrail.tools.result_fields import field_steps

LABELS = "labels"
"""The key in `meta`."""
OUTSIDE = ResultLabels(untrusted=True)
_MOST = 200
"""Labels of one answer."""


def labels_of_tool(definition: ToolDefinition) -> ResultLabels | None:
    """The labels of the answers of a tool that is a capability: its result is in their `content`."""
    labels = definition.labels or (OUTSIDE if definition.untrusted else None)
    if labels is None:
        return None
    own = tuple(f"{place}{label}" for label in labels.own for place in ("content.", "content[]."))
    return ResultLabels(labels.untrusted, labels.private, tuple(label for label in own if "[].[]" not in label))


def with_labels(meta: Mapping[str, Any], labels: ResultLabels | None) -> dict[str, Any]:
    """The `meta` of a response with these labels, and no others."""
    rest = {key: value for key, value in meta.items() if key != LABELS}
    return rest if labels is None else {**rest, LABELS: to_builtins(labels)}


def said_labels(meta: Mapping[str, Any]) -> ResultLabels | None:
    """What an answer says of its own fields. What cannot be read counts as written by outsiders."""
    said = meta.get(LABELS)
    if said is None:
        return None
    try:
        labels = convert(said, ResultLabels)
        stated = labels.untrusted if isinstance(labels.untrusted, tuple) else ()
        fields = (*stated, *labels.private, *labels.own)
        if len(fields) > _MOST:
            return OUTSIDE
        for each in fields:
            field_steps(each)
    except (ValidationError, InvalidDefinition):
        return OUTSIDE
    return labels


def labels_from_elsewhere(meta: Mapping[str, Any], *, believed: bool) -> ResultLabels | None:
    """The labels of an answer that another node gave, as they count here."""
    said = said_labels(meta)
    if believed:
        return said
    return OUTSIDE if said is None else ResultLabels(True, said.private)
