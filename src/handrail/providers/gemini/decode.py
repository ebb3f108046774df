"""generateContent's replies as events: every event of a stream has the form of a whole reply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.core.events import ModelEvent, Notice, ReasoningDelta, ReplyFinished, TextDelta
from handrail.core.ids import NewId
from handrail.core.messages import Artefact, StopReason, Usage
from handrail.providers.assemble import CallAssembler
from handrail.providers.gemini.partial import PartialArguments
from handrail.providers.gemini.tools import PROVIDER
from handrail.providers.layout import Layout
from handrail.providers.names import NameMap

STOPS: dict[str, StopReason] = {
    "STOP": "end",
    "NO_IMAGE": "end",
    "MAX_TOKENS": "max_tokens",
    "CONTINUATION": "max_tokens",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "IMAGE_OTHER": "content_filter",
}
BROKEN = {
    "MALFORMED_FUNCTION_CALL": "the model wrote a call that Gemini could not read; ask again",
    "UNEXPECTED_TOOL_CALL": "the model called a tool that it was not offered; ask again, or offer it",
    "TOO_MANY_TOOL_CALLS": "the model called too many tools in a row, and Gemini stopped it",
    "MALFORMED_RESPONSE": "the model wrote something that Gemini could not read; ask again",
}
SILENT = ("STOP", "MAX_TOKENS")


class GeminiDecoder:
    def __init__(self, names: NameMap, new_id: NewId) -> None:
        self._calls = CallAssembler(new_id, names)
        self._layout = Layout(PROVIDER)
        self._partial: PartialArguments | None = None
        self._usage: dict[str, Any] = {}
        self._model = ""
        self._stop: str | None = None
        self._why = ""

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        if isinstance(error := data.get("error"), Mapping):
            raise _failure(error)
        self._usage |= data.get("usageMetadata") or {}
        self._model = data.get("modelVersion") or self._model
        match data:
            case {"candidates": [dict(candidate), *_]}:
                yield from self._candidate(candidate)
            case {"promptFeedback": {"blockReason": str(reason), **more}}:
                self._stop = "SAFETY"
                self._why = f"Gemini blocked the prompt ({reason}): {more.get('blockReasonMessage', 'no reason given')}"
            case {"usageMetadata": _} | {"modelVersion": _} | {"promptFeedback": _} | {"candidates": []}:
                return
            case _:
                raise ProtocolError(f"not a reply of Gemini's: an object with the keys {sorted(data)}")

    def finish(self) -> Iterator[ModelEvent]:
        if self._stop is None:
            raise ProtocolError("the reply broke off before its finish reason; nothing of it can be relied on")
        stop = STOPS.get(self._stop, "end")
        if self._partial is not None:
            if stop != "max_tokens":
                raise ProtocolError("the reply ended inside a call; nothing of it can be relied on")
            yield Notice(text="the reply reached its token limit inside a call; the call was dropped")
        if self._stop not in SILENT:
            yield Notice(text=self._why or f"Gemini stopped the reply: {self._stop}")
        yield ReplyFinished(
            stop="tool_calls" if stop == "end" and self._layout.calls else stop,
            model=self._model,
            usage=_usage(self._usage),
            artefacts=self._layout.artefacts,
        )

    def _candidate(self, candidate: Mapping[str, Any]) -> Iterator[ModelEvent]:
        for part in (candidate.get("content") or {}).get("parts") or ():
            yield from self._part(part)
        if reason := candidate.get("finishReason"):
            words = candidate.get("finishMessage") or ""
            if reason in BROKEN:
                raise ProtocolError(f"{BROKEN[reason]} ({reason}{f': {words}' if words else ''})")
            self._stop, self._why = reason, words

    def _part(self, part: dict[str, Any]) -> Iterator[ModelEvent]:
        match part:
            case {"functionCall": dict(call)}:
                yield from self._call(call, part.get("thoughtSignature"))
            case {"text": str(text), "thought": True}:
                if text:
                    yield ReasoningDelta(text=text)
                if "thoughtSignature" in part:
                    self._layout.place(part)
            case {"text": str(text)}:
                if text:
                    self._layout.said(text)
                    yield TextDelta(text=text)
                if "thoughtSignature" in part:
                    self._layout.place({"thoughtSignature": part["thoughtSignature"]}, covers=len(text))
            case _:
                self._layout.place(part)

    def _call(self, call: dict[str, Any], signature: str | None) -> Iterator[ModelEvent]:
        if self._partial is None:
            self._layout.called()
            signed = () if signature is None else (Artefact(PROVIDER, {"thoughtSignature": signature}),)
            yield from self._calls.delta(
                index=self._layout.calls, id=call.get("id"), name=call.get("name"), artefacts=signed
            )
            self._partial = PartialArguments()
        for partial in call.get("partialArgs") or ():
            self._partial.add(partial)
        if call.get("willContinue"):
            return
        arguments = call.get("args") or self._partial.value()
        self._partial = None
        yield from self._calls.delta(index=self._layout.calls, arguments=arguments)
        yield from self._calls.complete(self._layout.calls)


def _usage(counts: Mapping[str, Any]) -> Usage:
    """This service counts thoughts beside the output, and what it read from its cache within the input."""
    thoughts = counts.get("thoughtsTokenCount") or 0
    return Usage(
        input_tokens=(counts.get("promptTokenCount") or 0) + (counts.get("toolUsePromptTokenCount") or 0),
        output_tokens=(counts.get("candidatesTokenCount") or 0) + thoughts,
        cached_tokens=counts.get("cachedContentTokenCount") or 0,
        reasoning_tokens=thoughts,
    )


def _failure(error: Mapping[str, Any]) -> ModelError:
    code = error.get("code")
    status = code if isinstance(code, int) else None
    kind: type[ModelError] = ProtocolError
    if status == 429:
        kind = RateLimited
    elif status is not None:
        kind = ModelUnavailable if status >= 500 else RequestRefused
    return kind(f"Gemini reports {error.get('status', status)}: {error.get('message', 'no message')}", status=status)
