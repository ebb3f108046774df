"""What happened in a run, one line for each call, from its events. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from handrail.core.events import ConfirmationAnswered, ConfirmationRequested, Recorded
from handrail.journal.summaries import CallRecord, call_records

UNKNOWN = object()
"""In the place of arguments that were never recorded: the call was refused before it could begin."""


class TimelineLine(Struct, frozen=True, kw_only=True):
    at: int
    call_id: str
    tool: str
    arguments: Any
    """None if they were erased."""
    outcome: str
    took: int | None = None
    by: str = ""
    """Who gave the word on it."""


class RunConfirmations(Struct, frozen=True):
    """The questions to people in a run, and what they said."""

    asked: dict[str, ConfirmationRequested]
    answered: dict[str, ConfirmationAnswered]
    """Both by request."""

    @classmethod
    def of(cls, events: Sequence[Recorded]) -> RunConfirmations:
        asked = {event.request: event for event in events if isinstance(event, ConfirmationRequested)}
        answers = [event for event in events if isinstance(event, ConfirmationAnswered)]
        return cls(asked, {event.request: event for event in reversed(answers)})  # the first answer is the answer

    def about(self, call: CallRecord) -> ConfirmationRequested | None:
        """The question that decided a call."""
        if call.intent is not None:
            return None if call.intent.grant is None else self.asked.get(call.intent.grant)
        if call.answer is None or call.answer.outcome != "denied":
            return None
        return next((each for each in reversed(self.asked.values()) if each.call_id == call.call_id), None)

    def answer_for(self, call: CallRecord) -> ConfirmationAnswered | None:
        question = self.about(call)
        return None if question is None else self.answered.get(question.request)


def timeline(events: Sequence[Recorded]) -> list[TimelineLine]:
    """The calls of a run and the questions that no call has used yet, in the order in which they began."""
    words = RunConfirmations.of(events)
    calls = call_records(events)
    used = {question.request for call in calls if (question := words.about(call)) is not None}
    lines = [_of_call(call, words) for call in calls]
    lines += [_of_question(question, words) for request, question in words.asked.items() if request not in used]
    return sorted(lines, key=lambda line: line.at)


def outcome_of(call: CallRecord) -> str:
    """How a call ended, in a few words."""
    said = "open" if call.answer is None else call.answer.outcome + _remark(call)
    return said + "".join(f", later {each.outcome} ({_WHY[each.why]})" for each in call.amendments)


_WHY = {"late": "ended late", "person": "a person says"}


def _remark(call: CallRecord) -> str:
    result = None if call.answer is None else call.answer.result
    if result is None:
        return ""
    if result.still_running:
        return ", may still run"
    return ", reused" if result.reused_from is not None else ""


def _of_call(call: CallRecord, words: RunConfirmations) -> TimelineLine:
    question, given = words.about(call), words.answer_for(call)
    first = call.intent or call.asked or call.answer or call.amendments[0]
    said = call.intent or question or call.asked
    arguments = UNKNOWN if said is None else said.arguments
    return TimelineLine(
        at=first.at,
        call_id=call.call_id,
        tool=call.tool,
        arguments=arguments,
        outcome=outcome_of(call),
        took=None if call.answer is None else call.answer.duration_us,
        by="" if given is None else given.by,
    )


def _of_question(question: ConfirmationRequested, words: RunConfirmations) -> TimelineLine:
    given = words.answered.get(question.request)
    said = {"allow": "allowed, not run yet", "deny": "denied, not asked again"}
    return TimelineLine(
        at=question.at,
        call_id=question.call_id,
        tool=question.tool,
        arguments=question.arguments,
        outcome="waiting" if given is None else said[given.decision],
        by="" if given is None else given.by,
    )
