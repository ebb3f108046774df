"""Replies of `/v2/chat` as events: the events of a stream, or a whole reply as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from handrail.core.errors import ModelUnavailable, ProtocolError
from handrail.core.events import CallRequested, CitationAdded, ModelEvent, Notice, ReasoningDelta
from handrail.core.ids import NewId
from handrail.core.messages import StopReason, Usage
from handrail.models.call_assembly import has_cut_arguments
from handrail.models.cohere.citations import CitedText
from handrail.models.cohere.encode import PLAN, PROVIDER
from handrail.models.reply_decoder import ReplyDecoder, call_cut_off
from handrail.models.service_errors import SHOWN, masked_excerpt
from handrail.models.shared_decoding import token_count_of
from handrail.models.tool_names import NameMap

_STOPS: dict[str, StopReason] = {
    "COMPLETE": "end",
    "STOP_SEQUENCE": "stop_sequence",
    "MAX_TOKENS": "max_tokens",
    "TOOL_CALL": "tool_calls",
    "ERROR_TOXIC": "content_filter",
}
_BROKE_OFF = frozenset({"ERROR", "TIMEOUT", "ERROR_LIMIT"})
_SILENT = frozenset({"debug", "citation-end"})
"""Events that say nothing about the reply."""


class CohereDecoder(ReplyDecoder):
    provider = PROVIDER

    def __init__(self, names: NameMap, new_id: NewId) -> None:
        super().__init__(names, new_id)
        self._text = CitedText()
        self._plan: list[str] = []
        self._thoughts: dict[int, list[str]] = {}
        self._unended: set[int] = set()
        """Calls that have begun, by their indexes."""

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        kind = data.get("type") or event
        if "finish_reason" in data and isinstance(data.get("message"), Mapping):
            yield from self._whole(data)
        elif not isinstance(kind, str) or not kind or kind == "error":
            words = masked_excerpt(
                str(data.get("message") or data.get("error") or f"an object with the keys {sorted(data)}")
            )
            raise ProtocolError(f"not a reply of Cohere's: {words}")
        else:
            yield from self._event(kind, data)

    def finish(self) -> Iterator[ModelEvent]:
        stop = self._stop_reason(_STOPS, "finish reason")
        if self._unended:
            yield call_cut_off(limit_reached=stop == "max_tokens")
        if self._stop not in _STOPS:
            yield Notice(text=f"the service ended the reply for a reason of its own: {self._stop!r}")
        if self._stop == "TOOL_CALL" and not self._layout.calls:
            raise ProtocolError("the service says that the model called a tool, but there is no call in the reply")
        for index in tuple(self._thoughts):
            self._place_thought(index)
        if self._plan:
            self._layout.place({PLAN: "".join(self._plan)})
        yield self._finished(stop, _usage(self._usage))

    def _whole(self, data: Mapping[str, Any]) -> Iterator[ModelEvent]:
        message = data["message"]
        yield from self._planned(message.get(PLAN))
        for index, block in enumerate(_items(message.get("content"), "content")):
            yield from self._block(index, block)
        self._end(data)
        for index, call in enumerate(_items(message.get("tool_calls"), "tool_calls")):
            yield from self._call(index, call)
            yield from self._ended(index)
        for cited in _items(message.get("citations"), "citations"):
            yield from self._cited(cited)

    def _event(self, kind: str, data: Mapping[str, Any]) -> Iterator[ModelEvent]:
        delta = data.get("delta")
        message = delta.get("message") if isinstance(delta, Mapping) else None
        said: Mapping[str, Any] = message if isinstance(message, Mapping) else {}
        index = data.get("index")
        index = index if isinstance(index, int) else 0
        match kind:
            case "message-start":
                return
            case "content-start" | "content-delta":
                yield from self._content(index, said.get("content"), begins=kind == "content-start")
            case "content-end":
                self._place_thought(index)
            case "tool-plan-delta":
                yield from self._planned(said.get(PLAN))
            case "tool-call-start" | "tool-call-delta":
                for call in _one_or_more(said.get("tool_calls")):
                    yield from self._call(index, call)
            case "tool-call-end":
                yield from self._ended(index)
            case "citation-start":
                for cited in _one_or_more(said.get("citations")):
                    yield from self._cited(cited)
            case "message-end":
                self._end(delta if isinstance(delta, Mapping) else data)
            case _ if kind not in _SILENT:
                yield from self._unknown.event(kind)

    def _content(self, index: int, content: Any, *, begins: bool) -> Iterator[ModelEvent]:
        match content:
            case {"thinking": str(thought)}:
                self._thoughts.setdefault(index, []).append(thought)
                if thought:
                    yield ReasoningDelta(text=thought)
            case {"text": str(text)}:
                yield from self._words(index, text)
            case str(text):
                yield from self._words(index, text)
            case {"type": str(kind)} if begins:
                self._layout.place(dict(content))
                yield from self._unknown.block(kind)

    def _block(self, index: int, block: Any) -> Iterator[ModelEvent]:
        """One block of a whole reply."""
        yield from self._content(index, block, begins=True)
        self._place_thought(index)

    def _place_thought(self, index: int) -> None:
        if thought := "".join(self._thoughts.pop(index, ())):
            self._layout.place({"type": "thinking", "thinking": thought})

    def _words(self, index: int, text: str) -> Iterator[ModelEvent]:
        if text:
            self._text.add(index, text)
        yield from self._emit_text(text)

    def _planned(self, plan: Any) -> Iterator[ModelEvent]:
        if isinstance(plan, str) and plan:
            self._plan.append(plan)
            yield ReasoningDelta(text=plan)

    def _call(self, index: int, call: Any) -> Iterator[ModelEvent]:
        if not isinstance(call, Mapping):
            raise ProtocolError("a call of Cohere's reply is not an object")
        function = call.get("function")
        facts: Mapping[str, Any] = function if isinstance(function, Mapping) else {}
        self._unended.add(index)
        yield from self._calls.delta(
            index=index, id=call.get("id"), name=facts.get("name"), arguments=facts.get("arguments")
        )

    def _ended(self, index: int) -> Iterator[ModelEvent]:
        for event in self._calls.complete(index):
            if isinstance(event, CallRequested):
                # Only in a whole reply: a stream does not end such a call.
                if self._stop == "MAX_TOKENS" and has_cut_arguments(event.call):
                    return
                self._layout.called()
            yield event
        self._unended.discard(index)

    def _cited(self, cited: Any) -> Iterator[ModelEvent]:
        if isinstance(cited, Mapping):
            for citation in self._text.citations(cited):
                yield CitationAdded(citation=citation)

    def _end(self, end: Mapping[str, Any]) -> None:
        reason = end.get("finish_reason")
        if reason in _BROKE_OFF:
            words = masked_excerpt(str(end.get("error") or "no reason given"), SHOWN)
            raise ModelUnavailable(f"the service broke off the reply ({reason}): {words}")
        if isinstance(reason, str) and reason:
            self._stop = reason
        if isinstance(usage := end.get("usage"), Mapping):
            self._usage = dict(usage)


def _items(value: Any, what: str) -> list[Any]:
    match value:
        case None:
            return []
        case str(text) if what == "content":
            return [text]
        case list():
            return value
    raise ProtocolError(f"the {what} of Cohere's reply is not a list")


def _one_or_more(value: Any) -> list[Any]:
    """An event of a stream has one call or citation where a whole reply has a list."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _usage(usage: Mapping[str, Any]) -> Usage:
    """What the model read and wrote. What is billed is less; it is used only where nothing else is told."""
    counts = usage.get("tokens")
    if not isinstance(counts, Mapping):
        counts = usage.get("billed_units")
    return Usage(
        input_tokens=_count(counts, "input_tokens"),
        output_tokens=_count(counts, "output_tokens"),
        cached_tokens=_count(usage, "cached_tokens"),
    )


def _count(counts: Any, key: str) -> int:
    """A number of tokens. Its type is that of any number, so it may come with a point."""
    number = counts.get(key) if isinstance(counts, Mapping) else None
    if isinstance(number, float) and number.is_integer():
        return token_count_of({key: int(number)}, key)
    return token_count_of(counts, key)
