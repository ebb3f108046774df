"""Messages grouped into turns, and repaired so that every service takes them.

Services refuse a history in which a call has no result, a result no call, or two
turns of one role follow each other; after a cancel, a trim or a change of model
that is what a history looks like. The conversation itself stays as it is: this is
only what goes over the wire.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from handrail.core.calls import Problem, ToolCall, ToolResult
from handrail.core.errors import UsageError
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import (
    Artefact,
    AssistantMessage,
    Content,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.core.model_request import ModelRequest

NO_RESULT = "There is no result of this call: it may have run or not, and nobody recorded which."
BEGINNING = "(What was said before this is not shown.)"
UNREADABLE = "unreadable_arguments"
"""The key under which a model sees again what it once wrote that was not a JSON object."""


class UserTurn(Struct, frozen=True):
    """What the user says, up to the next reply."""

    content: tuple[Content, ...]


class SystemTurn(Struct, frozen=True):
    """What the program tells the model, in its place among the turns."""

    text: str


class AssistantTurn(Struct, frozen=True):
    """What the model said and then called. Ids of calls are unique, and their arguments are JSON objects."""

    text: str = ""
    artefacts: tuple[Artefact, ...] = ()
    calls: tuple[InvocationMessage, ...] = ()


class ResultTurn(Struct, frozen=True):
    """The results of the turn before it: one for each call, in the same order, under the same ids and names."""

    results: tuple[ToolResult, ...]


Turn = UserTurn | SystemTurn | AssistantTurn | ResultTurn


def turns(
    messages: Sequence[Message], *, provider: str, tools_offered: bool, after: Set[str] | None = None
) -> tuple[Turn, ...]:
    """The messages as turns that a service takes, for the provider whose artefacts may stay.

    Roles alternate but for a system turn in between; the first turn after the
    system's is a user's. Without tools on offer, calls and results are told in words.
    With `after`, they go on from messages that end where `settled_message_count` says; it holds their call ids.
    """
    found: list[Turn] = []
    for turn in _grouped(messages, provider, after or frozenset()):
        if tools_offered:
            _add(found, turn)
        else:
            for part in _turn_as_text(turn):
                _add(found, part)
    if after is None:
        for at, turn in enumerate(found):
            if not isinstance(turn, SystemTurn):
                if not isinstance(turn, UserTurn):
                    found.insert(at, UserTurn((Text(BEGINNING),)))
                break
    return tuple(found)


def foreign_artefact_notices(messages: Sequence[Message], provider: str) -> tuple[str, ...]:
    """What the history has that only another service takes back, as notices. Thoughts are not mentioned."""
    artefacts = [each for message in messages if isinstance(message, AssistantMessage) for each in message.artefacts]
    if not artefacts:
        return ()
    whose = {each.provider for each in artefacts if each.provider != provider and _stands_alone(each)}
    return tuple(map(_left_out, sorted(whose)))


def _left_out(provider: str) -> str:
    return f"the conversation has calls or media of the service {provider!r} that only it takes back; they are left out"


def settled_message_count(messages: Sequence[Message]) -> int:
    """How many of the first messages stay as they are, as turns, whatever follows them; 0 if none do.

    Each call among them has its result, and after them the model speaks. That is a turn of its own, unless what was
    said before it leaves none and the model spoke before that too: so look at the last turn.
    """
    found = 0
    waiting: dict[str, int] = {}
    for at, message in enumerate(messages):
        match message:
            case InvocationMessage(call=call):
                waiting[call.id] = waiting.get(call.id, 0) + 1
            case ResultMessage(result=result) if count := waiting.pop(result.tool_call_id, 0):
                if count > 1:
                    waiting[result.tool_call_id] = count - 1
            case AssistantMessage() if not waiting and _speaks(messages, at):
                found = at
    return found


def _speaks(messages: Sequence[Message], at: int) -> bool:
    """Whether a reply that leaves a turn begins here, after somebody else has spoken."""
    message = messages[at]
    if at == 0 or isinstance(messages[at - 1], AssistantMessage):
        return False
    return isinstance(message, AssistantMessage) and (
        bool(message.text.strip()) or (at + 1 < len(messages) and isinstance(messages[at + 1], InvocationMessage))
    )


def system_text(turns: Sequence[Turn]) -> tuple[str, tuple[Turn, ...]]:
    """What the system says at the beginning, and the turns after that."""
    said: list[str] = []
    for turn in turns:
        if not isinstance(turn, SystemTurn):
            break
        said.append(turn.text)
    return "\n\n".join(said), tuple(turns[len(said) :])


def without_system(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns with what the system says in between told by the user, for services that know no such role."""
    if not any(isinstance(turn, SystemTurn) for turn in turns):
        return tuple(turns)
    found: list[Turn] = []
    for turn in turns:
        _add(found, UserTurn((Text(f"[System]\n{turn.text}"),)) if isinstance(turn, SystemTurn) else turn)
    return tuple(found)


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object, for services that want one; what cannot be read stands under one key."""
    if isinstance(call.arguments, dict):
        return call.arguments
    try:
        return parse_object(call.arguments)
    except JSONTextError:
        return {UNREADABLE: call.arguments}


def arguments_text(call: ToolCall) -> str:
    """The arguments as text, just as the model wrote them if it wrote text."""
    return call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()


@dataclass(slots=True)
class _OpenReply:
    """An assistant's turn while its calls and their results are gathered."""

    text: str = ""
    artefacts: tuple[Artefact, ...] = ()
    calls: list[InvocationMessage] = field(default_factory=list)
    results: dict[int, ToolResult] = field(default_factory=dict)
    """The results by the position of the call."""


