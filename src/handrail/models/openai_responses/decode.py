"""Responses into events: those of its stream, or the whole response as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from handrail.core.errors import ModelUnavailable, ProtocolError
from handrail.core.events import (
    CallRequested,
    CitationAdded,
    ModelEvent,
    Notice,
    ReasoningDelta,
    ReplyFinished,
    TextDelta,
)
from handrail.core.ids import NewId
from handrail.core.messages import Artefact, StopReason
from handrail.core.model_request import ModelRequest
from handrail.models.call_assembly import CallAssembler
from handrail.models.openai_chat.annotations import citation_of
from handrail.models.openai_chat.reply_types import read_chat_chunk
from handrail.models.openai_chat.usage_and_errors import error_from_stream, usage_of
from handrail.models.openai_responses.encode import PROGRAMS, PROVIDER, SEARCHES
from handrail.models.openai_responses.item_positions import ItemPositions
from handrail.models.openai_responses.service_items import ResponsesServiceItems
from handrail.models.profiles import Profile
from handrail.models.reply_layout import ReplyLayout
from handrail.models.shared_encoding import names_of
from handrail.models.supported_features import drop_strict_nulls
from handrail.models.tool_names import OPENAI_NAMES
from handrail.models.unknown_kinds import UnknownKinds

_INCOMPLETE: dict[str, StopReason] = {
    "max_output_tokens": "max_tokens",
    "max_messages": "max_tokens",
    "content_filter": "content_filter",
}
_SEARCH = ("type", "id", "call_id", "execution", "status", "arguments", "tools")
"""What the service takes back of an item of its search."""
_READ = ("message", "function_call", "reasoning", *SEARCHES)
"""Items that are read here; any other is kept."""
_KINDS = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.function_call_arguments.delta": "function_call",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
}
"""The kind of item that a piece belongs to."""
_SILENT = (
    "response.output_text.",
    "response.refusal.",
    "response.reasoning",
    "response.content_part.",
    "response.output_item.",
    "response.function_call_arguments.",
    "response.custom_tool_call_input.",
    "response.web_search_call.",
    "response.file_search_call.",
    "response.code_interpreter_call",
    "response.image_generation_call.",
    "response.mcp_",
    "response.apply_patch_call",
    "response.shell_call",
    "response.compaction",
    "response.audio.",
    "keepalive",
)
"""The prefixes of events that bring nothing beyond the item that they belong to."""
_ANNOTATED = "response.output_text.annotation.added"
_ARGUMENTS_DONE = "response.function_call_arguments.done"


class ResponsesItem(Struct):
    """An output item: what is read of it."""

    type: str
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    """The arguments: text for a call, an object for a search among tools."""
    namespace: str | None = None
    caller: dict[str, Any] | None = None
    status: str | None = None
    phase: str | None = None
    content: list[dict[str, Any]] | None = None
    summary: list[dict[str, Any]] | None = None
    encrypted_content: str | None = None


class ResponsesReply(Struct):
    model: str | None = None
    status: str | None = None
    error: dict[str, Any] | None = None
    incomplete_details: dict[str, Any] | None = None
    output: list[dict[str, Any]] = []
    usage: dict[str, Any] | None = None


class ResponsesStreamEvent(Struct):
    type: str = ""
    output_index: int | None = None
    item_id: str | None = None
    delta: Any = None
    arguments: Any = None
    annotation: Any = None
    content_index: int | None = None
    item: dict[str, Any] | None = None
    response: dict[str, Any] | None = None


class ResponsesDecoder:
    def __init__(
        self, request: ModelRequest, profile_of: Callable[[str], Profile], new_id: NewId, provider: str = PROVIDER
    ) -> None:
        self._provider = provider
        self._profile_of = profile_of
        self._request = request
        self._calls = CallAssembler(new_id, names_of(request.tools, OPENAI_NAMES))
        self._layout = ReplyLayout(provider)
        self._unknown = UnknownKinds()
        self._items = ResponsesServiceItems(self._unknown)
        self._annotations: dict[int, list[tuple[int, Any]]] = {}
        """By the place of a message: the part of it, and what a stream said about its text."""
        self._is_by("")
        self._places = ItemPositions()
        self._written: set[int] = set()
        """Places of items of which some arguments or text have come."""
        self._opened: set[int] = set()
        self._closed: set[int] = set()
        self._refused = False
        self._last: ReplyFinished | None = None

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        if data.get("object") == "response":
            yield from self._response(read_chat_chunk(data, ResponsesReply))
            return
        arrived = read_chat_chunk(data, ResponsesStreamEvent)
        kind = arrived.type or event
        if kind == "error" or (not kind and data.get("error")):
            raise error_from_stream(data if data.get("error") else {"error": dict(data)})
        if arrived.response is not None:
            yield from self._about(kind, read_chat_chunk(arrived.response, ResponsesReply))
        elif arrived.item is not None:
            item = _read_item(arrived.item)
            place = self._places.of_item(item.type, arrived.output_index, item.id, item.call_id)
            yield from self._item(kind, place, item, arrived.item)
        elif isinstance(arrived.delta, str) and arrived.delta and kind in _KINDS:
            place = self._places.of_piece(_KINDS[kind], arrived.output_index, arrived.item_id)
            yield from self._delta(kind, place, arrived.delta)
        elif kind == _ARGUMENTS_DONE and isinstance(arrived.arguments, str) and arrived.arguments:
            place = self._places.of_piece("function_call", arrived.output_index, arrived.item_id)
            if place not in self._written:  # a server that sends no pieces
                yield from self._delta("response.function_call_arguments.delta", place, arrived.arguments)
        elif kind == _ANNOTATED:
            place = self._places.of_piece("message", arrived.output_index, arrived.item_id)
            self._annotations.setdefault(place, []).append((arrived.content_index or 0, arrived.annotation))
        elif not kind.startswith(_SILENT):
            yield from self._unknown.event(kind or " ".join(sorted(data)))

    def finish(self) -> Iterator[ModelEvent]:
        if self._last is None:
            words = self._unknown.words
            raise ProtocolError(f"the reply ended before the response was complete: it was cut off{words}")
        yield self._last

    def _about(self, kind: str, response: ResponsesReply) -> Iterator[ModelEvent]:
        self._is_by(response.model or self._model)
        if kind in ("response.completed", "response.incomplete", "response.failed", "response.cancelled"):
            yield from self._response(response)

    def _is_by(self, model: str) -> None:
        self._model = model
        self._calls.mend = partial(drop_strict_nulls, self._request, self._profile_of(model))

    def _delta(self, kind: str, index: int, delta: str) -> Iterator[ModelEvent]:
        self._written.add(index)
        match _KINDS[kind]:
            case "message":
                self._refused = self._refused or kind == "response.refusal.delta"
                yield self._said(delta)
            case "function_call":
                yield from self._calls.delta(index=index, arguments=delta)
            case _:
                yield ReasoningDelta(text=delta)

    def _item(self, kind: str, index: int, item: ResponsesItem, raw: dict[str, Any]) -> Iterator[ModelEvent]:
        if item.type == "function_call" and index not in self._opened:
            self._opened.add(index)
            found = tuple(Artefact(self._provider, data) for data in _sent_back(item))
            yield from self._calls.delta(index=index, id=item.call_id, name=item.name, artefacts=found)
        if kind == "response.output_item.done" and index not in self._closed:
            self._closed.add(index)
            yield from self._done(index, item, raw)

    def _done(self, index: int, item: ResponsesItem, raw: dict[str, Any]) -> Iterator[ModelEvent]:
        match item.type:
            case "function_call":
                yield from self._call(index, item)
            case "message":
                yield from self._message(index, item)
            case "reasoning":
                yield from self._reasoning(index, item, raw)
            case _ if item.type in PROGRAMS:
                self._layout.place({key: value for key, value in raw.items() if value is not None})
                yield from self._items.take(raw)
            case _ if item.type in SEARCHES:
                self._layout.place({key: value for key, value in raw.items() if value is not None and key in _SEARCH})
            case _:
                self._layout.place(raw, alone=True)
                yield from self._items.take(raw)

    def _call(self, index: int, item: ResponsesItem) -> Iterator[ModelEvent]:
        if index not in self._written and item.arguments:
            yield from self._calls.delta(index=index, arguments=item.arguments)
        yield from self._given(index, cut=item.status == "incomplete")

    def _given(self, index: int, *, cut: bool) -> Iterator[ModelEvent]:
        for event in self._calls.complete(index):
            if isinstance(event, CallRequested):
                if cut:
                    yield Notice(text=f"the call to {event.call.name!r} was cut off; it is not made")
                    continue
                self._layout.called()
            yield event

    def _message(self, index: int, item: ResponsesItem) -> Iterator[ModelEvent]:
        parts = [_words(part) for part in item.content or ()]
        if index not in self._written:
            self._refused = self._refused or any(part.get("type") == "refusal" for part in item.content or ())
            yield from (self._said(text) for text in parts if text)
        covers = sum(map(len, parts))
        yield from self._cited(index, item.content or [], self._layout.chars - covers)
        if item.phase:
            self._layout.place({"type": "message", "phase": item.phase}, covers=covers)

    def _cited(self, index: int, parts: list[dict[str, Any]], base: int) -> Iterator[ModelEvent]:
        """The sources of a message whose text begins there. A whole item has them all; a stream may have sent more."""
        streamed = self._annotations.pop(index, [])
        for number, part in enumerate(parts):
            whole = part.get("annotations")
            for annotation in whole or [each for at, each in streamed if at == number]:
                if (citation := citation_of(annotation, base)) is not None:
                    yield CitationAdded(citation=citation)
            base += len(_words(part))

    def _reasoning(self, index: int, item: ResponsesItem, raw: dict[str, Any]) -> Iterator[ModelEvent]:
        if index not in self._written:
            said = (*(item.summary or ()), *(item.content or ()))
            yield from (ReasoningDelta(text=text) for part in said if (text := _words(part)))
        # Nothing is stored there, so a thought without its content could not be found.
        if item.encrypted_content or item.content:
            self._layout.place({key: value for key, value in raw.items() if value is not None and key != "status"})

    def _said(self, text: str) -> ModelEvent:
        self._layout.said(text)
        return TextDelta(text=text)

    def _response(self, response: ResponsesReply) -> Iterator[ModelEvent]:
        self._is_by(response.model or self._model)
        if response.error is not None:
            raise error_from_stream({"error": response.error})
        if response.status in ("failed", "cancelled"):
            raise ModelUnavailable(f"the service broke off the reply: {response.status}")
        if response.status in ("queued", "in_progress"):
            raise ProtocolError(
                f"the service answered before the reply was there ({response.status}); do not ask for it in background"
            )
        yield from self._left_over(response)
        yield from self._items.end()
        self._last = ReplyFinished(
            stop=self._stop(response),
            model=self._model,
            usage=usage_of(response.usage or {}),
            artefacts=self._layout.artefacts,
        )

    def _left_over(self, response: ResponsesReply) -> Iterator[ModelEvent]:
        """What no event brought: all of a response that was not streamed, and calls that a server forgot to end."""
        items = list(map(_read_item, response.output))
        for index in sorted(self._opened - self._closed):
            self._closed.add(index)
            whole = next((item for item in items if item.call_id and self._places.owns(index, item.call_id)), None)
            if whole is not None and whole.arguments and index not in self._written:
                yield from self._calls.delta(index=index, arguments=whole.arguments)
            yield from self._given(index, cut=response.status == "incomplete")
        seen = self._places.kinds
        for item, raw in zip(items, response.output, strict=True):
            # A thought that no event brought has lost its place among the others.
            missed = {"message": "message" not in seen, "function_call": not self._places.has_call(item.call_id)}
            if not seen or missed.get(item.type, False):
                place = self._places.begin(item.type, item.call_id)
                yield from self._item("response.output_item.done", place, item, raw)

    def _stop(self, response: ResponsesReply) -> StopReason:
        if response.status == "incomplete":
            reason = (response.incomplete_details or {}).get("reason")
            return _INCOMPLETE.get(str(reason), "end")
        if self._layout.calls:
            return "tool_calls"
        return "refusal" if self._refused else "end"


def _sent_back(item: ResponsesItem) -> Iterator[dict[str, Any]]:
    """What the service wants back with a call: where it found the tool, and the program that called it."""
    if item.namespace:
        yield {"namespace": item.namespace}
    if item.caller is not None and item.caller.get("type") != "direct":
        yield {"caller": item.caller}


def _read_item(raw: dict[str, Any]) -> ResponsesItem:
    """An item; of one that is only kept, no more than what it is called."""
    if raw.get("type") in _READ or not isinstance(raw.get("type"), str):
        return read_chat_chunk(raw, ResponsesItem)
    id, call_id = raw.get("id"), raw.get("call_id")
    named = ResponsesItem(raw["type"])
    named.id = id if isinstance(id, str) else None
    named.call_id = call_id if isinstance(call_id, str) else None
    return named


def _words(part: Mapping[str, Any]) -> str:
    """The text of a message or summary part, or the refusal in its place."""
    found = part.get("text") or part.get("refusal")
    return found if isinstance(found, str) else ""
