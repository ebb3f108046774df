"""The calls of a run, one line for each; and one call, or one entry, with everything that is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from handrail.cli import text
from handrail.cli.output.view import CommandView, answer
from handrail.core.calls import ToolResult
from handrail.core.events import CallAmended, CallIntended, ConfirmationAnswered, ConfirmationRequested, Recorded
from handrail.journal.reader import JournalRow
from handrail.journal.summaries import CallRecord, call_records

UNKNOWN = object()
"""Stands for arguments that were never recorded, because the call was refused before it could begin."""


class TimelineLine(Struct, frozen=True, kw_only=True):
    at: int
    call_id: str
    tool: str
    arguments: Any
    """The arguments of the call; None if they were erased."""
    outcome: str
    took: int | None = None
    by: str = ""
    """The name of whoever approved or denied the call."""


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


ERASED = "[erased; its digest is still in the record]"


def print_call(view: CommandView, entries: Sequence[JournalRow]) -> None:
    """The entries of one call id, as the calls they tell of. Usually that is one."""
    events = [entry.event for entry in entries]
    words = RunConfirmations.of(events)
    places = ", ".join(str(entry.seq) for entry in entries)
    for number, call in enumerate(call_records(events)):
        if number:
            answer()
        answer(f"call {text.printable(call.call_id)}", "title")
        print_fields([("run", text.printable(call.run)), ("entries", places), *_fields(view, call, words)])
        if (said := call.intent or call.asked) is not None:
            print_body("arguments", said.arguments)
        if call.answer is not None:
            _print_result("result", call.answer.result)
        for each in call.amendments:
            _print_result(f"result, known later ({each.why})", each.result)
    _print_questions(view, events, words)


def print_entry(view: CommandView, entry: JournalRow) -> None:
    """One entry as it was recorded."""
    event = entry.event
    fields = text.builtins(event)
    name = event.body
    body = fields.pop(name, None) if name is not None else None
    answer(f"entry {entry.seq}  {view.when(entry.at)}  {text.printable(entry.type)}", "title")
    hidden = ("type", "run", "at")
    print_fields([(key, _field(value)) for key, value in fields.items() if key not in hidden])
    if name is not None:
        print_body(name, body)
    answer()


def _field(value: Any) -> str:
    return text.printable(value) if isinstance(value, str) else text.inline(value, 200)


def print_fields(fields: Sequence[tuple[str, str]]) -> None:
    width = max((len(name) for name, _ in fields), default=0)
    for name, value in fields:
        answer(f"  {name.ljust(width)}  {value}")


def print_body(name: str, value: Any) -> None:
    answer(f"  {name}")
    for line in (ERASED if value is None else text.spread(value)).split("\n"):
        answer(f"    {line}")


def _fields(view: CommandView, call: CallRecord, words: RunConfirmations) -> Iterator[tuple[str, str]]:
    yield "tool", text.printable(call.tool) + _effects(call.intent)
    if call.intent is not None:
        yield "for", text.printable(call.intent.principal)
        yield "key", text.printable(call.intent.key)
        yield "began", view.when(call.intent.at)
        for origin in call.intent.origins or ():
            yield "from", text.printable(origin.words)
    given = words.answer_for(call)
    if given is not None:
        reason = f": {text.printable(given.reason)}" if given.reason else ""
        word = "allowed" if given.decision == "allow" else "denied"
        yield word, f"by {text.printable(given.by)}, {view.when(given.at)}{reason}"
    if call.answer is not None:
        yield "ended", f"{view.when(call.answer.at)}, after {text.duration_text(call.answer.duration_us)}"
    yield "outcome", outcome_of(call)
    for each in call.amendments:
        yield "amended", _amended(view, each)


def _effects(intent: CallIntended | None) -> str:
    if intent is None:
        return ""
    effects = "has side effects" if intent.side_effects else "reads only"
    return f" ({effects}{', idempotent' if intent.side_effects and intent.idempotent else ''})"


def _amended(view: CommandView, event: CallAmended) -> str:
    return f"{view.when(event.at)}: {event.outcome} ({event.why})"


def _print_result(name: str, result: ToolResult | None) -> None:
    if result is None:
        print_body(name, None)
        return
    print_body(name, result.content)
    if result.error is not None and result.error.message != result.content:
        print_body("error", f"{result.error.code}: {result.error.message}")
    for warning in result.warnings:
        print_body("warning", warning)
    for each in result.attachments:
        print_body("attachment", f"{each.name} ({each.media_type}, {text.count_text(len(each.data), 'byte')})")
    if result.spilled is not None:
        print_body("whole output", msgspec.to_builtins(result.spilled))


def _print_questions(view: CommandView, events: Sequence[Any], words: RunConfirmations) -> None:
    """What a person was asked about this call and no call of it has used."""
    used = {question.request for call in call_records(events) if (question := words.about(call)) is not None}
    for request, question in words.asked.items():
        if request in used:
            continue
        given = words.answered.get(request)
        answer(f"request {text.printable(request)}", "title")
        said = "nobody answered yet" if given is None else f"{given.decision} by {text.printable(given.by)}"
        print_fields([("call", text.printable(question.call_id)), ("asked", view.when(question.at)), ("answer", said)])
        print_body("arguments", question.arguments)