_Item = _OpenReply | UserTurn | SystemTurn


class _TurnGrouping:
    """Reads messages in order. A result goes to the nearest reply before it with a call of its id and no result yet."""

    def __init__(self, provider: str, taken: Set[str]) -> None:
        self.items: list[_Item] = []
        self._provider = provider
        self._reply: _OpenReply | None = None
        self._waiting: dict[str, list[tuple[_OpenReply, list[int]]]] = {}
        """By the id that was given: the replies with such calls, and the places of those that have no result yet."""
        self._taken = taken
        self._ids: set[str] = set()

    def take(self, message: Message) -> None:
        match message:  # most of a long conversation are calls and results
            case InvocationMessage():
                self._call(message)
            case ResultMessage():
                self._settle(message.result)
            case AssistantMessage():
                self._begin(_OpenReply(message.text, self._own(message.artefacts)))
            case UserMessage(content=content):
                self._append(UserTurn(content))
            case DocumentMessage(name=name, text=text):
                self._append(UserTurn((Text(f"## Document: {name}\n\n{text}"),)))
            case SupervisorMessage(text=text):
                self._append(SystemTurn(text))
            case _:
                assert_never(message)

    def _append(self, item: UserTurn | SystemTurn) -> None:
        self.items.append(item)
        self._reply = None

    def _begin(self, reply: _OpenReply) -> _OpenReply:
        self.items.append(reply)
        self._reply = reply
        return reply

    def _call(self, message: InvocationMessage) -> None:
        reply = self._reply
        if reply is None or reply.results:  # what comes after a result was written after it was read
            reply = self._begin(_OpenReply())
        call = ToolCall(self._unique(message.id), message.call.name, _readable(message.call))
        waiting = self._waiting.setdefault(message.id, [])
        if waiting and waiting[-1][0] is reply:
            waiting[-1][1].append(len(reply.calls))
        else:
            waiting.append((reply, [len(reply.calls)]))
        reply.calls.append(InvocationMessage(call, message.at, self._own(message.artefacts)))

    def _settle(self, result: ToolResult) -> None:
        if waiting := self._waiting.get(result.tool_call_id):
            reply, places = waiting[-1]
            reply.results[places.pop(0)] = result
            if not places:
                waiting.pop()
        else:
            self._append(UserTurn(_result_as_text(result, f"[Result of a call to {result.name} that is not shown]")))

    def _own(self, artefacts: tuple[Artefact, ...]) -> tuple[Artefact, ...]:
        return artefacts and tuple(artefact for artefact in artefacts if artefact.provider == self._provider)

    def _unique(self, id: str) -> str:
        """The id, or one made from it if another call has it: some models count from 0 in every reply."""
        wanted = base = id or "call"
        count = 1
        while wanted in self._ids or wanted in self._taken:
            count += 1
            wanted = f"{base}_{count}"
        self._ids.add(wanted)
        return wanted


def _grouped(messages: Sequence[Message], provider: str, taken: Set[str]) -> list[Turn]:
    grouping = _TurnGrouping(provider, taken)
    for message in messages:
        grouping.take(message)
    found: list[Turn] = []
    for item in grouping.items:
        if not isinstance(item, _OpenReply):
            found.append(item)
            continue
        found.append(AssistantTurn(item.text, item.artefacts, tuple(item.calls)))
        if item.calls:
            answers = [_answer(message.call, item.results.get(place)) for place, message in enumerate(item.calls)]
            found.append(ResultTurn(tuple(answers)))
    return found


