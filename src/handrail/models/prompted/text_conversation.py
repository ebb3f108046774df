"""A conversation with calls and results in it, as one that has only words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from handrail.core.messages import (
    AssistantMessage,
    InvocationMessage,
    Message,
    ResultMessage,
    SupervisorMessage,
    Text,
    UserMessage,
)
from handrail.models.prompted.formats import CallFormat
from handrail.models.prompted.found_call import Schemas
from handrail.models.prompted.prompt_text import call_text, result_text
from handrail.models.shared_encoding import as_media


def conversation_as_text(
    messages: Iterable[Message], format: CallFormat, schemas: Schemas, instructions: str
) -> tuple[Message, ...]:
    """The same conversation in words of a format, with the instructions at the end of the first system text."""
    return _instructed(tuple(_plain(messages, format, schemas)), instructions)


def _plain(messages: Iterable[Message], format: CallFormat, schemas: Schemas) -> Iterator[Message]:
    for kind, group in groupby(messages, _kind):
        match kind:
            case "said":
                yield from _said(tuple(group), format, schemas)
            case "result":
                yield _answered([message for message in group if isinstance(message, ResultMessage)], format)
            case _:
                yield from group


def _kind(message: Message) -> str:
    match message:
        case AssistantMessage() | InvocationMessage():
            return "said"
        case ResultMessage():
            return "result"
    return "other"


def _said(messages: tuple[Message, ...], format: CallFormat, schemas: Schemas) -> Iterator[Message]:
    """The assistant messages, each with the calls that follow it."""
    texts: list[str] = []
    first: AssistantMessage | None = None
    for message in messages:
        match message:
            case AssistantMessage():
                if first is not None or texts:
                    yield _joined(first, texts)
                first, texts = message, [message.text] if message.text else []
            case InvocationMessage(call=call):
                texts.append(call_text(call, format, schemas))
    yield _joined(first, texts)


def _joined(message: AssistantMessage | None, texts: list[str]) -> AssistantMessage:
    known = message or AssistantMessage()
    return AssistantMessage("\n".join(texts), known.at, known.model, known.stop, known.usage, known.artefacts)


def _answered(messages: list[ResultMessage], format: CallFormat) -> UserMessage:
    results = [message.result for message in messages]
    attached = (as_media(attachment) for result in results for attachment in result.attachments)
    return UserMessage((Text(result_text(results, format)), *attached), messages[0].at)


def _instructed(messages: tuple[Message, ...], instructions: str) -> tuple[Message, ...]:
    if not instructions:
        return messages
    match messages:
        case [SupervisorMessage(text=text, at=at), *rest]:
            return (SupervisorMessage(f"{text}\n\n{instructions}", at), *rest)
    return (SupervisorMessage(instructions), *messages)
