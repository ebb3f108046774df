"""generateContent's replies as events: every event of a stream has the form of a whole reply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError, RateLimited, RequestRefused
from handrail.core.events import ModelEvent, Notice, ReasoningDelta, TextDelta
from handrail.core.ids import NewId
from handrail.core.messages import Artefact, StopReason
from handrail.models.gemini.grounding import SAID_OF_SOURCES, Grounding
from handrail.models.gemini.partial_arguments import PartialArguments
from handrail.models.gemini.service_parts import service_part_events
from handrail.models.gemini.tools import PROVIDER
from handrail.models.reply_decoder import ReplyDecoder, call_cut_off
from handrail.models.service_errors import SHOWN, masked_excerpt
from handrail.models.shared_decoding import usage_by_keys
from handrail.models.tool_names import NameMap

_STOPS: dict[str, StopReason] = {
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
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "IMAGE_OTHER": "content_filter",
}
_BROKEN = {
    "MALFORMED_FUNCTION_CALL": "the model wrote a call that Gemini could not read; ask again",
    "UNEXPECTED_TOOL_CALL": "the model called a tool that it was not offered; ask again, or offer it",
    "TOO_MANY_TOOL_CALLS": "the model called too many tools in a row, and Gemini stopped it",
    "MALFORMED_RESPONSE": "the model wrote something that Gemini could not read; ask again",
}
_SILENT = ("STOP", "MAX_TOKENS")
_PARTS = frozenset(
    {
        "thoughtSignature",
        "inlineData",
        "fileData",
        "executableCode",
        "codeExecutionResult",
        "functionResponse",
        "toolCall",
        "toolResponse",
    }
)
"""Parts beside text and calls, which are kept as they came."""


_USAGE = {
    # This service counts thoughts beside the output, and what it read from its cache within the input.
    "input_tokens": ("promptTokenCount", "toolUsePromptTokenCount"),
    "output_tokens": ("candidatesTokenCount", "thoughtsTokenCount"),
    "cached_tokens": ("cachedContentTokenCount",),
    "reasoning_tokens": ("thoughtsTokenCount",),
}


class GeminiDecoder(ReplyDecoder):
    provider = PROVIDER

    def __init__(self, names: NameMap, new_id: NewId) -> None:
        super().__init__(names, new_id)
        self._partial: PartialArguments | None = None
        self._begun: Mapping[str, Any] = {}
        """The call that is being written, as it began."""
        self._why = ""
        self._texts: list[str] = []
        self._grounding = Grounding()

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        if error := data.get("error"):
            raise _failure(error if isinstance(error, Mapping) else {"message": error})
        if isinstance(usage := data.get("usageMetadata"), Mapping):
            # Totals so far: in a report with a total, a count that is left out is nought.
            self._usage = {**({} if "totalTokenCount" in usage else self._usage), **usage}
        if isinstance(model := data.get("modelVersion"), str):
            self._model = model or self._model
        match data:
            case {"candidates": [_, *_] as candidates}:
                for candidate in candidates:
                    yield from self._candidate(candidate)
            case {"promptFeedback": {"blockReason": str(reason), **more}}:
                self._stop = "SAFETY"
                self._why = f"Gemini blocked the prompt ({reason}): {more.get('blockReasonMessage', 'no reason given')}"
            case {"usageMetadata": _} | {"modelVersion": _} | {"promptFeedback": _} | {"candidates": []}:
                return
            case _:
                yield from self._unknown.event(" ".join(sorted(data)))

    def finish(self) -> Iterator[ModelEvent]:
        stop = self._stop_reason(_STOPS, "finish reason")
        if self._partial is not None:
            yield call_cut_off(limit_reached=stop == "max_tokens")
        yield from self._services.unanswered()
        yield from self._grounding.end(self._texts)
        if self._stop not in _SILENT:
            yield Notice(text=self._why or f"Gemini stopped the reply: {self._stop}")
        yield self._finished(stop, usage_by_keys(self._usage, _USAGE))

    def _candidate(self, candidate: Any) -> Iterator[ModelEvent]:
        match candidate:
            case {"index": int(index)} if index:
                return  # a further answer to the same question; one was asked for
            case {"content": {"parts": [*parts]}}:
                for part in parts:
                    yield from self._part(part)
            case {"content": {"parts": None} | None}:
                pass
            case {"content": {"parts": _} | str() | list()}:
                raise ProtocolError("the content of Gemini's reply is not a list of parts")
            case _ if not isinstance(candidate, Mapping):
                raise ProtocolError("a candidate of Gemini's reply is not an object")
        if not SAID_OF_SOURCES.isdisjoint(candidate):
            self._grounding.take(candidate)
        if isinstance(reason := candidate.get("finishReason"), str) and reason:
            words = masked_excerpt(str(candidate.get("finishMessage") or ""), SHOWN)
            if reason in _BROKEN:
                raise ProtocolError(f"{_BROKEN[reason]} ({reason}{f': {words}' if words else ''})")
            self._stop, self._why = reason, words

    def _part(self, part: Any) -> Iterator[ModelEvent]:
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
                    self._texts.append(text)
                    self._layout.said(text)
                    yield TextDelta(text=text)
                if "thoughtSignature" in part:
                    self._layout.place({"thoughtSignature": part["thoughtSignature"]}, covers=len(text))
            case dict() if "functionCall" not in part:
                if part.keys().isdisjoint(_PARTS):
                    yield from self._unknown.block(" ".join(sorted(part)))
                self._layout.place(part, alone=part.keys() != {"thoughtSignature"})
                yield from service_part_events(self._services, part)
            case _:
                raise ProtocolError("a part of Gemini's reply cannot be read")

    def _call(self, call: dict[str, Any], signature: str | None) -> Iterator[ModelEvent]:
        if self._partial is not None and not self._goes_on(call):
            raise ProtocolError("a call begins before the one before it has ended; nothing of it can be relied on")
        if self._partial is None:
            self._begun = call
            self._layout.called()
            signed = () if signature is None else (Artefact(PROVIDER, {"thoughtSignature": signature}),)
            yield from self._calls.delta(
                index=self._layout.calls, id=call.get("id"), name=call.get("name"), artefacts=signed
            )
            self._partial = PartialArguments()
        for partial in _partials(call.get("partialArgs") or ()):
            self._partial.add(partial)
        if call.get("willContinue"):
            return
        arguments = call.get("args") or self._partial.value()
        self._partial = None
        yield from self._calls.delta(index=self._layout.calls, arguments=arguments)
        yield from self._calls.complete(self._layout.calls)

    def _goes_on(self, call: Mapping[str, Any]) -> bool:
        """Whether this is more of the call that has begun. Its name and id may come again."""
        return all(call.get(key) in (None, "", self._begun.get(key)) for key in ("name", "id"))


def _failure(error: Mapping[str, Any]) -> ModelError:
    code = error.get("code")
    status = code if isinstance(code, int) else None
    kind: type[ModelError] = ProtocolError
    if status == 429:
        kind = RateLimited
    elif status is not None:
        kind = ModelUnavailable if status >= 500 else RequestRefused
    words = f"Gemini reports {error.get('status', status)}: {error.get('message', 'no message')}"
    return kind(masked_excerpt(words, SHOWN), status=status)


def _partials(pieces: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(pieces, list | tuple) or not all(isinstance(piece, Mapping) for piece in pieces):
        raise ProtocolError("the pieces of a call's arguments are not a list of objects")
    return pieces