def _answer(call: ToolCall, result: ToolResult | None) -> ToolResult:
    if result is None:
        problem = Problem("in_doubt", NO_RESULT)
        return ToolResult(call.id, call.name, NO_RESULT, outcome="in_doubt", error=problem)
    if result.tool_call_id == call.id and result.name == call.name:
        return result
    return replace(result, tool_call_id=call.id, name=call.name)


def _readable(call: ToolCall) -> dict[str, Any] | str:
    """The arguments as they are; but what is no object becomes one, since servers parse them."""
    if isinstance(call.arguments, dict):
        return call.arguments
    arguments = arguments_of(call)
    as_written = call.arguments.lstrip().startswith("{") and UNREADABLE not in arguments
    return call.arguments if as_written else arguments


def _turn_as_text(turn: Turn) -> Iterator[Turn]:
    """A turn without calls and results. Its artefacts go with them: they belong to the calls."""
    match turn:
        case AssistantTurn(text=text, calls=calls) if calls:
            told = (f"[Called {message.call.name} with {arguments_text(message.call)}]" for message in calls)
            yield AssistantTurn("\n\n".join(part for part in (text, *told) if part.strip()))
        case ResultTurn(results=results):
            for result in results:
                yield UserTurn(_result_as_text(result, f"[Result of {result.name}]"))
        case _:
            yield turn


def _result_as_text(result: ToolResult, heading: str) -> tuple[Content, ...]:
    failed = f" (failed: {result.outcome})" if result.is_error else ""
    media = (Media(media_type=item.media_type, data=item.data, name=item.name) for item in result.attachments)
    return (Text(f"{heading}{failed}\n{result.text}"), *media)


def _add(found: list[Turn], turn: Turn) -> None:
    """Append a turn, or merge it with the last one if both are of one role. An empty one says nothing."""
    if not isinstance(turn, ResultTurn) and (turn := _without_blanks(turn)) is None:
        return
    if not found or type(found[-1]) is not type(turn):
        found.append(turn)
        return
    match found[-1], turn:
        case UserTurn(content=before), UserTurn(content=after):
            found[-1] = UserTurn(_joined(before, after))
        case SystemTurn(text=said), SystemTurn(text=more):
            found[-1] = SystemTurn(f"{said}\n\n{more}")
        case AssistantTurn() as last, AssistantTurn():
            text = "\n\n".join(part for part in (last.text, turn.text) if part)
            moved = _moved(turn.artefacts, len(text) - len(turn.text))
            found[-1] = AssistantTurn(text, last.artefacts + moved, turn.calls)
        case _:
            found.append(turn)


def _without_blanks(turn: Any) -> Any:
    """The turn without text that is only space, which some services refuse; None if nothing is left."""
    match turn:
        case UserTurn(content=(Text(text=text),)):
            return turn if text.strip() else None
        case UserTurn(content=content):
            kept = tuple(part for part in content if not isinstance(part, Text) or part.text.strip())
            return (turn if len(kept) == len(content) else UserTurn(kept)) if kept else None
        case SystemTurn(text=text):
            return turn if text.strip() else None
        case AssistantTurn(text=text, calls=calls):
            if text and not text.strip():
                turn = replace(turn, text="")
            # Thoughts alone led to nothing, and services refuse those too.
            return turn if turn.text or calls or any(map(_stands_alone, turn.artefacts)) else None
    return turn


def _stands_alone(artefact: Artefact) -> bool:
    """Whether it is worth a turn without text and calls: a call that the service ran, a picture that it made."""
    return isinstance(artefact.data, dict) and bool(artefact.data.get("alone"))


def _moved(artefacts: tuple[Artefact, ...], by: int) -> tuple[Artefact, ...]:
    """Artefacts of a reply whose text now begins so many characters later."""
    if not by:
        return artefacts
    return tuple(
        Artefact(each.provider, {**each.data, "chars": each.data.get("chars", 0) + by})
        if isinstance(each.data, dict) and "block" in each.data
        else each
        for each in artefacts
    )


def _joined(before: tuple[Content, ...], after: tuple[Content, ...]) -> tuple[Content, ...]:
    """Parts of two turns in one; texts that meet keep a blank line between them."""
    if isinstance(before[-1], Text) and isinstance(after[0], Text):
        return (*before[:-1], Text(f"{before[-1].text}\n\n{after[0].text}"), *after[1:])
    return before + after


def text_to_continue(request: ModelRequest) -> str:
    """The text of a request that is no conversation, for a service that goes on with it.

    Raises:
        UsageError: The request has more than one message, or another than a user's text.
    """
    match request.messages:
        case (UserMessage(content=(Text(text=text),)),):
            return text
    raise UsageError("only one text can be continued; send one user message with nothing but text")
