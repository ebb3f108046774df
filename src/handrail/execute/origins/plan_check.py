"""Whether a call is the next step of its run's plan.

| an argument …                                   | fits if its value …                                           |
|--------------------------------------------------|---------------------------------------------------------------|
| that the plan gives a value                      | is that value                                                 |
| that the plan takes from a step                  | stands in that field of what the call of that step has given  |
| that the plan does not name, and that directs    | has a trusted origin without the plan                         |
| that the plan does not name, and that is content | is free                                                       |

Of a text that outsiders write, a part counts that is the only number or the only address in it. Where a field has
several values, or stands in a list that outsiders add to, the person's words say which is meant, unless a person has
allowed the plan for each. And if no person has allowed it, a result in which outsiders write counts only if the plan
says by values what is read. Otherwise whoever writes another record, or another line, could direct the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any

from handrail.core.canonical import canonical_json
from handrail.execute.origins.flow_check import ArgumentValue, CallValues
from handrail.execute.origins.plans import PlannedArgument, PlannedCall, PlanStep, RunPlan
from handrail.execute.origins.result_records import Record, field_has
from handrail.execute.origins.run_origins import RunOrigins
from handrail.execute.origins.trusted_words import plain_form
from handrail.execute.origins.urls import addresses_in
from handrail.execute.origins.written_dates import as_moment
from handrail.execute.origins.written_numbers import WrittenNumbers, as_number
from handrail.tools.result_fields import ITEM, Field, is_at_top
from handrail.tools.tool import Tool

OFF_PLAN = "it fits no step of the plan"
_LONGEST = 100_000
"""Characters of a text in which numbers are looked for."""


def fit_plan(
    plan: RunPlan, call_id: str, tool: Tool, arguments: dict[str, Any], origins: RunOrigins
) -> PlannedCall | None:
    """The step of the plan that a call is, which is used up by it; None if it is none."""
    if (known := plan.of_call(call_id)) is not None:
        return known
    values = CallValues(tool, arguments, origins)
    for number, step in plan.steps_for(tool.names):
        found = _StepCheck(plan, number, step, values, origins).fit()
        if found is not None:
            plan.use(call_id, found)
            return found
    return None


def why_by_plan(plan: RunPlan, planned: PlannedCall | None, tool: Tool, why: str) -> str:
    """Why a person is asked about a call: the reasons there are, and whether it is a step of the plan."""
    if planned is not None:
        return f"{why}; it is {planned.origin.words}" if why else ""
    if plan.asks and not tool.reads:
        return "; ".join(filter(None, (why, f"{OFF_PLAN} that a person has allowed")))
    return f"{why}; {OFF_PLAN}" if why and plan.id else why


class _StepCheck:
    """Compares one call with one step."""

    def __init__(self, plan: RunPlan, number: int, step: PlanStep, values: CallValues, origins: RunOrigins) -> None:
        self._plan = plan
        self._number = number
        self._step = step
        self._values = values
        self._origins = origins
        self._items: dict[int, set[str]] = {}
        """The items that have the values, by the step whose results have the items."""

    def fit(self) -> PlannedCall | None:
        step, given = self._step, self._values.arguments
        if self._values.is_too_much:
            return None
        for argument in step.arguments:
            if argument.name not in given or not self._has_value(argument, given[argument.name]):
                return None
        if not all(self._is_free(leaf) for leaf in self._values.leaves if step.argument(leaf.name) is None):
            return None
        item = ""
        if step.each and not (item := self._item_left()):
            return None
        covers = frozenset(leaf.pointer for leaf in self._values.leaves if step.argument(leaf.name) is not None)
        return PlannedCall(self._plan.id, self._number, item, covers)

    def _has_value(self, argument: PlannedArgument, value: Any) -> bool:
        if not argument.is_taken:
            return _is_same(value, argument.value)
        if any(isinstance(each, dict) for each in (value if isinstance(value, list) else [value])):
            return False  # nothing says where the names of its fields come from
        leaves = [leaf for leaf in self._values.leaves if leaf.name == argument.name]
        return bool(leaves) and all(self._is_from(argument, leaf) for leaf in leaves)

    def _is_free(self, leaf: ArgumentValue) -> bool:
        """Whether the plan need not say where a value comes from."""
        if leaf.role == "carries":
            return True
        if self._plan.asks and not self._values.tool.reads:  # a person allowed what they were shown and nothing else
            origin = self._values.origin_of(leaf)
            return origin is not None and origin.kind == "default"
        return not self._origins.outside or self._values.origin_of(leaf) is not None

    # ── what a result has ────────────────────────────────────────────────────────────

    def _is_from(self, argument: PlannedArgument, leaf: ArgumentValue) -> bool:
        """Whether a value stands in the field that is to fill it."""
        if leaf.value is None or leaf.value == "" or isinstance(leaf.value, bool):
            return False
        found = list(self._fields(argument))
        holding = [(record, field) for record, field in found if _stands_in(field, leaf.value)]
        if not holding:
            return False
        if self._step.each:
            self._note_items(argument, holding)
        if self._values.origin_of(leaf) is not None:
            return True
        is_for_each = self._plan.asks and self._step.each
        if not is_for_each and len({canonical_json(field.value) for _, field in found}) > 1:
            return False
        return any(self._is_clear(argument, record, field, leaf.value) for record, field in holding)

    def _is_clear(self, argument: PlannedArgument, record: Record, field: Field, value: Any) -> bool:
        """Whether nobody but who is meant can have chosen a value in a field."""
        if not (field.outside or record.of.is_mixed):
            return True
        if not (_is_same(field.value, value) or _is_alone(field, value)):
            return False
        if any(isinstance(each, int) for each in field.path):  # whoever adds to a list has a record in it
            return self._plan.asks and self._step.each
        return self._plan.asks or self._is_named(argument.from_step)

    def _fields(self, argument: PlannedArgument) -> Iterator[tuple[Record, Field]]:
        """The fields of this name in what the calls of a step have given."""
        wanted = argument.path
        for call_id in self._plan.calls_of(argument.from_step):
            result = self._origins.result_of(call_id)
            for record in () if result is None else result.records:
                for field in record.fields:
                    steps = tuple(ITEM if isinstance(each, int) else each for each in field.path)
                    if steps == wanted or (steps and wanted and is_at_top(steps, wanted)):
                        yield record, field

    def _is_named(self, number: int) -> bool:
        """Whether the plan itself says what the call of a step reads."""
        step = self._plan.plan.steps[number - 1]
        if step.each or any(argument.is_taken for argument in step.arguments):
            return False
        known = {argument.name for argument in step.arguments}
        return all(
            name in known or value is None
            for id in self._plan.calls_of(number)
            for name, value in self._origins.arguments_of(id).items()
        )

    def _note_items(self, argument: PlannedArgument, holding: list[tuple[Record, Field]]) -> None:
        items = {
            ".".join((record.of.result.tool_call_id, *(str(each) for each in field.path if isinstance(each, int))))
            for record, field in holding
        }
        known = self._items.get(argument.from_step)
        self._items[argument.from_step] = items if known is None else known & items

    def _item_left(self) -> str:
        """An item whose fields fill the arguments, all of them those of one item, and that is not used up."""
        combined = product(*(sorted(items) for _, items in sorted(self._items.items())))
        found = (" ".join(each) for each in combined if each)
        return next((each for each in found if not self._plan.is_used(self._number, each)), "")


def _is_same(value: Any, other: Any) -> bool:
    """Whether two values are one, in whatever notation of a number or a moment."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if canonical_json(value) == canonical_json(other):
        return True
    if (number := as_number(value)) is not None:
        return number == as_number(other)
    moment, beside = as_moment(value), as_moment(other)
    return moment is not None and beside is not None and moment.key == beside.key


def _stands_in(field: Field, value: Any) -> bool:
    """Whether a value is a field, or a whole part of its text."""
    if field_has(field, value):
        return True
    number = as_number(value)
    return number is not None and number in _numbers_in(field)


def _numbers_in(field: Field) -> set[Decimal]:
    if not isinstance(field.value, str) or len(field.value) > _LONGEST:
        return set()
    numbers = WrittenNumbers()
    numbers.read(field.value)
    return numbers.plain


def _is_alone(field: Field, value: Any) -> bool:
    """Whether a part of a text is the only number, or the only address, in it."""
    if (number := as_number(value)) is not None:
        return _numbers_in(field) == {number}
    if not isinstance(field.value, str):
        return False
    return {plain_form(each) for each in addresses_in(field.value)} == {plain_form(str(value))}
