"""Messages as people are shown them: secrets masked, long texts clipped, bytes left where they are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, assert_never

import msgspec

from handrail.core.calls import Attachment, ToolResult
from handrail.core.display import browser_safe, browser_safe_text, exact_json
from handrail.core.footnotes import FootnoteMark, FootnoteSource, footnotes
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import (
    AssistantMessage,
    DocumentMessage,
    InvocationMessage,
    Media,
    Message,
    ResultMessage,
    ServiceCall,
    SupervisorMessage,
    UserMessage,
)
from handrail.core.redact import redact, redact_text
from handrail.desk.values import ClippedText, ConversationItem, ItemAttachment, ShownServiceCall
from handrail.tools.registry import RegisteredTools
from handrail.tools.tool import Tool

CLIP = 4_000
"""Characters that are shown at once of what tools and documents say."""
WORDS = 100_000
"""The most characters of what a person or a model says that are shown."""
_NOTES = 16
"""The most notes of one result that are shown."""
_SERVICE_CALLS = 200
"""The most calls of the service in one reply that are shown."""
_TITLE, _ADDRESS, _QUOTE = 300, 2_000, 1_000
"""Characters of a source."""


class MessageView:
    """How the messages of a conversation look, to somebody who knows these tools."""

    def __init__(self, tools: RegisteredTools) -> None:
        self._tools = tools

    def items(
        self, messages: Sequence[Message], start: int = 0, end: int | None = None
    ) -> tuple[ConversationItem, ...]:
        return tuple(self.item(index, messages[index]) for index in range(start, len(messages) if end is None else end))

    def item(self, index: int, message: Message) -> ConversationItem:
        match message:
            case UserMessage(at=at):
                text = clip_text(message.text, WORDS) if message.text else None
                return ConversationItem(index=index, kind="user", at=at, text=text, parts=_parts(media_of(message)))
            case AssistantMessage():
                return _reply(index, message)
            case SupervisorMessage(text=text, at=at):
                return ConversationItem(index=index, kind="supervisor", at=at, text=clip_text(text, WORDS))
            case DocumentMessage(name=name, text=text, at=at):
                return ConversationItem(
                    index=index, kind="document", at=at, text=clip_text(text), name=browser_safe_text(name)
                )
            case InvocationMessage():
                return self._call(index, message)
            case ResultMessage():
                return self._result(index, message)
            case _:
                assert_never(message)

    def _call(self, index: int, message: InvocationMessage) -> ConversationItem:
        call = message.call
        return ConversationItem(
            index=index,
            kind="call",
            at=message.at,
            name=self.name(call.name),
            call_id=call.id,
            **self.given(call.name, call.arguments),
            side_effects=self.has_effects(call.name),
        )

    def _result(self, index: int, message: ResultMessage) -> ConversationItem:
        result = message.result
        return ConversationItem(
            index=index,
            kind="result",
            at=message.at,
            text=clip_text(indented_answer(result)),
            parts=_parts(result.attachments),
            name=self.name(result.name),
            call_id=result.tool_call_id,
            outcome=result.outcome,
            error="" if result.error is None else browser_safe_text(result.error.code),
            duration_us=result.duration_us or None,
            reused_from=result.reused_from,
            notes=notes_of(result),
            side_effects=self.has_effects(result.name),
        )

    def find(self, name: str) -> Tool | None:
        return self._tools.find(name) if name in self._tools else None

    def name(self, name: str) -> str:
        """The full name of a known tool."""
        tool = self.find(name)
        return browser_safe_text(name) if tool is None else tool.scoped_name

    def has_effects(self, name: str) -> bool:
        tool = self.find(name)
        return tool is not None and not tool.reads

    def has_secrets(self, name: str) -> bool:
        tool = self.find(name)
        return tool is not None and bool(tool.secrets)

    def arguments(self, name: str, arguments: dict[str, Any] | str) -> Any:
        """As they may be shown: without what the tool marks as secret, nor what looks like one. Most services send them
        as text; it is shown as what it says."""
        return browser_safe(self._unmarked(name, arguments))

    def given(self, name: str, arguments: dict[str, Any] | str) -> dict[str, Any]:
        """The same as fields of an `ConversationItem` or a `LiveCall`, long texts cut."""
        given = shorten_texts(self._unmarked(name, arguments))
        told = browser_safe(given)
        return {"arguments": told, "written": "" if told == given or isinstance(given, str) else exact_json(given)}

    def _unmarked(self, name: str, arguments: dict[str, Any] | str) -> Any:
        tool = self.find(name)
        return redact(_read(arguments if tool is None else tool.masked(arguments)))

    def kept(self, messages: Iterable[Message]) -> tuple[Message, ...]:
        """The arguments as they may be kept outside this process: without what their tools declare as secret."""
        return tuple(self._masked_message(message) for message in messages)

    def _masked_message(self, message: Message) -> Message:
        if not isinstance(message, InvocationMessage) or (tool := self.find(message.call.name)) is None:
            return message
        if not tool.secrets:
            return message
        call = msgspec.structs.replace(message.call, arguments=tool.masked(message.call.arguments))
        return msgspec.structs.replace(message, call=call)

    def whole(self, message: Message) -> str:
        """The whole of a text that was shown clipped."""
        match message:
            case InvocationMessage(call=call):
                given = self._unmarked(call.name, call.arguments)
                return browser_safe_text(given) if isinstance(given, str) else exact_json(given)
            case ResultMessage(result=result):
                return indented_answer(result)
            case _:
                return browser_safe_text(message.text)


def _reply(index: int, message: AssistantMessage) -> ConversationItem:
    text, usage = message.text, message.usage
    found = footnotes(text, message.citations)
    return ConversationItem(
        index=index,
        kind="assistant",
        at=message.at,
        text=clip_text(text, WORDS),
        parts=_parts(message.media),
        model=browser_safe_text(message.model),
        tokens=None if usage is None else (usage.input_tokens, usage.output_tokens),
        cost=None if usage is None else usage.cost,
        sources=tuple(map(_source, found.sources)),
        marks=utf16_positions(text, found.marks),
        more_sources=found.left_out,
        service_calls=tuple(map(shown_service_call, message.service_calls[:_SERVICE_CALLS])),
    )


def _source(source: FootnoteSource) -> FootnoteSource:
    return FootnoteSource(
        number=source.number,
        title=browser_safe_text(source.title[:_TITLE]),
        url=browser_safe_text(source.url[:_ADDRESS]),
        host=source.host if len(source.url) <= _ADDRESS else "",
        quote=browser_safe_text(source.quote[:_QUOTE]),
    )


def utf16_positions(text: str, marks: Iterable[FootnoteMark]) -> tuple[FootnoteMark, ...]:
    """The same places, counted as a browser counts them."""
    if text.isascii():
        return tuple(marks)
    found, units, before = list[FootnoteMark](), 0, 0
    for mark in marks:
        units += len(text[before : mark.at].encode("utf-16-le", "surrogatepass")) // 2
        before = mark.at
        found.append(FootnoteMark(units, mark.number))
    return tuple(found)


def shown_service_call(call: ServiceCall) -> ShownServiceCall:
    arguments = call.arguments
    given = shorten_texts(redact(_read(arguments) if isinstance(arguments, str | dict) else arguments))
    told = browser_safe(given)
    result = None
    if call.result is not None:
        said = call.result if isinstance(call.result, str) else exact_json(redact(call.result))
        result = clip_text(redact_text(browser_safe_text(said)))
    return ShownServiceCall(
        id=browser_safe_text(call.id),
        name=browser_safe_text(call.name[:_TITLE]),
        arguments=told,
        written="" if told == given or isinstance(given, str) else exact_json(given),
        result=result,
        failed=call.failed,
    )


def notes_of(result: ToolResult) -> tuple[str, ...]:
    return tuple(shorten_texts(browser_safe_text(each)) for each in result.warnings[:_NOTES])


def _read(arguments: dict[str, Any] | str) -> dict[str, Any] | str:
    try:
        return parse_object(arguments) if isinstance(arguments, str) else arguments
    except JSONTextError:
        return arguments


def clip_text(text: str, most: int = CLIP) -> ClippedText:
    return ClippedText(text=browser_safe_text(text[:most]), whole=len(text) if len(text) > most else 0)


def indented_answer(result: ToolResult) -> str:
    """What a tool answered, JSON over several lines."""
    content = result.content
    return redact_text(browser_safe_text(content) if isinstance(content, str) else exact_json(content))


def shorten_texts(value: Any) -> Any:
    """A JSON value whose long texts are cut, with a note on how long they are."""
    match value:
        case str() if len(value) > CLIP:
            return f"{value[:CLIP]} … ({len(value)} characters)"
        case list() | tuple():
            return [shorten_texts(item) for item in value]
        case dict():
            return {key: shorten_texts(item) for key, item in value.items()}
    return value


def media_of(message: Message) -> tuple[Media | Attachment, ...]:
    """What of a message is not text."""
    match message:
        case UserMessage(content=content):
            return tuple(part for part in content if isinstance(part, Media))
        case AssistantMessage(media=media):
            return media
        case ResultMessage(result=result):
            return result.attachments
    return ()


def _parts(media: Iterable[Media | Attachment]) -> tuple[ItemAttachment, ...]:
    return tuple(
        ItemAttachment(
            name=browser_safe_text(each.name or each.media_type),
            media_type=browser_safe_text(each.media_type),
            size=len(each.data or b""),
            url=browser_safe_text(each.url or "") if isinstance(each, Media) else "",
        )
        for each in media
    )
