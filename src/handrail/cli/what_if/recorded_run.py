"""A recorded run as turns: what was said before each reply, what the model did then, and what became of its calls.

Each turn is put to a model by itself, with everything before it as it was recorded. So one divergence does not hide
those behind it, and no tool has to run to go on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from msgspec import UNSET, Struct

from handrail.core.calls import Output, ToolCall
from handrail.core.canonical import canonical_json
from handrail.core.confirmation import Allow, Confirmation, Decision, Defer, Deny
from handrail.core.events import (
    CallRequested,
    ConfirmationAnswered,
    ConfirmationRequested,
    ModelEvent,
    Recorded,
    ReplyFinished,
    TextDelta,
)
from handrail.core.interception import HandlerCall
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import AssistantMessage, Conversation, InvocationMessage, ResultMessage
from handrail.core.model_request import ModelRequest
from handrail.core.ports import Model
from handrail.core.redact import mask_fields
from handrail.run.history import calls_of_reply, conversation_of
from handrail.testing.cassette_entries import with_stand_ins
from handrail.tools.registry import RegisteredTools

RUNS = "would run"
"""The outcome of a call that is permitted now and did not run then."""


class TurnCall(Struct, frozen=True, kw_only=True):
    tool: str
    arguments: dict[str, Any] | str
    outcome: str
    """Empty if the record does not have it."""
    words: str = ""
    """Why a call did not go well."""


class RecordedTurn(Struct, frozen=True, kw_only=True):
    before: Conversation
    text: str
    stop: str
    calls: tuple[ToolCall, ...]
    settled: tuple[TurnCall, ...]
    """The same calls with their outcomes."""


class RecordedRun(Struct, frozen=True, kw_only=True):
    run: str
    turns: tuple[RecordedTurn, ...]
    events: tuple[Recorded, ...]


def read_turns(run: str, events: Sequence[Recorded]) -> RecordedRun:
    """Every reply of a run, with what was said before it.

    Raises:
        UsageError: The words of the run were erased.
    """
    messages = conversation_of(events).messages
    results = {each.invocation_id: each.result for each in messages if isinstance(each, ResultMessage)}
    turns: list[RecordedTurn] = []
    for at, message in enumerate(messages):
        if not isinstance(message, AssistantMessage) or message.source is not UNSET:
            continue
        calls = calls_of_reply(messages, at)
        settled = []
        for call in calls:
            result = results.get(call.id)
            outcome, words = ("", "") if result is None else (result.outcome, result.text if result.is_error else "")
            settled.append(TurnCall(tool=call.name, arguments=call.arguments, outcome=outcome, words=words))
        turns.append(
            RecordedTurn(
                before=Conversation(messages[:at]),
                text=message.text,
                stop=message.stop,
                calls=calls,
                settled=tuple(settled),
            )
        )
    return RecordedRun(run=run, turns=tuple(turns), events=tuple(events))


class RecordedReply:
    """A `Model` that replies as it did in one turn."""

    name = "recorded"

    def __init__(self, turn: RecordedTurn, tools: RegisteredTools) -> None:
        self._turn = turn
        self._tools = tools

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if self._turn.text:
            yield TextDelta(text=self._turn.text)
        for call in self._turn.calls:
            secrets = self._tools.find(call.name).secrets if call.name in self._tools else frozenset[str]()
            yield CallRequested(call=ToolCall(call.id, call.name, with_stand_ins(call.arguments, secrets)))
        yield ReplyFinished(stop="tool_calls" if self._turn.calls else "end", model=self.name)


class RecordedOutputs:
    """An `Interceptor`: no handler runs. A call that ran in the record ends as it did then."""

    asks_services = True

    def __init__(self, turn: RecordedTurn) -> None:
        self._then = {call_key(call.tool, call.arguments): call.outcome for call in turn.settled}
        self.permitted: dict[str, str] = {}
        """By the id of a call that would have run now: its outcome in the record, or `would run`."""

    def stream(self, model: Model, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        return model.stream(request)

    async def perform(self, call: HandlerCall, run: Callable[[], Awaitable[Output]]) -> Output:
        then = self._then.get(_key_of(call.tool, call.arguments, call.secrets), "")
        self.permitted[call.id] = then if then in _RAN else RUNS
        return Output("not run: this is a replay")


_RAN = ("ok", "failed", "timeout", "cancelled", "in_doubt")
"""Outcomes of calls whose handlers were started, or may have been."""


class RecordedPerson:
    """An `Approver` that says what a person said in the record to the same call, and asks nobody. What a rule said
    then is not repeated: other rules may hold now."""

    def __init__(self, events: Iterable[Recorded]) -> None:
        asked: dict[str, str] = {}
        self._answers: dict[str, ConfirmationAnswered] = {}
        for event in events:
            match event:
                case ConfirmationRequested(request=request, tool=tool, arguments=dict() as arguments):
                    asked[request] = call_key(tool, arguments)
                case ConfirmationAnswered(request=request) if request in asked and not event.by.startswith("rule '"):
                    self._answers[asked[request]] = event

    async def decide(self, question: Confirmation) -> Decision:
        answer = self._answers.get(call_key(question.tool, question.shown))
        if answer is None:
            return Defer()
        return Allow(answer.by) if answer.decision == "allow" else Deny(answer.by, answer.reason)


def call_key(tool: str, arguments: dict[str, Any] | str) -> str:
    """The same for calls of one tool with equal arguments, however they are written."""
    if isinstance(arguments, str):
        try:
            arguments = parse_object(arguments)
        except JSONTextError:
            return f"{_without_ensemble(tool)} {arguments}"
    return f"{_without_ensemble(tool)} {canonical_json(arguments).decode()}"


def _key_of(tool: str, arguments: dict[str, Any], secrets: frozenset[str]) -> str:
    return call_key(tool, mask_fields(arguments, secrets))


def _without_ensemble(tool: str) -> str:
    """The name without its ensemble: models use names with it, and questions names without it."""
    return tool.rpartition(":")[2]


def turn_calls(
    ended: Conversation, said: int, permitted: dict[str, str], tools: RegisteredTools
) -> tuple[TurnCall, ...]:
    """The calls that were made after so many messages, each with what became of it, without secrets."""
    results = {each.invocation_id: each.result for each in ended.messages[said:] if isinstance(each, ResultMessage)}
    found: list[TurnCall] = []
    for message in ended.messages[said:]:
        if isinstance(message, InvocationMessage):
            call, result = message.call, results.get(message.id)
            masked = tools.find(call.name).masked(call.arguments) if call.name in tools else call.arguments
            ran = permitted.get(message.id) or permitted.get((result and result.reused_from) or "")
            outcome = ran or ("" if result is None else result.outcome)
            words = "" if ran or result is None else result.text
            found.append(TurnCall(tool=call.name, arguments=masked, outcome=outcome, words=words))
    return tuple(found)
