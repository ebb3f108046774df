"""Chat Completions into events: chunks of a stream, or the whole reply as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from handrail.core.calls import ToolCall
from handrail.core.errors import ModelUnavailable, ProtocolError
from handrail.core.events import CallRequested, ModelEvent, Notice, ReasoningDelta, ReplyFinished, TextDelta
from handrail.core.ids import NewId
from handrail.core.messages import StopReason, Usage
from handrail.core.model_request import ModelRequest
from handrail.models.call_assembly import CallAssembler, has_cut_arguments
from handrail.models.openai_chat.annotations import message_additions
from handrail.models.openai_chat.content_chunks import chunk_events
from handrail.models.openai_chat.echoed_fields import ReasoningDetails, call_artefacts, reply_artefacts
from handrail.models.openai_chat.reply_types import (
    ChatCallDelta,
    ChatChoice,
    ChatChunk,
    ChatFunctionDelta,
    ChatMessageDelta,
    read_chat_chunk,
)
from handrail.models.openai_chat.usage_and_errors import error_from_stream, error_notice_text, failed_call, usage_of
from handrail.models.profiles import Profile
from handrail.models.service_errors import masked_excerpt
from handrail.models.shared_encoding import merge_fields, names_of
from handrail.models.supported_features import drop_strict_nulls
from handrail.models.tool_names import OPENAI_NAMES
from handrail.models.unknown_kinds import UnknownKinds

ProfileOf = Callable[[str], Profile]

_STOPS: dict[str, StopReason] = {
    "stop": "end",
    "length": "max_tokens",
    "model_length": "max_tokens",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
_AROUND = frozenset(
    {"id", "object", "created", "model", "system_fingerprint", "service_tier", "provider", "choices", "obfuscation"}
)
_AROUND_DELTA = frozenset({"delta", "logprobs"})
_AROUND_CALL = frozenset({"index", "type", "function"})
"""What the chunks of one reply have in common, or nobody reads, at each depth."""
_BROKE_OFF = frozenset({"error", "insufficient_system_resource"})


class ChatDecoder:
    def __init__(self, request: ModelRequest, profile_of: ProfileOf, new_id: NewId, service: str = "openai") -> None:
        self._service = service
        self._profile_of = profile_of
        self._request = request
        self._calls = CallAssembler(new_id, names_of(request.tools, OPENAI_NAMES))
        self._is_by("")
        self._finish: str | None = None
        self._stopped_at: Any = None
        self._called = False
        self._writes_call: bool = False
        """Whether the last piece was one of a call, and not of text."""
        self._index: int | None = None
        """The index of the call that was last written."""
        self._refused = False
        self._spoke = False
        self._is_whole = False
        """Whether nothing was cut off, though no finish reason came."""
        self._thoughts: list[str] = []
        self._details = ReasoningDetails()
        self._extra: dict[str, Any] = {}
        self._usage = Usage()
        self._unknown = UnknownKinds()

    def feed(self, data: Mapping[str, Any], event: str = "") -> Iterable[ModelEvent]:
        if data.get("error"):
            return self._failed(data)
        chunk = read_chat_chunk(data, ChatChunk)
        if chunk.model and chunk.model != self._model:
            self._is_by(chunk.model)
        if chunk.usage:
            self._usage = usage_of(chunk.usage)
        elif chunk.x_groq is not None and isinstance(usage := chunk.x_groq.get("usage"), dict):
            self._usage = usage_of(usage)
        found: list[ModelEvent] = []
        if chunk.choices is None:
            if not chunk.usage:
                found.extend(self._unknown.event(data.get("object") or event or " ".join(sorted(data))))
            return found
        for choice in chunk.choices:
            # Further choices are further answers to the same question; one was asked for.
            if not choice.index:
                self._choice(choice, found, data)
        return found

    def _is_by(self, model: str) -> None:
        self._model = model
        self._profile = self._profile_of(model)
        self._calls.mend = partial(drop_strict_nulls, self._request, self._profile)

    def piece_of(self, data: Mapping[str, Any]) -> str | None:
        match data:
            case {"choices": [{"delta": dict(delta)} as choice]} if not _says_more(data, _AROUND):
                said = [key for key, value in delta.items() if value and key != "role"]
                if len(said) != 1 or _says_more(choice, _AROUND_DELTA):
                    return None
                match delta[said[0]], said[0]:
                    case str(text), "content":
                        return text
                    case [{"function": {"arguments": str(text)} as function} as call], "tool_calls":
                        return None if _says_more(call, _AROUND_CALL) or function.get("name") else text
        return None

    def more(self, texts: Sequence[str]) -> Iterable[ModelEvent]:
        if self._writes_call:
            return self._calls.more(texts, index=self._index)
        return [TextDelta(text=text) for text in texts if text]

    def done(self) -> None:
        self._is_whole = True

    def finish(self) -> Iterator[ModelEvent]:
        if self._finish is None:
            if not self._is_whole:
                words = self._unknown.words
                raise ProtocolError(f"the reply ended without a finish reason: it was cut off{words}")
            if not self._spoke and not self._called and not self._calls.is_open:
                raise ProtocolError("the reply ended without a finish reason, and says nothing")
            self._finish = "stop"  # Snowflake never says why it ends
        yield from self._ended(self._finish, self._calls.finish())  # what a server sent after its finish reason
        if self._finish not in _STOPS:
            yield Notice(text=f"the service ended the reply for a reason of its own: {self._finish!r}")
        yield ReplyFinished(
            stop=self._stop(self._finish),
            model=self._model,
            usage=self._usage,
            artefacts=reply_artefacts(self._service, "".join(self._thoughts), self._details.whole, self._extra),
        )

    def _failed(self, data: Mapping[str, Any]) -> Iterable[ModelEvent]:
        """An error of the service. A call that Groq refused is the model's mistake, which the model is told of."""
        failed = failed_call(data)
        if failed is None or self._called or self._calls.is_open:
            raise error_from_stream(data)
        self._finish = "tool_calls"
        name, arguments = failed
        notice = Notice(
            text=f"the service refused the model's call to {masked_excerpt(name)!r}: {error_notice_text(data)}"
        )
        return (notice, *self._calls.delta(index=0, name=name, arguments=arguments))

    def _choice(self, choice: ChatChoice, found: list[ModelEvent], data: Mapping[str, Any]) -> None:
        said = choice.delta
        self._calls.tells_early = said is not None  # in a stream, the end of a call is only known from the next
        if said is None:
            said = choice.message or ChatMessageDelta()
            self._is_whole = choice.message is not None and data.get("object") != "chat.completion.chunk"
        if (
            said.refusal
            or said.reasoning_content
            or said.reasoning
            or said.reasoning_details
            or said.extra_content
            or isinstance(said.content, list)
        ):
            found.extend(self._said(said))
            self._spoke = self._spoke or bool(found)
        elif said.content:  # the way of nearly every chunk
            self._spoke, self._writes_call = True, False
            found.append(TextDelta(text=said.content))
        if said.annotations or said.images:
            found.extend(message_additions(said.annotations, said.images))
        for call in said.tool_calls or ():
            if call.extra_content is not None:
                found.extend(self._signed(call))
            function = call.function or ChatFunctionDelta()
            id = None if call.id is None else str(call.id)
            self._index, self._writes_call = call.index, True
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

    def _signed(self, call: ChatCallDelta) -> Iterable[ModelEvent]:
        signed = call_artefacts(self._service, call.extra_content)
        name = call.function.name if call.function else None
        return self._calls.delta(index=call.index, id=str(call.id or ""), name=name, artefacts=signed)

    def _said(self, said: ChatMessageDelta) -> Iterator[ModelEvent]:
        if isinstance(said.extra_content, dict):
            self._extra = merge_fields(self._extra, said.extra_content)
        details = "" if said.reasoning_details is None else self._detailed(said.reasoning_details)
        for field in self._profile.reasoning_fields:
            if isinstance(thought := getattr(said, field, None), str) and thought:
                yield self._thought(thought)
                break  # some servers send the same under two names
        else:
            if details:
                yield ReasoningDelta(text=details)
        match said.content:
            case str(text) if text:
                yield TextDelta(text=text)
            case list(parts):
                yield from self._parts(parts)
        if said.refusal:
            self._refused = True
            yield TextDelta(text=said.refusal)

    def _detailed(self, pieces: Any) -> str:
        found = pieces if isinstance(pieces, list) else ()
        return "".join(self._details.add(piece) for piece in found if isinstance(piece, dict))

    def _parts(self, parts: list[Any]) -> Iterator[ModelEvent]:
        """Mistral's thinking models write a list."""
        for part in parts:
            match part:
                case {"type": "text", "text": str(text)} if text:
                    yield TextDelta(text=text)
                case {"type": "thinking", "thinking": [*thoughts]}:
                    yield from self._thoughts_of(thoughts)
                case _:
                    yield from chunk_events(part, self._unknown)

    def _thoughts_of(self, parts: list[Any]) -> Iterator[ModelEvent]:
        for part in parts:
            match part:
                case {"text": str(text)}:
                    if text:
                        yield self._thought(text)
                case _:
                    yield from chunk_events(part, self._unknown)

    def _thought(self, text: str) -> ModelEvent:
        self._thoughts.append(text)
        return ReasoningDelta(text=text)

    def _ended(self, reason: str, calls: Iterable[ModelEvent]) -> Iterator[ModelEvent]:
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
        """True if the arguments break off, or had not begun."""
        return has_cut_arguments(call) or call.id in self._calls.bare

    def _stop(self, reason: str) -> StopReason:
        stop = _STOPS.get(reason, "end")
        if self._refused:
            return "refusal"
        if stop == "end" and self._called:  # servers say "stop" after calls
            return "tool_calls"
        if stop == "end" and isinstance(self._stopped_at, str):
            return "stop_sequence"
        return stop


def _says_more(data: Mapping[str, Any], known: frozenset[str]) -> bool:
    """Whether there is anything in it beside what is known."""
    return any(value and key not in known for key, value in data.items())
