"""Putting a case to a model, and judging strictly what it did: by the validator that every call goes through."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median
from typing import Any

from msgspec import Struct

from handrail.cli.probe.cases import ProbeCase, ProbeExpectedCall, ProbeSuite
from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.errors import ModelError, ProtocolError, ToolError
from handrail.core.messages import InvocationMessage
from handrail.core.ports import Clock, SystemClock
from handrail.execute.arguments import read_arguments
from handrail.execute.executor import Executor
from handrail.run.limits import Limits
from handrail.run.runner import Runner
from handrail.sessions.llm import LLM
from handrail.tools.registry import RegisteredTools


class ProbeVerdict(Struct, frozen=True, kw_only=True):
    """What a model did with one case. None where a case does not ask for it."""

    case: str
    kind: str
    well_formed: bool
    """The reply came whole; every call named a tool that there is, with arguments that fit its schema."""
    right_tool: bool | None = None
    right_arguments: bool | None = None
    no_tool: bool | None = None
    seconds: float = 0.0
    calls: tuple[ToolCall, ...] = ()
    problem: str = ""

    @property
    def right(self) -> bool:
        return self.well_formed and False not in (self.right_tool, self.right_arguments, self.no_tool)


class ProbeScore(Struct, frozen=True, kw_only=True):
    """All verdicts on one model."""

    model: str
    verdicts: tuple[ProbeVerdict, ...] = ()
    problem: str = ""
    """Why it could not be asked, or not to the end."""

    def share(self, of: str) -> tuple[int, int]:
        """How often something was the case, and how often it was looked at."""
        values = [getattr(each, of) for each in self.verdicts]
        return sum(value is True for value in values), sum(value is not None for value in values)

    @property
    def right(self) -> int:
        return sum(each.right for each in self.verdicts)

    @property
    def seconds(self) -> float:
        return median(each.seconds for each in self.verdicts) if self.verdicts else 0.0


async def probe_model(
    name: str,
    llm: LLM,
    suite: ProbeSuite,
    heard: Callable[[ProbeVerdict], None] = lambda verdict: None,
    clock: Clock = SystemClock(),
) -> ProbeScore:
    """Put every case to a model. One that cannot be reached is not asked on and on."""
    verdicts: list[ProbeVerdict] = []
    async with Executor(suite.registered(), clock=clock) as executor:
        for case in suite.case:
            try:
                verdicts.append(await _ask(case, llm, executor, clock))
            except ModelError as error:
                return ProbeScore(model=name, verdicts=tuple(verdicts), problem=str(error))
            heard(verdicts[-1])
    return ProbeScore(model=name, verdicts=tuple(verdicts))


async def _ask(case: ProbeCase, llm: LLM, executor: Executor, clock: Clock) -> ProbeVerdict:
    turns = max(len(case.calls), 1) if case.kind == "several" else 1
    runner = Runner(llm.model, executor, Limits(iterations=turns, on_limit="stop"), defaults=llm.defaults)
    said = case.conversation
    began = clock.monotonic()
    try:
        ended = await runner.run(said, Context(run=case.id))
    except ProtocolError as error:  # it answered, and not well: that is a verdict
        return _verdict(case, (), executor.tools, clock.monotonic() - began, str(error))
    made = (message for message in ended.messages[len(said) :] if isinstance(message, InvocationMessage))
    return _verdict(case, tuple(each.call for each in made), executor.tools, clock.monotonic() - began)


def _verdict(
    case: ProbeCase, calls: tuple[ToolCall, ...], tools: RegisteredTools, seconds: float, broke: str = ""
) -> ProbeVerdict:
    read: list[tuple[str, dict[str, Any]]] = []
    problems = [broke] if broke else []
    for call in calls:
        try:
            arguments, _ = read_arguments(call, tools.find(call.name), lenient=False)
            read.append((call.name, arguments))
        except ToolError as error:
            problems.append(error.message)
    whole = not problems
    chosen = whole and sorted(call.name for call in calls) == sorted(call.tool for call in case.calls)
    judged = [call for call in case.calls if call.arguments is not None]
    return ProbeVerdict(
        case=case.id,
        kind=case.kind,
        well_formed=whole,
        right_tool=chosen if case.calls else None,
        right_arguments=chosen and fits(judged, read, tools) if judged else None,
        no_tool=None if case.calls else not broke and not calls,
        seconds=seconds,
        calls=calls,
        problem="; ".join(problems),
    )


def fits(
    wanted: Iterable[ProbeExpectedCall], made: Iterable[tuple[str, dict[str, Any]]], tools: RegisteredTools
) -> bool:
    """Whether each wanted call was made once, with right arguments and no others but defaults."""
    left = list(made)
    for call in wanted:
        found = next((each for each in left if each[0] == call.tool and _right(call, each[1], tools)), None)
        if found is None:
            return False
        left.remove(found)
    return True


def _right(call: ProbeExpectedCall, arguments: dict[str, Any], tools: RegisteredTools) -> bool:
    wanted = call.arguments or {}
    properties = tools.find(call.tool).definition.input_schema["properties"]
    beside = {name: value for name, value in arguments.items() if name not in wanted}
    return all(value == properties[name].get("default") for name, value in beside.items()) and all(
        name in arguments and _normalised(arguments[name]) in map(_normalised, values)
        for name, values in wanted.items()
    )


def _normalised(value: Any) -> Any:
    """A text without what does not matter: capitals, and a full stop."""
    return value.strip().rstrip(".!").casefold() if isinstance(value, str) else value
