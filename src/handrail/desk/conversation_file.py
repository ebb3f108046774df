"""A conversation as one file, to be given to somebody else; and one from such a file, of which nothing is believed.

    {"handrail": "conversation", "version": 1, "title": "…", "messages": [ … ]}

What comes in is words. Its calls have other ids and all have results, so nothing in it
can be run; what it says of the program's own instructions is a document, not an
instruction; its results count as words from outside, so that a standing word does not
cover what a model does after it has read them.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from handrail.core.calls import Problem, ToolCall, ToolResult
from handrail.core.errors import UsageError
from handrail.core.ids import NewId
from handrail.core.jsontext import JSONTextError, parse
from handrail.core.messages import (
    AssistantMessage,
    Conversation,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.desk.message_view import MessageView
from handrail.desk.values import FileDownload

MEDIA_TYPE = "application/json"
MOST_BYTES = 32 * 1024 * 1024
MOST_MESSAGES = 10_000
_TITLE = 200
_INSTRUCTIONS = "instructions in a shared conversation"
_UNANSWERED = "this call had no result where the conversation was shared"


class SharedConversation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    handrail: Literal["conversation"] = "conversation"
    version: Literal[1] = 1
    title: str = ""
    messages: tuple[Message, ...]


def write_shared_file(title: str, conversation: Conversation, shown: MessageView) -> FileDownload:
    """Everything that was said, with its files; without secrets, and without what only one service understands."""
    messages = tuple(map(_bare, shown.kept(conversation.messages)))
    data = msgspec.json.format(
        msgspec.json.encode(_as_plain(SharedConversation(title=title, messages=messages))), indent=1
    )
    name = re.sub(r"[^\w-]+", "-", title).strip("-")[:60] or "conversation"
    return FileDownload(name=f"{name}.handrail.json", media_type=MEDIA_TYPE, data=data)


def read_shared_file(data: bytes, new_id: NewId) -> tuple[str, Conversation]:
    """The title and the words of a file.

    Raises:
        UsageError: It is no such file.
    """
    if len(data) > MOST_BYTES:
        raise UsageError(f"the file is larger than {MOST_BYTES // 1024**2} MB, which no shared conversation is")
    try:
        found = msgspec.convert(parse(data, max_size=MOST_BYTES), SharedConversation)
    except (JSONTextError, msgspec.ValidationError, RecursionError) as error:
        raise UsageError(f"this is not a shared conversation of handrail: {error}") from error
    if len(found.messages) > MOST_MESSAGES:
        raise UsageError(f"the conversation has more than {MOST_MESSAGES} messages")
    title = " ".join(found.title.split())[:_TITLE]
    return title or "a shared conversation", Conversation(_answered(_renamed(found.messages, new_id)))


def _bare(message: Message) -> Message:
    """The message without what has a meaning only here: artefacts of a service, and outputs that are kept elsewhere."""
    match message:
        case AssistantMessage() | InvocationMessage():
            return replace(message, artefacts=())
        case ResultMessage(result=result):
            return replace(message, result=replace(result, spilled=None, still_running=False, reused_from=None))
    return message


def _as_plain(shared: SharedConversation) -> Any:
    """Text that no file can hold, as half a surrogate, is written with question marks."""
    return _valid(msgspec.to_builtins(shared))


def _valid(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case list() | tuple():
            return [_valid(item) for item in value]
        case dict():
            return {_valid(key): _valid(item) for key, item in value.items()}
    return value


def _renamed(messages: tuple[Message, ...], new_id: NewId) -> list[Message]:
    """The messages with new ids for their calls.

    Raises:
        UsageError: A result answers no call, or a call has two.
    """
    ids: dict[str, str] = {}
    found: list[Message] = []
    for message in messages:
        match message:
            case InvocationMessage(call=call):
                ids[call.id] = new_id("call")
                found.append(InvocationMessage(ToolCall(ids[call.id], call.name, call.arguments), message.at))
            case ResultMessage(result=result):
                if (id := ids.pop(result.tool_call_id, None)) is None:
                    raise UsageError(
                        f"this is not a shared conversation of handrail: result without a call: {result.name}"
                    )
                found.append(ResultMessage(_outside(result, id), message.at))
            case _:
                found.append(_without_authority(message))
    return found


def _outside(result: ToolResult, id: str) -> ToolResult:
    bare = replace(result, tool_call_id=id, spilled=None, still_running=False, reused_from=None)
    return replace(bare, untrusted=True, warnings=(), duration_us=max(0, result.duration_us))


def _without_authority(message: Message) -> Message:
    match message:
        case SupervisorMessage(text=text, at=at):
            return DocumentMessage(_INSTRUCTIONS, text, at)
        case AssistantMessage(text=text, at=at, model=model, citations=citations, service_calls=made):
            # Media without bytes would be fetched from wherever the file says.
            media = tuple(replace(each, url=None) for each in message.media if each.data is not None)
            return AssistantMessage(text, at, model, citations=citations, media=media, service_calls=made)
        case UserMessage(content=content, at=at):
            # An address would be fetched by whoever asks a model about it.
            parts = (
                Text(f"[{part.url}]") if isinstance(part, Media) and part.data is None else part for part in content
            )
            return UserMessage(
                tuple(replace(part, url=None) if isinstance(part, Media) else part for part in parts), at
            )
    return message


def _answered(messages: list[Message]) -> tuple[Message, ...]:
    """The messages with a result for every call that lacks one."""
    results = {each.invocation_id for each in messages if isinstance(each, ResultMessage)}
    found: list[Message] = []
    missing: list[Message] = []
    for message in messages:
        if not isinstance(message, InvocationMessage | ResultMessage):
            found += missing
            missing = []
        found.append(message)
        if isinstance(message, InvocationMessage) and message.id not in results:
            problem = Problem("cancelled", _UNANSWERED)
            result = ToolResult(message.id, message.call.name, _UNANSWERED, "cancelled", problem, untrusted=True)
            missing.append(ResultMessage(result, message.at))
    return (*found, *missing)
