"""A plan: which tools a model will use, in which order, and what will fill their arguments.

It is stated before anything is read that outsiders wrote, so it belongs to what is trusted, as the person's words do.
Each step is good for one call; one that is made for each item of a list, for one call of each item.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from handrail.core.origins import ArgumentOrigin, Origin
from handrail.tools.argument_roles import argument_roles
from handrail.tools.result_fields import field_steps
from handrail.tools.tool import Tool

PLAN_NOTED = "The plan is noted. Go on by it."
PLAN_ALLOWED = "The plan was allowed by a person. Go on by it."
PLAN_EMPTY = "The plan is noted, and changes nothing. A person is asked about everything that does."
PLAN_WAITS = "The plan waits for a person's approval. Continue with it; each effect needs approval until then."
_ITEM = re.compile(r"\[(?:\d+|\*)\]")
_FIRST = re.compile(r"^((?:\[\])+)\.")
_DIGITS = len("sha256:") + 12
_STEP = re.compile(r"step (\d+)(?:, item (.+))?", re.DOTALL)


def is_plan_answer(content: Any) -> bool:
    """Whether a call was answered so that has stated a plan. These are our own words, whoever tells them."""
    return isinstance(content, str) and content in (PLAN_NOTED, PLAN_ALLOWED, PLAN_EMPTY, PLAN_WAITS)


class PlannedArgument(Struct, frozen=True, omit_defaults=True):
    """An argument, and what fills it: a value that is known now, or a field of an earlier step's result."""

    name: str
    value: Any | UnsetType = UNSET
    from_step: int = 0
    field: str = ""

    @property
    def is_taken(self) -> bool:
        """Whether a result fills it."""
        return self.value is UNSET

    @property
    def path(self) -> tuple[str, ...]:
        """The steps that lead to its field, in whichever way a model writes a path.

        Raises:
            InvalidDefinition: It is none.
        """
        label = _ITEM.sub("[]", self.field.removeprefix("$").removeprefix("."))
        return field_steps(_FIRST.sub(r"\1", label)) if label else ()

    @property
    def words(self) -> str:
        if not self.is_taken:
            return f"{self.name}={msgspec.json.encode(self.value).decode()}"
        return f"{self.name}={self.field or 'the result'} of step {self.from_step}"


class PlanStep(Struct, frozen=True, omit_defaults=True):
    """One call that will be made, or one for each item of a list."""

    tool: str
    arguments: tuple[PlannedArgument, ...] = ()
    each: bool = False

    def argument(self, name: str) -> PlannedArgument | None:
        return next((each for each in self.arguments if each.name == name), None)

    @property
    def words(self) -> str:
        """The step as a person reads it."""
        listed = ", ".join(each.words for each in self.arguments)
        return f"{self.tool}({listed}){', for each' if self.each else ''}"


class Plan(Struct, frozen=True):
    steps: tuple[PlanStep, ...] = ()


class PlannedCall(Struct, frozen=True):
    """A call that fits a step of the plan."""

    plan: str
    """The id of the call by which the plan was stated."""
    number: int
    """Of the step, from 1."""
    item: str = ""
    """The item of a list for which it is made, if the step is made for each."""
    covers: frozenset[str] = frozenset()
    """The arguments whose values the plan declares, as JSON pointers."""

    @property
    def origin(self) -> Origin:
        item = f", item {self.item}" if self.item else ""
        return Origin("plan", call=self.plan, path=f"step {self.number}{item}")

    def told(self, found: tuple[ArgumentOrigin, ...]) -> tuple[ArgumentOrigin, ...]:
        """What was found about the arguments, and that the plan has this call."""
        kept = [
            msgspec.structs.replace(each, trusted=True, origins=(self.origin, *each.origins))
            if each.argument in self.covers and not each.trusted
            else each
            for each in found
        ]
        return (ArgumentOrigin("", "directs", True, (self.origin,)), *kept)


