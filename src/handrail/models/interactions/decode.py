"""Replies of the Interactions API as events: the events of a stream, or an interaction as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from handrail.core.errors import ModelError, ModelUnavailable, ProtocolError
from handrail.core.events import CitationAdded, ModelEvent, Notice, ReasoningDelta
from handrail.core.ids import NewId
from handrail.core.messages import Artefact, StopReason
from handrail.models.interactions.encode import PROVIDER
from handrail.models.interactions.steps import StepText, is_service_step, media_of, service_step_events
from handrail.models.reply_decoder import ReplyDecoder, call_cut_off
from handrail.models.service_errors import SHOWN, error_for_status, masked_excerpt
from handrail.models.shared_decoding import usage_by_keys
from handrail.models.tool_names import NameMap

_STOPS: dict[str, StopReason] = {
    "completed": "end",
    "requires_action": "tool_calls",
    "incomplete": "max_tokens",
    "budget_exceeded": "max_tokens",
    "requires_continuation": "max_tokens",
}
_STATUS = {
    "invalid_argument": 400,
    "failed_precondition": 400,
    "unauthenticated": 401,
    "permission_denied": 403,
    "not_found": 404,
    "resource_exhausted": 429,
    "internal": 500,
    "unavailable": 503,
    "deadline_exceeded": 504,
}
"""What an error in a reply, which has no status of its own, would have had."""
_MEDIA = ("image", "audio", "video", "document")


_USAGE = {
    # This service counts thoughts beside the output, and what its own tools brought beside the input.
    "input_tokens": ("total_input_tokens", "total_tool_use_tokens"),
    "output_tokens": ("total_output_tokens", "total_thought_tokens"),
    "cached_tokens": ("total_cached_tokens",),
    "reasoning_tokens": ("total_thought_tokens",),
}


class InteractionsDecoder(ReplyDecoder):
    provider = PROVIDER

    def __init__(self, names: NameMap, new_id: NewId) -> None:
        super().__init__(names, new_id)
        self._open: dict[int, _OpenStep] = {}

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterator[ModelEvent]:
        kind = data.get("event_type") or event
        if kind == "error" or (not kind and "error" in data):
            raise _failure(data.get("error"))
        match data:
            case {"step": dict(step), "index": int(index)}:
                yield from self._start(index, step)
            case {"delta": dict(delta), "index": int(index)}:
                yield from self._delta(index, delta)
            case {"index": int(index)} if kind == "step.stop":
                yield from self._close_step(index)
            case {"interaction": dict(interaction)}:
                self._about(interaction)
            case {"interaction_id": _, "status": _}:
                self._about(data)
            case {"status": str(), "steps": _} | {"status": str(), "usage": _} | {"status": str(), "object": _}:
                yield from self._whole(data)
            case _ if kind:
                yield from self._unknown.event(kind)
            case _:
                raise ProtocolError(
                    f"not a reply of Gemini's: an object with the keys {masked_excerpt(str(sorted(data)))}"
                )

    def finish(self) -> Iterator[ModelEvent]:
        stop = self._stop_reason(_STOPS, "last status")
        if any(step.kind == "function_call" for step in self._open.values()):
            yield call_cut_off(limit_reached=stop == "max_tokens")
        if self._stop == "requires_action" and not self._layout.calls:
            raise ProtocolError("the service waits for results of tools, but there is no call in its reply")
        if self._stop not in ("completed", "requires_action", "incomplete"):
            yield Notice(text=f"Gemini stopped the reply: {self._stop}")
        yield from self._services.unanswered()
        yield self._finished(stop, usage_by_keys(self._usage, _USAGE))

    def _about(self, interaction: Mapping[str, Any]) -> None:
        if isinstance(model := interaction.get("model"), str):
            self._model = model or self._model
        if isinstance(usage := interaction.get("usage"), Mapping):
            self._usage |= usage
        if isinstance(status := interaction.get("status"), str):
            if status in ("failed", "cancelled"):
                errors = interaction.get("errors")
                raise _failure(errors[0] if isinstance(errors, list) and errors else interaction.get("error"), status)
            self._stop = status if status in _STOPS else None  # any other is not its last one

    def _whole(self, interaction: Mapping[str, Any]) -> Iterator[ModelEvent]:
        self._about(interaction)
        steps = interaction.get("steps")
        for index, step in enumerate(steps if isinstance(steps, list) else ()):
            if not isinstance(step, Mapping):
                raise ProtocolError("a step of Gemini's reply is not an object")
            yield from self._start(index, step)
            yield from self._close_step(index)

    def _start(self, index: int, step: Mapping[str, Any]) -> Iterator[ModelEvent]:
        opened = self._open[index] = _OpenStep(step, self._layout.chars)
        match opened.kind:
            case "function_call":
                yield from self._called(index, step)
            case "model_output":
                if error := step.get("error"):
                    raise _failure(error)
                for content in step.get("content") or ():
                    yield from self._content(opened, content)
            case "thought":
                for content in step.get("summary") or ():
                    yield from _thought(content)

    def _called(self, index: int, step: Mapping[str, Any]) -> Iterator[ModelEvent]:
        signature = step.get("signature")
        signed = (Artefact(PROVIDER, {"signature": signature}),) if signature else ()
        arguments = step.get("arguments")
        yield from self._calls.delta(
            index=index, id=step.get("id"), name=step.get("name"), arguments=arguments or None, artefacts=signed
        )

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        opened = self._open.get(index)
        if opened is None:
            raise ProtocolError("a piece of a step came before the step; nothing of the reply can be relied on")
        match delta:
            case {"type": "arguments_delta"}:
                yield from self._calls.delta(index=index, arguments=delta.get("arguments") or "")
            case {"type": "thought_signature"}:
                opened.add({"signature": delta.get("signature") or ""})
            case {"type": "thought_summary", "content": dict(content)}:
                opened.add({"summary": [content]})
                yield from _thought(content)
            case {"type": "text_annotation_delta"}:
                yield from _citations(opened.text, delta.get("annotations"))
            case {"type": str(kind)} if opened.kind == "model_output" or kind == "text":
                yield from self._content(opened, delta)
            case _:
                opened.add({key: value for key, value in delta.items() if key != "type"})

    def _content(self, opened: _OpenStep, content: Any) -> Iterator[ModelEvent]:
        match content:
            case {"type": "text", "text": str(text)}:
                opened.text.add(text)
                yield from self._emit_text(text)
                yield from _citations(opened.text, content.get("annotations"))
            case {"type": str(kind)}:
                self._layout.place({"type": "model_output", "content": [dict(content)]})
                media = media_of(content) if kind in _MEDIA else None
                if media is None:
                    yield from self._unknown.block(kind)
                else:
                    yield media
            case _:
                raise ProtocolError("a part of Gemini's reply cannot be read")

    def _close_step(self, index: int) -> Iterator[ModelEvent]:
        opened = self._open.pop(index, None)
        if opened is None:
            return
        match opened.kind:
            case "function_call":
                self._layout.called()
                yield from self._calls.complete(index)
            case "model_output":
                return
            case "thought":
                self._layout.place(opened.step)
            case kind:
                self._layout.place(opened.step)
                if not is_service_step(kind):
                    yield from self._unknown.block(kind)
                yield from service_step_events(self._services, opened.step)


class _OpenStep:
    """A step that is being written, exactly as the service wants it back."""

    def __init__(self, step: Mapping[str, Any], begins: int) -> None:
        self.step = dict(step)
        self.kind = str(step.get("type") or "")
        self.text = StepText(begins)

    def add(self, more: Mapping[str, Any]) -> None:
        """Put a piece to what is there: texts and lists go on, objects are joined."""
        for key, value in more.items():
            match self.step.get(key), value:
                case (str(before), str()):
                    self.step[key] = before + value
                case (list(before), list()):
                    self.step[key] = before + value
                case (dict(before), dict()):
                    self.step[key] = {**before, **value}
                case _:
                    self.step[key] = value


def _thought(content: Any) -> Iterator[ModelEvent]:
    match content:
        case {"text": str(text)} if text:
            yield ReasoningDelta(text=text)


def _citations(text: StepText, annotations: Any) -> Iterator[ModelEvent]:
    for annotation in annotations if isinstance(annotations, list) else ():
        if isinstance(annotation, Mapping):
            yield CitationAdded(citation=text.citation(annotation))


def _failure(error: Any, status: str = "") -> ModelError:
    facts: Mapping[str, Any] = error if isinstance(error, Mapping) else {"message": error or status or "no reason"}
    code = facts.get("code")
    known = _STATUS.get(code.lower()) if isinstance(code, str) else code
    if isinstance(known, int) and 400 <= known < 600:
        return error_for_status(known, msgspec.json.encode({"error": facts}))
    kind = ModelUnavailable if status == "cancelled" else ProtocolError
    return kind(f"Gemini broke off the reply: {masked_excerpt(str(facts.get('message') or dict(facts)), SHOWN)}")
