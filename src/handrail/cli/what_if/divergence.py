"""Putting each turn of a recorded run to a model under a policy, and saying where it goes another way."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from handrail.cli.what_if.recorded_run import (
    RecordedOutputs,
    RecordedReply,
    RecordedRun,
    RecordedTurn,
    TurnCall,
    call_key,
    turn_calls,
)
from handrail.core.context import Context
from handrail.core.errors import ModelError
from handrail.core.ids import nested_id
from handrail.core.interception import intercepted_by
from handrail.core.messages import Conversation, SupervisorMessage
from handrail.execute.executor import Executor
from handrail.run.limits import Limits
from handrail.run.offering import Offering
from handrail.run.runner import Runner
from handrail.sessions.llm import LLM

Divergence = Literal["calls", "outcome", "words", "error"]
"""Other calls; the same calls with other outcomes; another answer; no reply."""
DIVERGES: tuple[Divergence, ...] = ("calls", "outcome", "error")
"""The divergences that count as a failure. Other words in an answer are shown, and are no failure."""


class TurnComparison(Struct, frozen=True, kw_only=True):
    run: str
    turn: int
    """The number of the turn, from 1."""
    diverges: Divergence | None
    recorded_calls: tuple[TurnCall, ...]
    recorded_text: str
    calls: tuple[TurnCall, ...] = ()
    text: str = ""
    problem: str = ""

    @property
    def is_failure(self) -> bool:
        return self.diverges in DIVERGES


class Alternative(Struct, frozen=True):
    """What is otherwise than in the record."""

    executor: Executor
    offering: Offering
    llm: LLM | None = None
    """The model that is asked; None replies as in the record."""
    system: str | None = None


async def compare_turn(of: RecordedRun, number: int, other: Alternative) -> TurnComparison:
    """Asks the model once and settles its calls, of which none runs."""
    turn = of.turns[number]
    said = turn.before if other.system is None else _with_system_prompt(turn.before, other.system)
    outputs = RecordedOutputs(turn)
    compared = TurnComparison(
        run=of.run, turn=number + 1, diverges="error", recorded_calls=turn.settled, recorded_text=turn.text
    )
    runner = _runner(turn, other)
    try:
        with intercepted_by(outputs):
            ended = await runner.run(said, Context(run=nested_id(of.run, f"what-if-{number}")))
    except ModelError as error:
        return replace(compared, problem=str(error))
    calls = turn_calls(ended, len(said), outputs.permitted, other.executor.tools)
    text = ended.text if len(ended) > len(said) else ""
    return replace(compared, calls=calls, text=text, diverges=_divergence(turn, calls, text))


def _runner(turn: RecordedTurn, other: Alternative) -> Runner:
    once = Limits(iterations=1, on_limit="stop")
    if other.llm is None:
        return Runner(RecordedReply(turn, other.executor.tools), other.executor, once, offering=other.offering)
    llm = other.llm
    return Runner(llm.model, other.executor, once, defaults=llm.defaults, offering=other.offering, valid=llm.valid)


def _divergence(turn: RecordedTurn, calls: tuple[TurnCall, ...], text: str) -> Divergence | None:
    then, now = (sorted(call_key(each.tool, each.arguments) for each in made) for made in (turn.settled, calls))
    if then != now:
        return "calls"
    if _outcomes(turn.settled) != _outcomes(calls):
        return "outcome"
    return "words" if not calls and text.strip() != turn.text.strip() else None


def _outcomes(calls: tuple[TurnCall, ...]) -> list[tuple[str, str]]:
    """The outcome of each call. A call that the record does not answer is not compared."""
    return sorted((call_key(each.tool, each.arguments), each.outcome) for each in calls if each.outcome)


def _with_system_prompt(conversation: Conversation, system: str) -> Conversation:
    """With another system prompt in place of the first message, if that is one."""
    messages = conversation.messages
    rest = messages[1:] if messages and isinstance(messages[0], SupervisorMessage) else messages
    return Conversation().supervised(system).add(*rest)
