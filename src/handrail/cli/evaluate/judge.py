"""Putting a case to a model with real tools, and judging what it did by the rules of `handrail probe`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from handrail.app import App
from handrail.cli.evaluate.cases import EvalCase, EvalFile
from handrail.cli.evaluate.trial_tools import TrialTools
from handrail.cli.probe.judge import fits
from handrail.core.calls import ToolCall
from handrail.core.context import Context
from handrail.core.errors import LimitExceeded, ProtocolError, ToolError
from handrail.core.ids import new_id
from handrail.core.interception import intercepted_by
from handrail.core.messages import Conversation, InvocationMessage
from handrail.core.ports import Clock, SystemClock
from handrail.execute.arguments import read_arguments
from handrail.sessions.llm import LLM
from handrail.tools.registry import RegisteredTools


class EvalVerdict(Struct, frozen=True, kw_only=True):
    """What a model did with one case."""

    case: str
    model: str
    right_calls: bool | None = None
    """Whether the calls were right; None if the case does not judge them."""
    right_answer: bool | None = None
    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    cost: float | None = None
    """The cost in US dollars, if the price is known."""
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    problem: str = ""

    @property
    def right(self) -> bool:
        return not self.problem and False not in (self.right_calls, self.right_answer)


async def judge_case(
    name: str, llm: LLM, app: App, file: EvalFile, case: EvalCase, clock: Clock = SystemClock()
) -> EvalVerdict:
    """Let the model and the tools go on to the end. Nothing that changes something runs.

    Raises:
        ModelError: The model cannot be reached.
    """
    said = file.conversation(case)
    began, problem = clock.monotonic(), ""
    try:
        with intercepted_by(TrialTools(file.results)):
            ended = await app.runner(llm).run(said, Context(run=new_id("run")))
    except (ProtocolError, LimitExceeded) as error:  # it answered, and not well: that is a verdict
        problem, ended = str(error), error.conversation or said
    return _verdict(name, case, said, ended, app.tools, clock.monotonic() - began, problem)


def _verdict(
    name: str,
    case: EvalCase,
    said: Conversation,
    ended: Conversation,
    tools: RegisteredTools,
    seconds: float,
    problem: str,
) -> EvalVerdict:
    made = ended.messages[len(said) :]
    calls = tuple(message.call for message in made if isinstance(message, InvocationMessage))
    answer, used = ended.text, ended.usage
    return EvalVerdict(
        case=case.id,
        model=name,
        right_calls=None if case.calls is None else _right_calls(case, calls, tools),
        right_answer=all(word.casefold() in answer.casefold() for word in case.words) if case.words else None,
        calls=calls,
        answer=answer,
        cost=used.cost,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        seconds=seconds,
        problem=problem,
    )


def _right_calls(case: EvalCase, calls: tuple[ToolCall, ...], tools: RegisteredTools) -> bool:
    """Whether exactly the right tools were called, each with right arguments that fit its schema."""
    wanted = [call.expected() for call in case.calls or ()]
    read: list[tuple[str, dict[str, Any]]] = []
    for call in calls:
        try:
            arguments, _ = read_arguments(call, tools.find(call.name), lenient=False)
        except ToolError:
            return False
        read.append((call.name, arguments))
    chosen = sorted(call.name for call in calls) == sorted(call.tool for call in wanted)
    return chosen and fits([call for call in wanted if call.arguments is not None], read, tools)