class RunPlan:
    """The plan of a run, and which of its steps are used up."""

    def __init__(self, id: str, plan: Plan, tools: Sequence[Tool], *, asks: bool) -> None:
        """`tools` are those of the steps. `asks` says that a person has to allow the plan, and that nothing else is
        done without a question."""
        self.id: str = id
        self.plan: Plan = plan
        self.asks: bool = asks
        self._tools = tools
        self._effects = tuple(not tool.reads for tool in tools)
        self._calls: dict[int, list[str]] = {}
        """The calls of each step that is used up, or of which an item is."""
        self._used: dict[str, PlannedCall] = {}

    @classmethod
    def none(cls, *, asks: bool) -> RunPlan:
        """Where no plan was stated, or it is not for the calls of this run, as that which a call began."""
        return cls("", Plan(), (), asks=asks)

    @property
    def shown(self) -> dict[str, Any]:
        """What a person is asked about: what their decision is bound to, with the definitions of its tools."""
        steps = zip(self.plan.steps, self._tools, strict=True)
        return {
            "steps": [
                f"{number}. {step.words}{_left_open(step, tool)}" for number, (step, tool) in enumerate(steps, 1)
            ],
            "tools": sorted({f"{tool.scoped_name}@{tool.digest[:_DIGITS]}" for tool in self._tools}),
        }

    @property
    def has_effects(self) -> bool:
        return any(self._effects)

    @property
    def steps_left(self) -> bool:
        """Whether a call may still be a step."""
        return len(self._calls) < len(self.plan.steps) or any(step.each for step in self.plan.steps)

    def steps_for(self, tool: tuple[str, ...]) -> Iterator[tuple[int, PlanStep]]:
        """The steps that a call of a tool may be, the next one first. A side effect comes only after those before it;
        one that is made for each item may be made for none."""
        last = max((number for number in self._calls if self._effects[number - 1]), default=0)
        is_blocked = False
        for number, step in enumerate(self.plan.steps, 1):
            changes = self._effects[number - 1]
            is_left = number not in self._calls or step.each
            if is_left and step.tool in tool and not (changes and (is_blocked or number < last)):
                yield number, step
            if changes and not step.each and number not in self._calls:
                is_blocked = True

    def is_used(self, number: int, item: str) -> bool:
        return any(self._used[id].item == item for id in self._calls.get(number, ()))

    def calls_of(self, number: int) -> tuple[str, ...]:
        """The calls that were made for a step."""
        return tuple(self._calls.get(number, ()))

    def of_call(self, call_id: str) -> PlannedCall | None:
        return self._used.get(call_id)

    def use(self, call_id: str, call: PlannedCall) -> None:
        """Use a step up, before the call is made: two calls at once do not share one."""
        self._calls.setdefault(call.number, []).append(call_id)
        self._used[call_id] = call

    def give_back(self, call_id: str) -> None:
        """The call failed: nothing was read, and nothing changed."""
        call = self._used.pop(call_id, None)
        if call is not None:
            self._calls[call.number].remove(call_id)
            if not self._calls[call.number]:
                del self._calls[call.number]

    def restore(self, intended: Mapping[str, tuple[ArgumentOrigin, ...]]) -> None:
        """Use up what the record has used up: the arguments' origins of each call that was begun."""
        for call_id, origins in intended.items():
            for origin in (each for argument in origins if not argument.argument for each in argument.origins):
                found = _STEP.fullmatch(origin.path) if origin.kind == "plan" and origin.call == self.id else None
                if found is not None and int(found[1]) <= len(self.plan.steps) and call_id not in self._used:
                    self.use(call_id, PlannedCall(self.id, int(found[1]), found[2] or ""))


def _left_open(step: PlanStep, tool: Tool) -> str:
    """The content that the model writes when the step is made, for the person who is asked."""
    named = {argument.name for argument in step.arguments}
    roles = () if tool.reads else argument_roles(tool.definition).items()
    names = [name for name, role in roles if role == "carries" and name not in named]
    return f"; {', '.join(names)} as the model will write it" if names else ""
