"""The plan of a run: how a model is asked for it, what is wrong with one, and which one a conversation has.

It is stated by a call, as a typed answer is, and nothing else is offered beside it. So it is in the conversation and on
record with what was wrong with those before it, and a run that is taken up goes on by the same plan. It is asked for
right after the person's words, and only if the run has read nothing from outside; the person's next words end it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.context import Context
from handrail.core.errors import InvalidArguments, InvalidDefinition, UsageError
from handrail.core.messages import AssistantMessage, InvocationMessage, Message, ResultMessage, SupervisorMessage
from handrail.core.model_request import ToolOffer
from handrail.execute.executor import Executor
from handrail.execute.ledger import CallLedger
from handrail.execute.origins.plans import PLAN_NOTED, Plan, PlannedArgument, PlanStep, RunPlan, is_plan_answer
from handrail.run.history import last_user_position
from handrail.tools.answer_type import AnswerType
from handrail.tools.argument_roles import argument_role
from handrail.tools.finder import FIND_TOOLS
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool

Plans = Literal["ask"] | bool
"""Whether runs begin with a plan, and whether a person is asked about it."""

PLAN_TOOL = "state_plan"
WHY_ASKED = "one word allows every step, as it stands there; what the model does besides is asked about"
STATE_PLAN = f"There is no plan yet: it is given to {PLAN_TOOL!r}."
_NAME = re.compile(r"[\w-]{1,64}")
_MOST_STEPS = 50
_LONGEST = 20_000
"""Characters of a plan."""
_LINE = 300
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "steps": {
            "type": "array",
            "maxItems": _MOST_STEPS,
            "items": {
                "type": "object",
                "properties": {
                    "tool": {"type": "string", "description": "The name of the tool."},
                    "arguments": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string", "description": "The name of the argument."},
                                "value": {"description": "Its value, where it is known now."},
                                "from_step": {
                                    "type": "integer",
                                    "minimum": 1,
                                    "description": "Else: the number of the earlier step whose result has the value.",
                                },
                                "field": {
                                    "type": "string",
                                    "description": "The field of that result, as 'iban' or 'mails[].id'. Leave it out"
                                    " where the result is a text.",
                                },
                            },
                            "required": ["name"],
                            "additionalProperties": False,
                        },
                    },
                    "each": {
                        "type": "boolean",
                        "description": "Whether it is called once for each item of a list in an earlier result.",
                    },
                },
                "required": ["tool"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["steps"],
    "additionalProperties": False,
}
_ASKED = """\
State what you will do for the user's last words, before anything is read. Nothing runs yet; carry it out afterwards.
Name every call in its order, with every argument that decides what it does: as a value that you know from the user's
words, or as the field of an earlier step's result. Leave out only texts that you will write later. Give no steps if
you need no tool. What is not in the plan may be refused. These are the tools:
"""
_READER = AnswerType.of_schema(_SCHEMA)


def checked_plans(plans: Plans, executor: Executor) -> Plans:
    """
    Raises:
        UsageError: There is no such way, or the policy asks for no origins, which a plan is one of.
    """
    if plans not in (False, True, "ask"):
        raise UsageError(f"plan is True, False or 'ask', not {plans!r}")
    if plans and PLAN_TOOL in executor.tools:
        raise UsageError(f"a tool of yours is called {PLAN_TOOL!r}, the name by which plans are stated; rename it")
    if plans and executor.policy.after_untrusted != "origins":
        raise UsageError(
            "a plan says where values come from, and the policy does not ask: leave out"
            f" after_untrusted={executor.policy.after_untrusted!r}, or plan="
        )
    return plans


def plan_offer(tools: Iterable[Tool]) -> ToolOffer:
    """What the model states its plan with. It tells of the tools, none of which can be called yet."""
    listed = "\n".join(f"- {_told(tool)}" for tool in tools)
    return ToolOffer(PLAN_TOOL, _ASKED + listed, _SCHEMA)


def plannable_tools(tools: RegisteredTools, context: Context) -> tuple[Tool, ...]:
    """The tools of a run that steps of a plan may name: not those by which the runtime itself works."""
    own = (tool for tool in tools if not tool.replays and tool.name != FIND_TOOLS)
    return tuple(tool for tool in own if context.allows(*tool.names))


def _told(tool: Tool) -> str:
    """A tool in a line. Of one whose words are an outsider's, as of a foreign server's, only names are told."""
    definition = tool.definition
    known: dict[str, Any] = definition.input_schema.get("properties", {})
    required = definition.input_schema.get("required", ())
    names = [f"{name}{'' if name in required else '?'}" for name in known if _NAME.fullmatch(name)]
    told = f"{tool.name}({', '.join(names)}){'' if tool.reads else ', which changes something'}"
    if definition.untrusted is not True:
        words = " ".join(definition.description.split())
        told += f": {words[:_LINE]}" if words else ""
        fields = list(dict.fromkeys(_fields(definition.output_schema, (definition.untrusted or ()), tool)))
        told += f" Its result has {', '.join(fields)}." if fields else ""
    return told


def _fields(schema: dict[str, Any] | None, untrusted: tuple[str, ...], tool: Tool) -> Iterator[str]:
    named = (schema or {}).get("properties", {})
    if isinstance(named, dict):
        yield from (name for name in named if _NAME.fullmatch(name))
    yield from (*tool.definition.own, *untrusted, *tool.definition.private)


def read_plan(arguments: dict[str, Any] | str, tools: Iterable[Tool]) -> Plan:
    """The plan that a model has stated.

    Raises:
        InvalidArguments: It is none that could be followed, with every reason, in words for the model.
    """
    value = _READER.read_arguments(arguments)
    if len(msgspec.json.encode(value)) > _LONGEST:
        raise InvalidArguments(f"the plan is too long: at most {_LONGEST:,} characters")
    try:
        plan = msgspec.convert(value, Plan)
    except msgspec.ValidationError as error:  # as of 1.0, which the schema takes for an integer
        raise InvalidArguments(str(error)) from error
    by_name = {name: tool for tool in tools for name in tool.names}
    if problems := [each for at, step in enumerate(plan.steps, 1) for each in _problems(at, step, plan, by_name)]:
        raise InvalidArguments(problems)
    return plan


def _problems(at: int, step: PlanStep, plan: Plan, tools: dict[str, Tool]) -> Iterator[str]:
    tool = tools.get(step.tool)
    if tool is None:
        yield f"step {at}: there is no tool {step.tool!r}"
        return
    known: dict[str, Any] = tool.definition.input_schema.get("properties", {})
    names = [argument.name for argument in step.arguments]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield f"step {at}: {name!r} stands there more than once"
        if name not in known:
            yield f"step {at}: {step.tool!r} has no argument {name!r}"
        elif name in tool.secrets:
            yield f"step {at}: {name!r} is a secret and has no place in a plan; leave it out"
    for argument in step.arguments:
        yield from _problems_of(at, argument, plan)
    if not tool.reads:
        for name in tool.definition.input_schema.get("required", ()):
            directs = argument_role(tool.definition, name, known.get(name)) == "directs"
            if name not in names and directs and name not in tool.secrets:
                yield f"step {at}: say what {name!r} is, or of which step's result"
    if step.each and not any(argument.is_taken for argument in step.arguments):
        yield f"step {at}: 'each' is for a call that takes an argument from each item of an earlier result"


def _problems_of(at: int, argument: PlannedArgument, plan: Plan) -> Iterator[str]:
    if argument.is_taken == (argument.from_step == 0):
        yield f"step {at}: give {argument.name!r} either a value or 'from_step'"
    elif argument.is_taken and argument.from_step >= at:
        yield f"step {at}: {argument.name!r} can only come from a step before it, not from {argument.from_step}"
    elif argument.field:
        try:
            _ = argument.path
        except InvalidDefinition as error:
            yield f"step {at}: {error}"


def is_plan(result: ToolResult) -> bool:
    """Whether a result is that of a call that stated a plan. No tool has its name where there are plans."""
    return result.name == PLAN_TOOL


# ── in a conversation ────────────────────────────────────────────────────────────────


def plan_is_due(messages: tuple[Message, ...]) -> bool:
    """Whether the person has spoken and nothing was done for it yet: the model has only said what was refused."""
    at = last_user_position(messages)
    since = messages[at + 1 :]
    refused = {each.invocation_id for each in since if isinstance(each, ResultMessage) and each.result.is_error}
    return at >= 0 and all(
        isinstance(each, AssistantMessage | SupervisorMessage)
        or (isinstance(each, ResultMessage) and each.invocation_id in refused)
        or (isinstance(each, InvocationMessage) and (each.id in refused or each.call.name == PLAN_TOOL))
        for each in since
    )


def refused_plans(messages: tuple[Message, ...]) -> int:
    """The number of plans that were refused since the person last spoke, words in place of a plan included."""
    since = messages[last_user_position(messages) + 1 :]
    words = sum(isinstance(each, SupervisorMessage) and each.text == STATE_PLAN for each in since)
    return words + sum(isinstance(each, ResultMessage) and each.result.is_error for each in since)


def run_plan(call: ToolCall, plan: Plan, tools: RegisteredTools, *, asks: bool) -> RunPlan:
    return RunPlan(call.id, plan, [tools.find(step.tool) for step in plan.steps], asks=asks)


def take_up_plan(messages: tuple[Message, ...], ledger: CallLedger, plans: Plans) -> None:
    """Have a run go on by the plan that was noted for the person's last words, whoever takes it up. Only one that this
    run has on record counts: a conversation may come from anywhere."""
    call, answer = _noted_plan(messages[last_user_position(messages) + 1 :])
    if call is None or not ledger.has_end(call.id):
        ledger.plan = RunPlan.none(asks=plans == "ask") if plans else None
    elif ledger.plan is None or ledger.plan.id != call.id:
        try:
            plan = read_plan(call.arguments, ledger.tools)
        except InvalidArguments:  # its tools are other ones now, or it was changed
            plan = Plan()
        ledger.plan = run_plan(call, plan, ledger.tools, asks=plans == "ask" or answer != PLAN_NOTED)
        ledger.plan.restore({id: begun.origins or () for id, begun in ledger.before.items()})


def _noted_plan(since: Sequence[Message]) -> tuple[ToolCall | None, Any]:
    """The call that stated the plan, before any other was made, and what it was answered."""
    asked: dict[str, ToolCall] = {}
    for message in since:
        match message:
            case InvocationMessage(call=call):
                if call.name == PLAN_TOOL:
                    asked[call.id] = call
            case ResultMessage(result=result):
                if is_plan(result) and is_plan_answer(result.content):
                    return asked.get(result.tool_call_id), result.content
                if not result.is_error:
                    break
    return None, None
