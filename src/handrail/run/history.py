"""A run's conversation out of its record, and a run told again from it, without model or tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence

from handrail.core.calls import ToolCall, ToolResult
from handrail.core.errors import UsageError
from handrail.core.events import (
    CallAmended,
    CallIntended,
    CallRequested,
    CallSettled,
    CitationAdded,
    ConversationChanged,
    Emit,
    MediaAdded,
    Recorded,
    ReplyFinished,
    ReplyGiven,
    ServiceCallMade,
    TextDelta,
)
from handrail.core.ids import nested_id
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    InvocationMessage,
    Message,
    ResultMessage,
    Usage,
    UserMessage,
)


def conversation_of(events: Iterable[Recorded]) -> Conversation:
    """Return the conversation of a run from its record. An interrupted call has no result yet.

    Raises:
        UsageError: The content of the run was erased, so it cannot be resumed.
    """
    messages: list[Message] = []
    waiting: list[str] = []
    results: dict[str, ResultMessage] = {}
    for event in events:
        match event:
            case ConversationChanged(keep=keep, messages=added):
                _settle(messages, waiting, results)
                del messages[keep:]
                messages += _there(event.run, added)
                waiting = [message.id for message in unanswered_among(messages)]
            case ReplyGiven(messages=given):
                _settle(messages, waiting, results)
                messages += _there(event.run, given)
                waiting = [message.id for message in unanswered_among(messages)]
            case CallSettled(result=ToolResult() as result) | CallAmended(result=ToolResult() as result, why="person"):
                results[event.call_id] = ResultMessage(result, event.at)
    if all(id in results for id in waiting):  # else it was cut off here, and is taken up at its calls
        _settle(messages, waiting, results)
    return Conversation(tuple(messages))


def _settle(messages: list[Message], waiting: list[str], results: dict[str, ResultMessage]) -> None:
    """The answers that there are to the calls of a reply, in the order of the calls."""
    messages.extend(results[id] for id in waiting if id in results)


def _there(run: str, messages: tuple[Message, ...] | None) -> tuple[Message, ...]:
    if messages is None:
        raise UsageError(f"the words of run {run!r} were erased; it cannot be resumed or replayed")
    return messages


def unanswered_calls(conversation: Conversation) -> tuple[InvocationMessage, ...]:
    """The calls at the end of a conversation that have no result: where a run was cut off."""
    return unanswered_among(conversation.messages)


def unanswered_among(messages: Sequence[Message]) -> tuple[InvocationMessage, ...]:
    """The same of messages. It looks at the end only: it is asked at every reply, of conversations of any length."""
    answered: set[str] = set()
    found: list[InvocationMessage] = []
    for message in reversed(messages):
        match message:
            case ResultMessage():
                answered.add(message.invocation_id)
            case InvocationMessage() if message.id not in answered:
                found.append(message)
            case InvocationMessage():
                continue
            case _:
                break
    return tuple(reversed(found))


def calls_of_reply(messages: Sequence[Message], at: int) -> tuple[ToolCall, ...]:
    """The calls of the reply whose message stands there."""
    end = at + 1
    while end < len(messages) and isinstance(messages[end], InvocationMessage):
        end += 1
    return tuple(each.call for each in messages[at + 1 : end] if isinstance(each, InvocationMessage))


async def replay(events: Sequence[Recorded], emit: Emit) -> Conversation:
    """Replay a run: emit its recorded events in their order, with streamed pieces joined."""
    for event in events:
        if isinstance(event, ReplyGiven):
            await _tell(event, emit)
        await emit(event)
    return conversation_of(events)


async def _tell(reply: ReplyGiven, emit: Emit) -> None:
    for message in _there(reply.run, reply.messages):
        match message:
            case AssistantMessage():
                await _tell_words(message, emit)
            case InvocationMessage(call=call, artefacts=artefacts):
                await emit(CallRequested(call=call, artefacts=artefacts))
    await emit(ReplyFinished(stop=reply.stop, model=reply.model))


async def _tell_words(message: AssistantMessage, emit: Emit) -> None:
    for made in message.service_calls:
        await emit(ServiceCallMade(call=made))
    if message.text:
        await emit(TextDelta(text=message.text))
    for citation in message.citations:
        await emit(CitationAdded(citation=citation))
    for media in message.media:
        await emit(MediaAdded(media=media))


async def usage_of_run(history: Callable[[str], Awaitable[Sequence[Recorded]]], run: str) -> Usage:
    """What the replies of a run have used, and those of the runs that its calls began."""
    total = Usage()
    for event in await history(run):
        match event:
            case ReplyGiven(messages=(AssistantMessage(usage=Usage() as used), *_)):
                total = total.plus(used)
            case ReplyGiven():  # erased, or its service did not say what it cost
                total = total.plus(Usage(input_tokens=event.input_tokens, output_tokens=event.output_tokens))
            case CallIntended():
                total = total.plus(await usage_of_run(history, nested_id(run, event.call_id)))
    return total


def last_user_position(messages: tuple[Message, ...]) -> int:
    """The position of the user's last message; -1 if there is none."""
    spoke = (at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], UserMessage))
    return next(spoke, -1)
