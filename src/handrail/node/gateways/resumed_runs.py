"""A run that waited for a person's decision, taken up again: the client repeats its request and names the run."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import takewhile

from msgspec import Struct, field

from handrail.core.errors import BusError
from handrail.core.events import ConfirmationRequested, Recorded, ReplyGiven, RunFinished, RunStarted
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    InvocationMessage,
    Message,
    ResultMessage,
    UserMessage,
)
from handrail.core.redact import redact_text
from handrail.node.gateways.request_parsing import refuse_field
from handrail.run.history import conversation_of, unanswered_calls

DELETED = "deleted"
"""The reason in an entry of a run whose response was deleted."""


def was_deleted(history: Sequence[Recorded]) -> bool:
    return any(isinstance(event, RunFinished) and event.reason == DELETED for event in history)


class ResumedRun(Struct, frozen=True):
    """What a run continues."""

    conversation: Conversation
    asked: int
    """The number of messages that are the client's own; the rest it has not sent."""
    told: int
    """The number of messages that the client has already been sent, or that are its own."""
    requests: dict[str, str] = field(default_factory=dict)
    """What a person was asked, by the id of the call."""

    @classmethod
    def anew(cls, messages: tuple[Message, ...]) -> ResumedRun:
        return cls(Conversation(messages), len(messages), len(messages))


def resume_run(
    history: Sequence[Recorded], run: str, principal: str, messages: Sequence[Message], own: Container[str] = ()
) -> ResumedRun:
    """The run as its record has it, up to where its calls waited. `own` are the names of the client's tools: what came
    of those of its calls is taken from what it sends.

    Raises:
        BusError: There is no such run of this caller (`not_found`), or it was asked something else (`bad_request`).
    """
    begun = next((event for event in history if isinstance(event, RunStarted)), None)
    if begun is None or begun.principal != principal or was_deleted(history):
        raise BusError("not_found", f"there is no run {run[:60]!r} of yours", param="handrail.run")
    conversation = conversation_of(history)
    if _asked(conversation.messages) != _asked(messages):
        refuse_field("messages", "these are not the questions of that run; repeat the request as it was")
    requests = {event.call_id: event.request for event in history if isinstance(event, ConfirmationRequested)}
    conversation = _upto_waiting(conversation)
    conversation = conversation.add(*_own_results(conversation, requests, messages, own))
    asked = len(conversation_of(takewhile(lambda event: not isinstance(event, ReplyGiven), history)))
    return ResumedRun(conversation, asked, _told(conversation, requests, asked), requests)


def _own_results(
    conversation: Conversation, requests: Container[str], messages: Sequence[Message], own: Container[str]
) -> list[ResultMessage]:
    """The client's results of the calls that it was handed. A call that a person was asked about is none of them."""
    handed = {
        message.id
        for message in unanswered_calls(conversation)
        if message.call.name in own and message.id not in requests
    }
    return [each for each in messages if isinstance(each, ResultMessage) and each.invocation_id in handed]


def _told(conversation: Conversation, requests: Container[str], asked: int) -> int:
    """All of it, unless it is over: then what followed a person's last message is the answer, and is given again."""
    messages = conversation.messages
    if not messages or not isinstance(messages[-1], AssistantMessage):
        return len(messages)
    for at in range(len(messages) - 1, asked - 1, -1):
        message = messages[at]
        if isinstance(message, ResultMessage) and message.invocation_id in requests:
            return at + 1
    return asked


def _asked(messages: Sequence[Message]) -> list[str]:
    """What the user said, as a record has it."""
    return [redact_text(message.text) for message in messages if isinstance(message, UserMessage)]


def _upto_waiting(conversation: Conversation) -> Conversation:
    """The conversation up to the first calls that waited, with those open again."""
    messages = conversation.messages
    at = next((at for at, message in enumerate(messages) if _waits(message)), None)
    if at is None:
        return conversation
    while at < len(messages) and isinstance(messages[at], InvocationMessage | ResultMessage):
        at += 1
    return Conversation(tuple(message for message in messages[:at] if not _waits(message)))


def _waits(message: Message) -> bool:
    return isinstance(message, ResultMessage) and message.result.outcome == "needs_confirmation"
