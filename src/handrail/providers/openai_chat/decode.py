"""Chat Completions into events: chunks of a stream, or the whole reply as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.errors import ModelUnavailable, ProtocolError
from handrail.core.events import CallRequested, ModelEvent, Notice, ReasoningDelta, ReplyFinished, TextDelta
from handrail.core.ids import NewId
from handrail.core.jsontext import JSONTextError, parse_object
from handrail.core.messages import Artefact, StopReason, Usage
from handrail.core.model import ModelRequest
from handrail.providers.assemble import CallAssembler
from handrail.providers.names import OPENAI_NAMES
from handrail.providers.offer import mend
from handrail.providers.openai_chat.encode import PROVIDER
from handrail.providers.openai_chat.reports import reported, usage_of
from handrail.providers.openai_chat.wire import Choice, Chunk, Function, Said, read
from handrail.providers.pieces import names_of
from handrail.providers.profiles import Profile

ProfileOf = Callable[[str], Profile]

_STOPS: dict[str, StopReason] = {
    "stop": "end",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
_BROKE_OFF = frozenset({"error", "insufficient_system_resource"})


class ChatDecoder:
    def __init__(self, request: ModelRequest, profile_of: ProfileOf, new_id: NewId) -> None:
        self._profile_of = profile_of
        self._calls = CallAssembler(
            new_id,
            names_of(request.tools, OPENAI_NAMES),
            mend=lambda name, arguments: mend(request, self._profile, name, arguments),
        )
        self._model = ""
        self._profile = profile_of("")
        self._finish: str | None = None
        self._stopped_at: Any = None
        self._called = False
        self._refused = False
        self._thoughts: list[str] = []
        self._usage = Usage()

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterable[ModelEvent]:
        if data.get("error"):
            raise reported(data)
        chunk = read(data, Chunk)
        if chunk.model and chunk.model != self._model:
            self._model = chunk.model
            self._profile = self._profile_of(chunk.model)
        if chunk.usage:
            self._usage = usage_of(chunk.usage)
        found: list[ModelEvent] = []
        for choice in chunk.choices or ():
            # Further choices are further answers to the same question; one was asked for.
            if not choice.index:
                self._choice(choice, found)
        return found

    def finish(self) -> Iterator[ModelEvent]:
        if self._finish is None:
            raise ProtocolError("the reply ended without a finish reason: it was cut off")
        yield from self._ended(self._finish, self._calls.finish())  # what a server sent after its finish reason
        if self._finish not in _STOPS:
            yield Notice(text=f"the service ended the reply for a reason of its own: {self._finish!r}")
        thoughts = "".join(self._thoughts)
        yield ReplyFinished(
            stop=self._stop(self._finish),
            model=self._model,
            usage=self._usage,
            artefacts=(Artefact(PROVIDER, {"reasoning": thoughts}),) if thoughts else (),
        )

    def _choice(self, choice: Choice, found: list[ModelEvent]) -> None:
        said = choice.delta or choice.message or Said()
        self._calls.tells_early = choice.delta is not None  # in a stream, the end of a call is only known from the next
        if said.content or said.refusal or said.reasoning_content or said.reasoning:
            found.extend(self._said(said))
        for call in said.tool_calls or ():
            function = call.function or Function()
            id = None if call.id is None else str(call.id)
            found.extend(self._calls.delta(index=call.index, id=id, name=function.name, arguments=function.arguments))
        if (older := said.function_call) is not None:  # still what some servers write
            found.extend(self._calls.delta(index=0, name=older.name, arguments=older.arguments))
        if choice.usage:  # Kimi's place for it
            self._usage = usage_of(choice.usage)
        if choice.finish_reason:
            self._finish = choice.finish_reason
            self._stopped_at = choice.stop_reason  # vLLM names the stop sequence
            # A call that is not whole yet stays open: some servers say why they end before they have ended.
            found.extend(self._ended(choice.finish_reason, self._calls.settled()))

    def _said(self, said: Said) -> Iterator[ModelEvent]:
        for field in self._profile.reasoning_fields:
            if isinstance(thought := getattr(said, field, None), str) and thought:
                yield self._thought(thought)
                break  # some servers send the same under two names
        match said.content:
            case str(text) if text:
                yield TextDelta(text=text)
            case list(parts):
                yield from self._parts(parts)
        if said.refusal:
            self._refused = True
            yield TextDelta(text=said.refusal)

    def _parts(self, parts: list[Any]) -> Iterator[ModelEvent]:
        """Mistral's thinking models write a list."""
        for part in parts:
            match part:
                case {"type": "text", "text": str(text)} if text:
                    yield TextDelta(text=text)
                case {"type": "thinking", "thinking": [*thoughts]}:
                    yield from self._thoughts_of(thoughts)

    def _thoughts_of(self, parts: list[Any]) -> Iterator[ModelEvent]:
        for part in parts:
            match part:
                case {"text": str(text)} if text:
                    yield self._thought(text)

    def _thought(self, text: str) -> ModelEvent:
        self._thoughts.append(text)
        return ReasoningDelta(text=text)

    def _ended(self, reason: str, calls: Iterator[ModelEvent]) -> Iterator[ModelEvent]:
        """The reply is whole, so its calls are; but for one that a limit has cut."""
        if reason in _BROKE_OFF:
            raise ModelUnavailable(f"the service broke off the reply: {reason}")
        whole = _STOPS.get(reason) not in ("max_tokens", "content_filter")
        for event in calls:
            if isinstance(event, CallRequested) and not whole and self._is_cut(event.call):
                yield Notice(text=f"the call to {event.call.name!r} was cut off ({reason}); it is not made")
                continue
            self._called = self._called or isinstance(event, CallRequested)
            yield event

    def _is_cut(self, call: ToolCall) -> bool:
        """Whether the arguments break off, or had not begun."""
        try:
            parse_object(str(call.arguments))
        except JSONTextError:
            return True
        return call.id in self._calls.bare

    def _stop(self, reason: str) -> StopReason:
        stop = _STOPS.get(reason, "end")
        if self._refused:
            return "refusal"
        if stop == "end" and self._called:  # servers say "stop" after calls
            return "tool_calls"
        if stop == "end" and isinstance(self._stopped_at, str):
            return "stop_sequence"
        return stop
